"""The compiled event engine, loaded on first use: numba takes half a second to load and seconds to compile."""

from typing import Any


def engine() -> Any:
    """The module itself."""
    from simulators.events import engine as face

    return face


def use_cache(directory: str) -> None:
    """Keep compiled code in this directory. Call it before the first simulation; by default numba chooses one."""
    import numba

    numba.config.CACHE_DIR = directory


def is_warm() -> bool:
    """Whether the engine answers without compiling first. Loads it from the cache where it is there."""
    return bool(engine().is_warm())


def warm_up() -> None:
    """Compile what is not compiled yet; tens of seconds on a slow machine, nothing when warm."""
    engine().warm_up()


def multi_server(servers: int, arrivals_per_s: float, service_s: float, customers: int, seed: int = 0) -> float:
    """Mean wait of an M/M/c queue on the engine's own heap: two events a customer."""
    return float(engine().multi_server(servers, arrivals_per_s, service_s, customers, seed))
