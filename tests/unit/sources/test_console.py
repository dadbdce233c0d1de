"""Console logs: what formats get to see, and what is found without any."""

from collections.abc import Callable, Iterable, Iterator

import pytest

from tuner.records import Configuration, Item, Line, Record, Remark
from tuner.sources import console
from tuner.sources.base import Format, Opened
from tuner.sources.console.reading import BLOCK_LINES_MAX, PARSERS_MAX

Make = Callable[..., Opened]


class Echo:
    """A parser that tells each line it was fed, and at the end how many there were."""

    def __init__(self) -> None:
        self.count = 0

    def feed(self, line: Line) -> Iterable[Item]:
        self.count += 1
        return (Record({"count": float(self.count)}, labels={"text": line.text, "who": line.speaker or ""}),)

    def flush(self) -> Iterable[Item]:
        return (Configuration({"lines": self.count}),)


class Brittle(Echo):
    """A parser with a bug for the word `odd`."""

    def feed(self, line: Line) -> Iterable[Item]:
        return (Record({"v": float(line.text.split("odd")[1])}),) if "odd" in line.text else ()

    def flush(self) -> Iterable[Item]:
        return ()


ECHO = Format("echo", "line", ("step:",), Echo)
BLOCK = Format("echo", "block", ("Timing:",), Echo, block=True)


