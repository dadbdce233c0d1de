"""Every framework and engine that is read, in the order in which ties of detection are broken."""

from importlib import import_module

from tuner.errors import ConfigError
from tuner.frameworks.base import Framework

FILES = (
    "verl",
    "easyr1",
    "slime",
    "prime_rl",
    "trl",
    "nemo_rl",
    "openrlhf",
    "pipelinerl",
    "tinker",
    "skyrl",
    "areal",
    "roll",
    "rlinf",
    "open_instruct",
    "vllm",
    "sglang",
    "routers",
)
"""Files of this folder that hold a FRAMEWORK; a new one is one line here."""

FRAMEWORKS: tuple[Framework, ...] = tuple(import_module(f"tuner.frameworks.{name}").FRAMEWORK for name in FILES)
"""All of them, read once."""


def by_name(name: str) -> Framework | None:
    """The framework of that name; dashes, underscores and case do not matter (`prime-rl`, `NeMo_RL`). None: unknown.

    `package.module:NAME` is anybody's own. Raises ConfigError where that is none.
    """
    if ":" in name:
        return _imported(name)
    wanted = _plain(name)
    return next((framework for framework in FRAMEWORKS if _plain(framework.name) == wanted), None)


def _imported(path: str) -> Framework:
    module, _, name = path.partition(":")
    try:
        found = vars(import_module(module)).get(name)
    except (ImportError, ValueError) as error:
        raise ConfigError(f"framework {path}: {error}; its folder must be on PYTHONPATH") from None
    if not isinstance(found, Framework):
        raise ConfigError(f"framework {path}: {module} holds no Framework of the name {name!r}; docs/extending.md")
    return found


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(".", "").casefold()
