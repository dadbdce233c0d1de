"""One file a command; the command line imports each only when it is asked for."""
