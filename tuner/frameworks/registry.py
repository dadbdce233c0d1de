"""Every framework and engine that is read, in the order in which ties of detection are broken."""

from tuner.frameworks import (
    easyr1,
    nemo_rl,
    openrlhf,
    pipelinerl,
    prime_rl,
    sglang,
    slime,
    tinker,
    trl,
    verl,
    vllm,
)
from tuner.frameworks.base import Framework

FRAMEWORKS: tuple[Framework, ...] = (
    verl.FRAMEWORK,
    easyr1.FRAMEWORK,
    slime.FRAMEWORK,
    prime_rl.FRAMEWORK,
    trl.FRAMEWORK,
    nemo_rl.FRAMEWORK,
    openrlhf.FRAMEWORK,
    pipelinerl.FRAMEWORK,
    tinker.FRAMEWORK,
    vllm.FRAMEWORK,
    sglang.FRAMEWORK,
)


def by_name(name: str) -> Framework | None:
    """The framework of that name; dashes, underscores and case do not matter (`prime-rl`, `NeMo_RL`). None: unknown."""
    wanted = _plain(name)
    return next((framework for framework in FRAMEWORKS if _plain(framework.name) == wanted), None)


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").replace(".", "").casefold()
