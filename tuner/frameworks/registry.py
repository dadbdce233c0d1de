"""All frameworks and engines. A new one is one file and one line here."""

from tuner.frameworks import nemo_rl, openrlhf, pipelinerl, sglang, tinker, trl, verl, vllm
from tuner.frameworks.base import Framework

FRAMEWORKS: tuple[Framework, ...] = (
    verl.FRAMEWORK,
    trl.FRAMEWORK,
    nemo_rl.FRAMEWORK,
    openrlhf.FRAMEWORK,
    pipelinerl.FRAMEWORK,
    tinker.FRAMEWORK,
    vllm.FRAMEWORK,
    sglang.FRAMEWORK,
)
"""Where two look equally likely, the earlier one it is."""


def by_name(name: str) -> Framework | None:
    return next((f for f in FRAMEWORKS if f.name == name), None)
