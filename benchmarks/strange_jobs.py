"""Jobs that nobody drew up for a law: scenario files with sizes, workloads, plugs, publications and drifts at random.

The shipped scenarios are stories that were thought of; a law that is good on them alone knows them too well. Half of
what comes out here has little to gain, some of it stands outside what formulas can do (drains, aborts, stale groups
thrown away, pools that overflow), and none of it was looked at when the law's numbers were chosen.

usage: python -m benchmarks.strange_jobs FOLDER [--count 20] [--seed 1]
       equipoise evaluate --quick --policies predictive --scenarios FOLDER
"""

import argparse
import sys
from pathlib import Path
from random import Random
from typing import Any

import tomlkit

from tuner.scenario_files import load

SLOTS, STEP_S, SLOWEST_STEP_S = 64, 0.012, 0.0184
"""Of an engine: slots, and seconds of a decode step with none and all of them taken."""
STALENESS_ROOM = 2
"""Times the bound that is set, the user's hard one."""


def job(draw: Random, title: str) -> dict[str, Any]:
    """One scenario. Its best split lies anywhere, and so does the one that it starts with."""
    per_engine = draw.choice([1, 2, 4, 8])
    total = per_engine * draw.choice([8, 12, 16, 32, 64, 128])
    unit = max(per_engine, draw.choice([per_engine, 8]) if total >= 32 else per_engine)
    trainer = min(max(unit, unit * round(total * draw.uniform(0.2, 0.7) / unit)), total - unit)
    group = draw.choice([4, 8, 16])
    batch = group * draw.choice([8, 16, 32, 64])
    tokens = draw.choice([400, 1500, 4000, 9000])
    cap = tokens * draw.choice([4, 8])
    several_turns, in_flight_update = draw.random() < 0.4, draw.random() < 0.5
    bound = draw.choice([1, 2, 4, 8])
    found: dict[str, Any] = {
        "title": title,
        "horizon": {"steps": draw.choice([120, 200])},
        "topology": {
            "mode": "overlapped",
            "gpus_total": total,
            "gpus_per_engine": per_engine,
            "trainer_gpu_step": unit,
            "trainer_gpus_min": unit,
            "trainer_resize": "ok",
            "restart_s": draw.choice([60, 200, 400]),
        },
        "setpoints": {
            "gpus_trainer": trainer,
            "gpus_generator": total - trainer,
            "group_size": group,
            "batch_rollouts": batch,
            "staleness_bound": bound,
            "sync_interval": 1,
            "filter_zero_adv": draw.random() < 0.5,
            "in_flight_update": in_flight_update,
            **draw.choice([{}, {"oversampling_ratio": 1.5}, {"partial_rollout": True}, {"max_in_flight": 3 * batch}]),
        },
        "workload": _workload(draw, tokens, cap, several_turns),
        "stations": {
            "engine": {
                "slots": SLOTS,
                "kv_tokens": int(SLOTS * tokens * draw.choice([1.5, 4, 10])) + 4 * cap + 20_000,
                "prefill_s_per_token": draw.choice([2e-5, 5e-5]),
                "prefill": "chunked",
                "step": {"table": [[0, STEP_S], [SLOTS, SLOWEST_STEP_S]]},
            },
            "trainer": _trainer(draw, total, per_engine),
            "sync": {
                "seconds": draw.choice([1, 5, 20]),
                "mode": "in-flight" if in_flight_update else draw.choice(["drain", "abort"]),
            },
            "admission": _admission(draw, batch // group),
        },
        "bounds": {"staleness_max": STALENESS_ROOM * bound},
        "measurement": {"noise_sigma": draw.choice([0.02, 0.05, 0.1])},
        "move": _moves(draw),
    }
    if several_turns and draw.random() < 0.5:
        limit = batch * draw.choice([1, 3])
        found["stations"]["sandboxes"] = {"start_s": draw.choice([2, 10]), "live_limit": limit, "failure_frac": 0.01}
    found["drift"] = _drifts(draw, found, several_turns)
    return found


def _workload(draw: Random, tokens: int, cap: int, several_turns: bool) -> dict[str, Any]:
    found: dict[str, Any] = {
        "prompt": {"mean_tokens": draw.choice([200, 800, 3000]), "sigma": 0.5, "between_prompt_frac": 1.0},
        "response": {
            "mean_tokens": tokens,
            "sigma": draw.choice([0.5, 0.8, 1.1]),
            "max_tokens": cap,
            "between_prompt_frac": draw.choice([0.2, 0.6]),
        },
        "solve": {
            "parts": [{"weight": 1, "a": round(draw.uniform(0.5, 3.0), 2), "b": round(draw.uniform(0.5, 3.0), 2)}]
        },
    }
    if several_turns:
        found["turns"] = {"mean": draw.choice([2, 5, 10]), "max_turns": 40}
        found["tool"] = {"mean_s": draw.choice([0.5, 3.0, 10.0])}
        found["tool_tokens"] = {"mean_tokens": 200, "sigma": 0.5}
    return found


def _trainer(draw: Random, total: int, per_engine: int) -> dict[str, Any]:
    """As fast as the generator on some split between 35 and 80 % of the GPUs, within 40 %."""
    generator = min(
        total - per_engine, max(per_engine, per_engine * round(total * draw.uniform(0.35, 0.8) / per_engine))
    )
    tokens_per_s = SLOTS / SLOWEST_STEP_S * draw.uniform(0.3, 1.0) * generator / per_engine
    return {
        "base_s": draw.choice([1, 5, 15]),
        "gpu_s_per_token": (total - generator) ** 0.85 / tokens_per_s * draw.uniform(0.7, 1.4),
        "exponent": draw.choice([0.7, 0.85, 0.95]),
    }


def _admission(draw: Random, groups: int) -> dict[str, Any]:
    plug = draw.choice(["wip-cap", "wip-cap", "buffer-cap", "drop-oldest", "discard-stale", "per-sync"])
    limited = plug in ("buffer-cap", "drop-oldest", "per-sync")
    return {"plug": plug, **({"limit_groups": groups * draw.choice([2, 4])} if limited else {})}


def _moves(draw: Random) -> list[dict[str, Any]]:
    how = draw.choice([{}, {"change": "restart"}])
    sides: tuple[dict[str, Any], ...] = (
        {"knob": "gpus_trainer", "actuation_s": draw.choice([20, 120, 300]), "failure_frac": 0.02},
        {"knob": "gpus_generator", "actuation_s": 60},
    )
    return [*(side | how for side in sides), {"knob": "max_in_flight"}]


def _drifts(draw: Random, found: dict[str, Any], several_turns: bool) -> list[dict[str, Any]]:
    start = draw.randint(5, 60)
    end = start + draw.choice([1, 20, 80])
    tokens, trainer = found["workload"]["response"]["mean_tokens"], found["stations"]["trainer"]
    longer = draw.choice([1.0, 1.5, 2.0, 3.0, 0.5])
    drifts = []
    if longer != 1.0:
        drifts.append({"path": "workload.response.mean_tokens", "to": tokens * longer, "start": start, "end": end})
    if several_turns and draw.random() < 0.6:
        drifts.append({"path": "workload.turns.mean", "to": draw.choice([4, 8, 16]), "start": start, "end": end + 20})
    if draw.random() < 0.3:
        to = trainer["gpu_s_per_token"] * draw.choice([0.6, 1.6])
        drifts.append({"path": "stations.trainer.gpu_s_per_token", "to": to, "start": end + 10, "end": end + 12})
    return drifts


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.strange_jobs", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    for i in range(given.count):
        path = given.folder / f"strange-{given.seed}-{i:02}.toml"
        path.write_text(tomlkit.dumps(job(Random(f"{given.seed}/{i}"), f"Strange job {given.seed}/{i}")))
        load(str(path))  # each is a scenario
    print(f"{given.count} scenarios in {given.folder}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
