"""What a real job said of itself (examples/live_job: real engines, a real trainer) is read and decided on as it was."""

import re
import shutil
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from policies.base import Verdict
from policies.controller import tick
from policies.diagnosis.verdict import diagnose
from policies.estimators import estimate
from policies.readings import of_one_setting
from policies.rules import Rules
from policies.state import State
from simulators.plant import Mode
from tests.servers import Respond, serving
from tuner.charter import decoded, rules_of
from tuner.ingest.reading import read
from tuner.journal import Entry, Journal
from tuner.live import LivePlant, source_at
from tuner.loop import replayed

DATA = Path(__file__).parents[2] / "data" / "live_job"
NOW_S = 1.8e9


@pytest.mark.parametrize(
    ("log", "gpus_trainer", "verdict"),
    [("trainer-limits", 1, Verdict.TRAINER_BOUND), ("engines-limit", 3, Verdict.GENERATION_BOUND)],
)
def test_a_real_job_s_own_log_tells_which_side_limits(log: str, gpus_trainer: int, verdict: Verdict) -> None:
    """Both were made so: one slice of four for the trainer and short answers, one for the engines and long ones."""
    reading = read([str(DATA / f"{log}.jsonl")])
    knobs = replace(reading.setpoints, gpus_trainer=gpus_trainer, gpus_generator=4 - gpus_trainer, overlap=True)
    topology = replace(reading.topology, mode=Mode.OVERLAPPED, gpus_total=4)
    assert diagnose(topology, knobs, estimate(topology, knobs, reading.snapshot)).verdict is verdict


@dataclass(frozen=True)
class Recorded:
    rules: Rules
    entries: list[Entry]


@pytest.fixture
def recorded(tmp_path: Path) -> Recorded:
    """From a copy: opening a journal may write."""
    copy = tmp_path / "recorded.journal"
    shutil.copy(DATA / "controlled.journal", copy)
    with closing(Journal(copy)) as journal:
        return Recorded(rules_of(decoded(journal.charter() or "")), list(journal.entries()))


def test_decisions_on_a_real_job_s_observations_are_the_same_again(recorded: Recorded, tmp_path: Path) -> None:
    """Anew by today's law, through a journal on disk and back: byte for byte."""
    state = State()
    with closing(Journal(tmp_path / "anew.journal")) as anew:
        for entry in recorded.entries:
            state, decision = tick(recorded.rules, state, entry.seen, entry.commands, entry.at_s)
            anew.commit(Entry(entry.at_s, entry.seen, entry.commands, state, decision))
        entries = list(anew.entries())
    assert len(entries) > 10
    assert list(replayed(recorded.rules, entries, State())) == []


def test_the_engines_of_a_real_job_are_seen_step_by_step(recorded: Recorded) -> None:
    """Through Prometheus the trainer's steps and the engines' scrapes come apart."""
    for seen, least in ((recorded.entries[0].seen, 10), (recorded.entries[-1].seen, 3)):
        steps = [row.values for row in of_one_setting(seen.snapshot) if "engines" in row.values]
        assert len(steps) > least
        assert {values["engines"] for values in steps} == {float(seen.in_force.gpus_generator or 0)}
        assert all(0.01 < values["tpot_s"] < 0.2 for values in steps)


def test_a_real_prefill_and_decode_engine_are_read_as_what_they_compute(tmp_path: Path) -> None:
    """KV that came from the prefill engine is computed once: it counts there, and is no hit of the other one's cache.

    From one page to the next 5 prompts of 630 tokens went through both: 512 of each came over in blocks.
    """
    pages = {name: [(DATA / f"{name}-{i}.prom").read_bytes() for i in (1, 2)] for name in ("prefill", "decode")}
    listed = tmp_path / "engines.txt"
    with (
        serving(one_after_the_other(pages["prefill"])) as first,
        serving(one_after_the_other(pages["decode"])) as second,
    ):
        listed.write_text("".join(f"{server.url.removeprefix('http://')}\n" for server in (first, second)))
        with closing(LivePlant([source_at(f"scrape+file:{listed}")], deadline_s=30.0)) as plant:
            plant.observe(NOW_S)
            seen = plant.observe(NOW_S + 10.0)
    snapshot = seen.snapshot
    assert snapshot.get("engines") == 2.0
    computed = {name: _computed(pages[name]) for name in pages}
    assert computed == {"prefill": 5 * 630.0, "decode": 5 * 118.0}
    assert snapshot.get("prompt_tokens_per_s") == pytest.approx(sum(computed.values()) / 10.0, rel=0.02)
    assert (snapshot.get("prefix_hit_frac") or 0.0) < 0.05
    made = sum(_grown(pages[name], r"vllm:generation_tokens_total\{") for name in pages)
    assert snapshot.get("decode_tokens_per_s") == pytest.approx(made / 10.0, rel=0.02)


def one_after_the_other(pages: list[bytes]) -> Respond:
    """The first page to whom asks first, the last to all others."""
    left = list(pages)
    return lambda _: left.pop(0) if len(left) > 1 else left[0]


def _computed(both: list[bytes]) -> float:
    return _grown(both, r"vllm:prompt_tokens_by_source_total\{[^}]*local_compute")


def _grown(both: list[bytes], metric: str) -> float:
    first, second = (float(re.findall(rf"(?m)^{metric}.* (\S+)$", page.decode())[0]) for page in both)
    return second - first
