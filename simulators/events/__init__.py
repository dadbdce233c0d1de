"""The discrete-event engine, compiled by numba. `engine` is its face; loading any part of it loads numba."""
