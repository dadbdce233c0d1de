"""What the house is kept with; none of it is shipped in the wheel."""
