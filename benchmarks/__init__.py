"""The published figures of the command line: seconds and peak memory, printed, never tested."""
