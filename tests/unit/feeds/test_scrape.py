"""Direct scraping: many targets at once, each with its own troubles."""

import re
import time
from contextlib import closing
from pathlib import Path

import pytest

from tests.servers import HTML, Answer, Asked, serving
from tuner.feeds.base import Poll
from tuner.feeds.http import Access
from tuner.feeds.scrape import Scrape
from tuner.frameworks.registry import FRAMEWORKS
from tuner.live import LivePlant, source_at
from tuner.records import Record, Remark

NOW_S = 1.8e9
TICK_S = 1000.0
"""Far longer than any answer takes on a busy machine."""
DEADLINE_S = 30.0
ENGINE = b'vllm:num_requests_running{engine="0",model_name="m"} 12\nvllm:kv_cache_usage_perc{engine="0"} 0.5\n'


def respond(asked: Asked) -> Answer | bytes | None:
    """One path for each way to answer."""
    match asked.path:
        case "/500":
            return Answer(b"oops", 500)
        case "/html":
            return Answer(HTML, 200, {"Content-Type": "text/html"})
        case "/cut":
            return None
        case "/slow":
            time.sleep(60.0)
        case "/drip":
            return Answer(ENGINE * 1000, drip_s=0.02)
        case "/empty":
            return b""
        case "/huge":
            return b"x" * (17 << 20)
        case "/prose":
            return b"hello, I am not a metrics server\nat all\n"
    return ENGINE


def polled(*paths: str, deadline_s: float = DEADLINE_S, access: Access | None = None) -> tuple[Poll, list[Asked]]:
    with serving(respond) as server:
        targets = tuple(f"{server.url}/{path}" for path in paths)
        with closing(Scrape("engines", lambda: targets, access)) as scrape:
            return scrape.poll({}, NOW_S, deadline_s), server.asked


def plant_at(source: str) -> LivePlant:
    return LivePlant([source_at(source)], deadline_s=DEADLINE_S)


def records(poll: Poll) -> list[Record]:
    return [item for item in poll.items if isinstance(item, Record)]


def test_every_target_is_a_speaker_of_its_own() -> None:
    poll, _ = polled("a", "b")
    assert len({r.labels["instance"] for r in records(poll)}) == 2
    assert len(records(poll)) == 4
    assert (poll.asked, poll.answered, poll.failure) == (2, 2, None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("500", "HTTP 500"),
        ("html", "web page instead of metrics"),
        ("cut", "broke off"),
        ("slow", "no answer in time"),
        ("drip", "when the time was over|no answer in time"),
        ("empty", "no sample in it"),
        ("huge", "over 16 MiB"),
        ("prose", "not a Prometheus sample"),
    ],
)
def test_what_one_target_does_not_answer_says_nothing_of_the_others(path: str, words: str) -> None:
    poll, _ = polled("good", path, deadline_s=3.0 if path in ("slow", "drip") else DEADLINE_S)
    assert (poll.asked, poll.answered, poll.failure) == (2, 1, None)
    assert len(records(poll)) == 2
    (remark,) = [item for item in poll.items if isinstance(item, Remark)]
    assert remark.code == "silent-targets"
    assert re.search(words, remark.detail)


def test_when_nobody_answers_that_is_a_failure() -> None:
    poll, _ = polled("500", "html")
    assert poll.items == ()
    assert poll.failure is not None
    assert "HTTP 500" in poll.failure
    assert "web page" in poll.failure


def test_a_token_goes_to_the_target_and_into_no_message(tmp_path: Path) -> None:
    (tmp_path / "token").write_text("s3cr3t")
    poll, asked = polled("500", access=Access(token_file=tmp_path / "token"))
    assert asked[0].headers["Authorization"] == "Bearer s3cr3t"
    assert "s3cr3t" not in repr(poll)


def test_engines_that_come_and_go_leave_no_trace() -> None:
    """Each poll meets engines of new names, as a fleet that restarts them does for a month."""
    sizes = []
    with serving(lambda asked: ENGINE.replace(b'"0"', f'"{asked.path[1:]}"'.encode())) as server:
        now = iter(range(100))
        with closing(Scrape("engines", lambda: tuple(f"{server.url}/{n}" for n in [next(now), 1000]))) as scrape:
            for tick in range(40):
                assert scrape.poll({}, NOW_S + tick, 5.0).answered == 2
                sizes.append(scrape.remembered)
    assert max(sizes[20:]) == max(sizes[:20])
    assert max(sizes) <= 2 * 2 * ENGINE.count(b"{")


def test_a_target_that_hangs_is_not_asked_again_meanwhile() -> None:
    with serving(respond) as server, closing(Scrape("engines", lambda: (f"{server.url}/slow",))) as scrape:
        first = scrape.poll({}, NOW_S, 0.3)
        second = scrape.poll({}, NOW_S + 0.3, 0.3)
        assert first.failure is not None
        assert second.failure is not None
        assert len(server.asked) <= 2


