"""A user's program as an actuator: what it may answer, and what becomes of one that hangs, floods, dies or lies."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

from simulators.plant import Order, Receipt, Setpoints, Status
from tests.unit.actuators.sites import PLAIN, SLIME, site_of
from tuner.actuators.base import Actuator
from tuner.actuators.registry import make
from tuner.actuators.site import Site
from tuner.errors import ConfigError

ORDER = Order(Setpoints(max_in_flight=512, oversampling_ratio=1.5), "d7.1", 3)


HEAD = """
import json, os, subprocess, sys, time
asked = json.load(sys.stdin)
def say(answer): print(json.dumps(answer))
"""


def program(folder: Path, body: str, site: Site = PLAIN, timeout_s: float = 20.0) -> Actuator:
    """An actuator whose program is `body`; `asked` is the question there, `say(answer)` prints."""
    path = folder / "turn.py"
    path.write_text(HEAD + body, encoding="utf-8")
    knobs = ["max_in_flight", "oversampling_ratio"]
    return make("command", {"argv": [sys.executable, str(path)], "knobs": knobs, "timeout_s": timeout_s}, site)


def told(folder: Path, body: str, timeout_s: float = 20.0) -> Receipt:
    actuator = program(folder, body, timeout_s=timeout_s)
    try:
        return actuator.apply(ORDER, 1.0)
    finally:
        actuator.close()


def reasons(receipt: Receipt) -> str:
    return "; ".join(outcome.reason for outcome in receipt.outcomes.values())


OBEDIENT = """
say({"outcomes": {k: {"status": "applied", "reason": "done"} for k in asked.get("setpoints", {})},
     "in_force": asked.get("setpoints", {})})
"""


def test_what_it_shows_in_force_is_applied(tmp_path: Path) -> None:
    assert told(tmp_path, OBEDIENT).status is Status.APPLIED


def test_it_is_told_the_order_in_our_words_and_in_the_frameworks(tmp_path: Path) -> None:
    body = f"open({str(tmp_path / 'asked.json')!r}, 'w').write(json.dumps(asked))\n{OBEDIENT}"
    actuator = program(tmp_path, body, site_of("slime", SLIME))
    actuator.apply(Order(Setpoints(oversampling_ratio=1.5), "d7.1", 3), 1.0)
    asked = json.loads((tmp_path / "asked.json").read_text())
    assert asked["setpoints"] == {"oversampling_ratio": 1.5}
    assert asked["settings"] == {"--over-sampling-batch-size": 288}
    assert asked["in_force"]["oversampling_ratio"] == 1.25
    assert (asked["schema"], asked["decision_id"], asked["fencing_token"]) == (1, "d7.1", 3)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("sys.exit(7)", "ended with code 7"),
        ("sys.stderr.write('no\\nquota'); sys.exit(1)", "ended with code 1: no quota"),
        ("os.kill(os.getpid(), 9)", "was ended by signal 9"),
        ("print('{')", "printed not JSON"),
        ("print('[]')", "printed no JSON object but list"),
        ("print('[' * 100000)", "printed not JSON"),
        ("print('x' * (2 << 20))", "printed over 1048576 bytes and was killed"),
        ("while True: print('x' * 65536)", "printed over 1048576 bytes and was killed"),
        ("say({})", "the answer has no `outcomes`"),
        ("say({'outcomes': {}})", "the answer says nothing of max_in_flight"),
        (
            "say({'outcomes': {'max_in_flight': {'status': 'great'}}})",
            "the answer has status='great' for max_in_flight",
        ),
        (OBEDIENT.replace('"in_force": asked.get("setpoints", {})', '"in_force": {}'), "does not show it in force"),
        (
            OBEDIENT.replace('asked.get("setpoints", {})})', '{"max_in_flight": 768, "oversampling_ratio": 1.5}})'),
            "says applied and shows max_in_flight=768 in force",
        ),
        (
            OBEDIENT.replace('asked.get("setpoints", {})})', '{"max_in_flight": float("nan")}})'),
            "says applied and does not show it in force",
        ),
    ],
)
def test_a_program_that_fails_or_lies_is_refused_with_the_reason(tmp_path: Path, body: str, words: str) -> None:
    receipt = told(tmp_path, body)
    assert receipt.status is Status.REFUSED
    assert words in reasons(receipt)


def test_a_half_applied_order_says_which_half(tmp_path: Path) -> None:
    body = """
if asked["action"] == "current": say({"in_force": {"max_in_flight": 1536}})
else: say({"outcomes": {"max_in_flight": {"status": "applied", "reason": "ok"},
                        "oversampling_ratio": {"status": "refused", "reason": "no such knob here"}},
           "in_force": {"max_in_flight": 512}})
