"""What each framework calls our signals and knobs: one file a framework, data first, code only for oddities."""
