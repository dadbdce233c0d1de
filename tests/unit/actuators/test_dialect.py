"""Orders in the frameworks' own words: what each would write, proved by its adapter's own reading."""

import pytest

from policies.settings import values
from simulators.plant import Setpoints
from tests.unit.actuators.sites import OPENRLHF, PRIME, SLIME, TRL, VERL, site_of
from tuner.actuators.dialect import facts, flat, translated
from tuner.actuators.site import Site

PRIME_NODES = {
    "deployment.num_train_nodes": 2,
    "deployment.num_infer_nodes": 6,
    "deployment.gpus_per_node": 8,
    "batch_size": 512,
    "max_inflight_rollouts": 768,
    "max_off_policy_steps": 8,
}


@pytest.mark.parametrize(
    ("name", "config", "wish", "own"),
    [
        ("verl", VERL, Setpoints(gpus_trainer=48, gpus_generator=208), {"trainer.nnodes": 6, "rollout.nnodes": 26}),
        (
            "verl",
            VERL,
            Setpoints(gpus_trainer=48, gpus_generator=208, engines=26),
            {"trainer.nnodes": 6, "rollout.nnodes": 26},
        ),
        ("verl", VERL, Setpoints(staleness_bound=1.0), {"async_training.staleness_threshold": 1}),
        ("slime", SLIME, Setpoints(gpus_generator=184), {"--rollout-num-gpus": 184}),
        ("slime", SLIME, Setpoints(oversampling_ratio=1.5), {"--over-sampling-batch-size": 288}),
        ("slime", SLIME, Setpoints(max_in_flight=768), {"--sglang-server-concurrency": 32}),
        ("slime", SLIME, Setpoints(gpus_trainer=64), {}),
        (
            "openrlhf",
            OPENRLHF,
            Setpoints(gpus_trainer=24, gpus_generator=40),
            {"--actor.num_nodes": 3, "--vllm.num_engines": 20},
        ),
        (
            "prime-rl",
            PRIME,
            Setpoints(gpus_trainer=2, gpus_generator=6),
            {"deployment.num_train_gpus": 2, "deployment.num_infer_gpus": 6},
        ),
        ("prime-rl", PRIME, Setpoints(oversampling_ratio=2.0), {"orchestrator.oversampling_factor": 2}),
        (
            "prime-rl",
            PRIME_NODES,
            Setpoints(gpus_trainer=24, gpus_generator=40),
            {"deployment.num_train_nodes": 3, "deployment.num_infer_nodes": 5},
        ),
        ("prime-rl", PRIME_NODES, Setpoints(staleness_bound=4.0), {"max_off_policy_steps": 4}),
        ("trl", TRL, Setpoints(max_in_flight=128), {"max_inflight_tasks": 128}),
    ],
)
def test_a_wish_is_said_in_the_frameworks_keys_and_reads_back(
    name: str, config: dict[str, object], wish: Setpoints, own: dict[str, object]
) -> None:
    site = site_of(name, config)
    said = translated(site, config, wish)
    assert not said.refused
    assert {setting.key: setting.after for setting in said.settings} == own
    assert site.framework is not None
    then = values(facts(site.framework, {**config, **{flat(s.key): s.after for s in said.settings}}))
    assert {name: then[name] for name in values(wish)} == values(wish)


@pytest.mark.parametrize(
    ("name", "config", "wish", "words"),
    [
        ("verl", VERL, Setpoints(gpus_trainer=52), "gpus_trainer=52 is 6.5 of trainer.nnodes; 48 and 56 are possible"),
        ("verl", VERL, Setpoints(overlap=False), "would then have overlap=True, not False"),
        ("verl", VERL, Setpoints(gpus_trainer=48, engines=25), "would then have engines=24, not 25"),
        ("verl", {}, Setpoints(gpus_trainer=48), "counts in trainer.n_gpus_per_node, which the configuration does not"),
        ("slime", SLIME, Setpoints(oversampling_ratio=1.3), "are possible"),
        ("slime", SLIME, Setpoints(max_in_flight=1000), "would then have max_in_flight=1536, not 1000"),
        ("trl", TRL, Setpoints(gpus_trainer=8), "would then have gpus_trainer=unknown"),
    ],
)
def test_what_a_framework_cannot_say_is_refused(
    name: str, config: dict[str, object], wish: Setpoints, words: str
) -> None:
    assert words in "; ".join(translated(site_of(name, config), config, wish).refused.values())


def test_without_a_framework_nothing_can_be_said() -> None:
    assert "set [job] framework" in translated(Site(), {}, Setpoints(gpus_trainer=8)).refused["gpus_trainer"]
