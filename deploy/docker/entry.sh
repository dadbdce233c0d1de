#!/bin/sh
# The simulator's compiled code goes where it can be written: numba refuses a cache that cannot.
set -eu
if [ ! -d "$NUMBA_CACHE_DIR" ]; then
    mkdir -p "$NUMBA_CACHE_DIR"
    cp -a /opt/equipoise/cache/. "$NUMBA_CACHE_DIR"/
fi
exec python -I -m equipoise "$@"
