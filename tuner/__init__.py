"""Top floor: bytes in, words and effects out. Sources, frameworks, reports and the command line."""