def test_a_dead_engine_leaves_the_pool_after_it_missed_two_scrapes(tmp_path: Path) -> None:
    dead: list[bool] = []

    def answer(asked: Asked) -> Answer | bytes:
        return (
            Answer(b"", 503) if dead and asked.path == "/1" else ENGINE.replace(b'"0"', f'"{asked.path[1]}"'.encode())
        )

    with serving(answer) as server:
        hosts = tmp_path / "hosts"
        hosts.write_text("".join(f"{server.url}/{i}\n" for i in range(3)))
        with closing(plant_at(f"scrape+file:{hosts}")) as plant:
            plant.observe(NOW_S)
            before = plant.observe(NOW_S + TICK_S).snapshot
            dead.append(True)
            for tick in range(2, 6):
                after = plant.observe(NOW_S + TICK_S * tick).snapshot
    assert (before.get("engines"), before.get("running")) == (3.0, 36.0)
    assert after.engine_rows[-1].values["engines"] == 2.0
    assert after.engine_rows[-1].values["running"] == 24.0
    assert "2 of 3 targets answered" in str([note.detail for note in after.notes])


def test_engines_of_several_sources_are_one_pool() -> None:
    gone: list[bool] = []

    def answer(asked: Asked) -> Answer | bytes:
        return Answer(b"", 503) if gone and asked.path == "/2" else ENGINE

    with serving(answer) as server:
        sources = [source_at(f"scrape+{server.url}/{place}") for place in range(3)]
        with closing(LivePlant(sources, deadline_s=DEADLINE_S)) as plant:
            plant.observe(NOW_S)
            before = plant.observe(NOW_S + TICK_S).snapshot
            gone.append(True)
            for tick in range(2, 6):
                after = plant.observe(NOW_S + TICK_S * tick).snapshot
    assert [row.values["engines"] for row in before.engine_rows] == [3.0, 3.0]
    assert before.get("running") == 36.0
    assert after.engine_rows[-1].values["engines"] == 2.0
    assert "feed-failed" in [note.code for note in after.notes]


def test_a_trainer_scraped_many_times_a_step_gives_one_row_a_step() -> None:
    steps = iter([1, 1, 1, 2, 2, 3, 3, 1, 1, 2])

    def answer(_: Asked) -> bytes:
        step = next(steps)
        return f"rl_step {step}\nrl_step_s {100 + step}\nrl_trainer_wait_s 20\n".encode()

    with (
        serving(answer) as server,
        closing(LivePlant([source_at(f"scrape+{server.url}")], deadline_s=DEADLINE_S)) as plant,
    ):
        for tick in range(7):
            seen = plant.observe(NOW_S + TICK_S * tick).snapshot
        assert [(row.step, row.values["step_s"]) for row in seen.rows] == [(1, 101.0), (2, 102.0), (3, 103.0)]
        assert seen.signals["step_s"].age_s == pytest.approx(TICK_S, rel=0.1)
        for tick in range(7, 10):
            seen = plant.observe(NOW_S + TICK_S * tick).snapshot
    assert [row.step for row in seen.rows] == [1, 2]
    assert "step-restart" in [note.code for note in seen.notes]


def test_prime_rls_own_gauges_give_the_seconds_of_a_step() -> None:
    clock = iter([(1, 0.0), (1, 0.0), (2, 100.0), (3, 220.0), (5, 440.0)])

    def answer(_: Asked) -> bytes:
        step, seconds = next(clock)
        return f"trainer_step {step}\ntrainer_last_step_timestamp_seconds {NOW_S + seconds}\n".encode()

    with (
        serving(answer) as server,
        closing(LivePlant([source_at(f"scrape+{server.url}")], deadline_s=DEADLINE_S)) as plant,
    ):
        for tick in range(5):
            seen = plant.observe(NOW_S + TICK_S * tick).snapshot
        assert plant.topology.framework == "prime-rl"
    assert [(row.step, row.weight, row.values.get("step_s")) for row in seen.rows] == [
        (2, 1, 100.0),
        (3, 1, 120.0),
        (5, 2, 110.0),
    ]


def test_the_contract_of_targets_says_what_they_serve(tmp_path: Path) -> None:
    with serving(respond) as server:
        source = source_at(f"scrape+{server.url}")
        assert source.contracting is not None
        with closing(source.feed):
            told = source.contracting.contract(FRAMEWORKS, DEADLINE_S)
    assert told.found == {"vllm": ("vllm:num_requests_running", "vllm:kv_cache_usage_perc")}
    assert "the trainer" in next(m.remedy for m in told.missing if m.what == "step_s")