"""
    receipt = told(tmp_path, body)
    assert receipt.outcomes["max_in_flight"].status is Status.APPLIED
    assert receipt.outcomes["oversampling_ratio"].reason == "no such knob here"
    assert receipt.status is Status.REFUSED


@pytest.mark.slow
@pytest.mark.parametrize("body", ["time.sleep(600)", "subprocess.Popen(['sleep', '600']).wait()"])
def test_a_program_that_hangs_is_killed_with_its_children(tmp_path: Path, body: str) -> None:
    note = tmp_path / "pid"
    body = f"open({str(note)!r}, 'w').write(str(os.getpgid(0)))\n{body}"
    receipt = told(tmp_path, body, timeout_s=4.0)
    assert "has not answered in 4 s and was killed" in reasons(receipt)
    _gone(int(note.read_text()))


@pytest.mark.slow
def test_what_a_program_leaves_behind_is_ended_too(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    body = f"child = subprocess.Popen(['sleep', '600'])\nopen({str(note)!r}, 'w').write(str(os.getpgid(0)))\n{OBEDIENT}"
    assert told(tmp_path, body).status is Status.APPLIED
    _gone(int(note.read_text()))


def _gone(group: int) -> None:
    """Nobody of the group is left, give or take the moment that the system needs to bury the dead."""
    for _ in range(100):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    raise AssertionError(f"process group {group} still lives")


def test_a_pending_change_is_waited_for_and_then_told_again(tmp_path: Path) -> None:
    count = tmp_path / "count"
    body = f"""
if asked["action"] == "current": say({{"in_force": {{"max_in_flight": 1536, "oversampling_ratio": 1.25}}}})
else:
    open({str(count)!r}, "a").write("x")
    soon = {{"status": "pending", "reason": "soon", "effective_at_s": 9.0}}
    say({{"outcomes": dict.fromkeys(asked["setpoints"], soon)}})
"""
    actuator = program(tmp_path, body)
    first = actuator.apply(ORDER, 1.0)
    assert first.outcomes["max_in_flight"].effective_at_s == 9.0
    assert actuator.apply(ORDER, 2.0).status is Status.PENDING
    assert count.read_text() == "x"
    assert actuator.apply(ORDER, 100.0).status is Status.PENDING
    assert count.read_text() == "xx"


@pytest.mark.parametrize("restarted", [False, True])
def test_a_program_is_told_to_go_back_also_while_the_old_setting_is_still_in_force(
    tmp_path: Path, restarted: bool
) -> None:
    """It is on its way to the new one: not told, it would arrive there after the move was given up."""
    told = tmp_path / "told"
    body = f"""
there = {{"max_in_flight": 1536, "oversampling_ratio": 1.25}}
outcomes = {{}}
if asked["action"] == "apply":
    open({str(told)!r}, "a").write(asked["decision_id"] + " ")
    soon = asked["setpoints"]["max_in_flight"] != 1536
    outcomes = dict.fromkeys(asked["setpoints"], {{"status": "pending" if soon else "applied", "reason": "so"}})
say({{"outcomes": outcomes, "in_force": there}})
"""
    actuator = program(tmp_path, body)
    assert actuator.apply(ORDER, 1.0).status is Status.PENDING
    back = Order(Setpoints(max_in_flight=1536, oversampling_ratio=1.25), "d7.0b", 3)
    assert (program(tmp_path, body) if restarted else actuator).apply(back, 400.0).status is Status.APPLIED
    assert told.read_text().split() == ["d7.1", "d7.0b"]


def test_an_unknown_setting_is_unknown_not_zero(tmp_path: Path) -> None:
    assert program(tmp_path, "sys.exit(1)").current() == Setpoints()
    assert program(tmp_path, "say({'in_force': {'max_in_flight': '512', 'overlap': 1}})").current() == Setpoints()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"knobs": ["max_in_flight"]}, "argv: Field required"),
        ({"argv": [], "knobs": ["max_in_flight"]}, "argv=[]"),
        ({"argv": ["x"], "knobs": ["max_in_flight"], "timeout_s": -1}, "timeout_s=-1"),
        ({"argv": ["x"], "knobs": ["max_in_flight"], "shell": True}, "shell=True: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_section_is_refused_with_key_and_value(options: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        make("command", options, PLAIN)
    assert words in str(refused.value)


def test_a_program_that_is_not_there_is_refused(tmp_path: Path) -> None:
    actuator = make("command", {"argv": [str(tmp_path / "none")], "knobs": ["max_in_flight"]}, PLAIN)
    assert "cannot be started" in reasons(actuator.apply(Order(Setpoints(max_in_flight=512), "d1.1"), 0.0))
