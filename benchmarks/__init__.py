"""The published figures of the command line and of the event engine: seconds and memory, printed, never tested."""
