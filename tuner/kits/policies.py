"""What every control law must keep, ours or a user's: `assert_conforms(MyPolicy())` in a test of your own.

from tuner.kits.policies import assert_conforms

def test_my_policy_conforms() -> None:
    assert_conforms(MyPolicy())
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path

from policies.control import Policy
from tuner.kits.questioning import Asking, World, main

DECIDE_S = 1.0
"""Seconds of a processor for one decision: a tick comes every few seconds, and a daemon answers people between two."""
ALL_S = 600.0
"""Seconds for all questions, where a law waits for something that nobody can stop."""


def assert_conforms(policy: Policy, decide_s: float = DECIDE_S) -> None:
    """Raises AssertionError with the rule that is broken, the view that shows it, and what to do instead."""
    _frozen_with_bounds(policy)
    asking = _sent(Asking(policy, decide_s))
    here = _answers(asking, World.HERE)
    with tempfile.TemporaryDirectory() as away:
        there = _answers(asking, World.ELSEWHERE, Path(away))
    for name, answer in here.items():
        assert answer == there[name], (
            f"{name}: another process, asked in another order, answers {there[name]} instead of {answer}: "
            "a policy remembers by `memory` only, and knows nothing but its view"
        )


def _frozen_with_bounds(policy: Policy) -> None:
    assert is_dataclass(policy), "a policy is a dataclass: its fields are its parameters"
    assert not isinstance(policy, type)
    try:
        same = hash(policy) == hash(replace(policy))
    except TypeError:
        same = False
    assert same, "a policy is frozen and hashable: @dataclass(frozen=True), its fields numbers, words or tuples"
    for f in fields(policy):
        if "low" in f.metadata:
            assert f.metadata["low"] < f.metadata["high"], f"{f.name}: the bounds of its metadata are (low, high)"


def _sent(asking: Asking) -> bytes:
    try:
        return pickle.dumps(asking)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise AssertionError(f"a policy is a class of a module, so that any process can have it: {error}") from error


def _answers(asking: bytes, world: World, folder: Path | None = None) -> Mapping[str, str]:
    """What the law says in a process of its own, in another folder and environment where one is given."""
    path = os.pathsep.join(os.path.abspath(place) for place in sys.path)
    env = {**os.environ, "PYTHONPATH": path, "PYTHONHASHSEED": "1"}
    if folder is not None:
        env |= {"PYTHONHASHSEED": "2", "HOME": str(folder), "TZ": "Pacific/Kiritimati", "USER": "nobody"}
    try:
        done = subprocess.run(
            [sys.executable, "-c", f"from {main.__module__} import main; main({world.value!r})"],
            input=asking,
            capture_output=True,
            check=False,
            cwd=folder,
            env=env,
            timeout=ALL_S,
        )
    except subprocess.TimeoutExpired:
        raise AssertionError(f"no end after {ALL_S:g} s: decide waits or takes too long") from None
    assert done.returncode == 0, f"another process cannot run it: {done.stderr.decode(errors='replace')[-500:]}"
    told = json.loads(done.stdout)
    assert "broken" not in told, told["broken"]
    return dict(told["answers"])