def records(items: Iterable[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def test_a_format_sees_the_lines_with_its_marker_each_speaker_apart(opened: Make) -> None:
    log = "(A pid=1) step:1\nnoise\n(B pid=2) step:1\n(A pid=1) step:2\r\n"
    found = records(console.read(opened(log), [ECHO]))
    assert [(r.labels["who"], r.labels["text"], r.values["count"]) for r in found] == [
        ("A pid=1", "step:1", 1.0),
        ("B pid=2", "step:1", 1.0),
        ("A pid=1", "step:2", 2.0),
    ]
    assert [r.origin for r in found] == ["job.log:1", "job.log:3", "job.log:4"]


def test_a_block_format_sees_the_lines_after_its_marker_of_that_speaker_only(opened: Make) -> None:
    log = "before\n(A pid=1) Timing:\n(B pid=2) other\n(A pid=1) step 66.55s\n"
    found = records(console.read(opened(log), [BLOCK]))
    assert [r.labels["text"] for r in found] == ["Timing:", "step 66.55s"]


def test_a_block_ends_after_so_many_lines_and_opens_again_at_its_marker(opened: Make) -> None:
    log = "Timing:\n" + "x\n" * (BLOCK_LINES_MAX + 50) + "Timing:\ny\n"
    found = records(console.read(opened(log), [BLOCK]))
    assert len(found) == BLOCK_LINES_MAX + 3
    assert [r.labels["text"] for r in found[-2:]] == ["Timing:", "y"]


def test_every_parser_is_flushed_also_with_more_speakers_than_are_kept(opened: Make) -> None:
    speakers = PARSERS_MAX + 40
    items = list(console.read(opened("".join(f"(A pid={i}) step:1\n" for i in range(speakers))), [ECHO]))
    assert sum(isinstance(item, Configuration) for item in items) == speakers


def test_comment_lines_never_count(opened: Make) -> None:
    log = "# step:1 source\n  # timing_s/gen: 1\n# {'a': 1, 'b/c': 2}\nstep:2\n"
    assert [r.labels["text"] for r in records(console.read(opened(log), [ECHO]))] == ["step:2"]


def test_a_format_that_fails_costs_its_line_and_is_told(opened: Make) -> None:
    items = list(console.read(opened("odd1\nodd x\nodd3\n"), [Format("f", "brittle", ("odd",), Brittle)]))
    assert [r.values["v"] for r in records(items)] == [1.0, 3.0]
    (remark,) = [item for item in items if isinstance(item, Remark)]
    assert remark.code == "format-failed"
    assert "job.log:2" in remark.detail


def test_a_log_without_metrics_says_how_much_was_read(opened: Make) -> None:
    (remark,) = console.read(opened("hello\nworld\n"), [ECHO])
    assert isinstance(remark, Remark)
    assert (remark.code, remark.origin) == ("nothing-recognised", "job.log:2")


def test_the_first_line_that_says_something_may_be_torn(opened: Make) -> None:
    class Torn(Echo):
        def feed(self, line: Line) -> Iterable[Item]:
            return (Record({"cut": float(line.cut)}),)

    log = "# source\n\n0.01 - step:1\n0.02 - step:2\n0.03 - step:3"
    found = records(console.read(opened(log), [Format("f", "torn", ("step:",), Torn)]))
    assert [r.values["cut"] for r in found] == [1.0, 0.0, 1.0]


def test_a_dict_of_an_unknown_framework_is_a_record(opened: Make) -> None:
    log = "(T pid=1) 2026-03-22 13:53:38 step 12: {'a/loss': np.float64(0.5), 'b': nan, 'name': 'x', 'ok': True}\n"
    (record,) = records(console.read(opened(log), []))
    assert {k: v for k, v in record.values.items() if v == v} == {"a/loss": 0.5, "ok": 1.0}
    assert record.values["b"] != record.values["b"]
    assert (record.step, record.labels, record.framework, record.cut) == (12, {"writer": "T pid=1"}, None, False)
    assert record.time_s == 1774187618.0


def test_json_on_a_log_line_is_a_record_with_its_paths(opened: Make) -> None:
    (record,) = records(console.read(opened('INFO {"step": 3, "time": {"gen": 1.5, "train": 2}}\n'), []))
    assert record.values == {"step": 3.0, "time/gen": 1.5, "time/train": 2.0}
    assert record.step == 3


def test_a_dict_that_breaks_off_keeps_its_whole_pairs(opened: Make) -> None:
    (record,) = records(console.read(opened("{'a/loss': 0.5, 'b': 1.5, 'c/d': 2, 'e': 3.1"), []))
    assert record.values == {"a/loss": 0.5, "b": 1.5, "c/d": 2.0, "e": 3.1}
    assert record.cut


def test_lists_of_pairs_are_records_when_they_look_like_metrics(opened: Make) -> None:
    log = (
        "step=3 loss=0.25 time/gen=12.5s, tok_per_s: 1e3\n"
        "loss=1 a=2 b=3\n"
        "at 12:34:56 x_y=1 z=2\n"
        "reward_mean=0.5 grad_norm=12% lr=1e-6 kl=0.1\n"
    )
    found = records(console.read(opened(log), []))
    assert [dict(r.values) for r in found] == [
        {"step": 3.0, "loss": 0.25, "time/gen": 12.5, "tok_per_s": 1000.0},
        {"reward_mean": 0.5, "lr": 1e-6, "kl": 0.1},
    ]
    assert found[0].step == 3


def test_one_pair_a_line_forms_one_record(case: Callable[[str], Opened]) -> None:
    (record,) = records(console.read(case("A05_verl_swe_2xA30_step1.txt"), []))
    assert record.values["timing_s/gen"] == 341.0
    assert record.values["timing_s/step"] == 541.0
    assert len(record.values) == 6


def test_a_key_that_returns_starts_the_next_record(opened: Make) -> None:
    log = "timing_s/gen: 1\ntiming_s/step: 2\ntiming_s/gen: 3\ntiming_s/step: 4\nend\ntiming_s/gen: 5\n"
    found = records(console.read(opened(log), []))
    assert [r.values["timing_s/gen"] for r in found] == [1.0, 3.0]


def test_a_wandb_summary_is_one_record_and_its_sparklines_are_none(opened: Make) -> None:
    log = (
        "wandb: Run history:\nwandb: timing_s/gen ▁▂▃\nwandb: reward ▁█\nwandb: \nwandb: Run summary:\n"
        "wandb:   timing_s/gen 72.02265\nwandb:   reward 0.5\nwandb:   mode online\nwandb:   step 12\n"
        "wandb: View run at https://example.org/runs/1\n"
    )
    (record,) = records(console.read(opened(log), []))
    assert record.values == {"timing_s/gen": 72.02265, "reward": 0.5, "step": 12.0}
    assert record.step == 12


def test_a_framework_that_takes_a_line_leaves_nothing_to_guess(opened: Make) -> None:
    found = records(console.read(opened("step:1 - a/b:1 - c_d:2\n"), [ECHO]))
    assert len(found) == 1
    assert found[0].values == {"count": 1.0}


def _origins(items: Iterable[Item]) -> Iterator[str]:
    return (item.origin for item in items)


@pytest.mark.parametrize("name", ["A04_verl_ppo_last_step_validation_bound.log", "A06_verl_long_tail_7412.log"])
def test_real_fragments_are_found_without_their_framework(name: str, case: Callable[[str], Opened]) -> None:
    assert all(origin.startswith(f"{name}:") for origin in _origins(console.read(case(name), [])))
    assert any("timing_s/step" in r.values for r in records(console.read(case(name), [])))


@pytest.mark.parametrize(
    "shape",
    [
        "{key}: {value}",
        " - {key}:{value}",
        "* {key} = {value}",
        "  - `{key}: {value}`",
        "| `{key}` | {value} |",
        "    '{key}': {value},",
    ],
)
def test_one_pair_a_line_may_be_a_list_a_table_or_a_dict(opened: Make, shape: str) -> None:
    pairs = {"timing_s/step": 93.5, "timing_s/gen": 24.5, "critic/score/mean": -0.25}
    text = "".join(shape.format(key=key, value=value) + "\n" for key, value in pairs.items())
    (record,) = [item for item in console.read(opened(text), ()) if isinstance(item, Record)]
    assert record.values == pairs
    assert record.step is None


def test_wide_punctuation_and_markdown_quotes_end_a_value(opened: Make) -> None:
    log = "- step 2\uff1a`timing_s/step=153.001`\uff0c`timing_s/gen=21.307`\uff0c`perf/throughput=1886.8`\u3002\n"
    (record,) = records(console.read(opened(log), ()))
    assert record.values == {"timing_s/step": 153.001, "timing_s/gen": 21.307, "perf/throughput": 1886.8}
    assert record.step == 2


def test_a_dict_printed_over_lines_may_hold_its_numbers_as_texts(opened: Make) -> None:
    log = "{'a/loss': '0.25',\n 'timing/step': '10.5000',\n 'trainer/epoch': 0}\n"
    (record,) = records(console.read(opened(log), ()))
    assert record.values == {"a/loss": 0.25, "timing/step": 10.5, "trainer/epoch": 0.0}
