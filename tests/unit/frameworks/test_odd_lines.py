"""Lines that break off, run together or are noise: no adapter fails on them, and none reads half a number."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tuner.frameworks import nemo_rl, openrlhf, pipelinerl, sglang, trl, vllm
from tuner.frameworks.base import Framework, LineFormat
from tuner.records import Line, Record

DATA = Path(__file__).parents[2] / "data"
MODULES = (nemo_rl, openrlhf, pipelinerl, sglang, trl, vllm)
FORMATS = [(m.FRAMEWORK, form) for m in MODULES for form in m.FRAMEWORK.formats]
NOISE = "'{}:,.0123456789eEnaNifTP[]()% s•=#"
SAMPLES = [
    (vllm.FRAMEWORK, "vllm/pr-37307-prefill/console.log"),
    (sglang.FRAMEWORK, "sglang/openclaw-underfilled/console.log"),
    (sglang.FRAMEWORK, "sglang/issue-1612-ramp/console.log"),
    (trl.FRAMEWORK, "trl/coder-console/console.log"),
    (trl.FRAMEWORK, "trl/async-1.9/console.log"),
    (openrlhf.FRAMEWORK, "openrlhf/0.11/serial.log"),
    (openrlhf.FRAMEWORK, "openrlhf/0.11/async.log"),
    (pipelinerl.FRAMEWORK, "pipelinerl/58d3934/trainer.log"),
]


def _values(form: LineFormat, text: str, cut: bool) -> dict[str, float]:
    parser = form.parser()
    items = [*parser.feed(Line(text, 1, cut=cut)), *parser.flush()]
    return {key: value for item in items if isinstance(item, Record) for key, value in item.values.items()}


@pytest.mark.parametrize(("framework", "path"), SAMPLES)
def test_a_line_that_breaks_off_anywhere_never_changes_a_figure(framework: Framework, path: str):
    text = (DATA / path).read_text(encoding="utf-8").splitlines()[-1]
    for form in framework.formats:
        whole = _values(form, text, cut=False)
        for end in range(len(text)):
            part = _values(form, text[:end], cut=True)
            assert part.items() <= whole.items(), text[:end][-60:]


@pytest.mark.parametrize(("framework", "form"), FORMATS, ids=lambda x: x.name)
@given(
    noise=st.text(max_size=300),
    marker=st.integers(0, 9),
    tail=st.text("'{}:,.0123456789eEnaNifTP[]()% s•=#", max_size=200),
)
def test_noise_around_a_marker_is_survived(framework: Framework, form: LineFormat, noise: str, marker: int, tail: str):
    parser = form.parser()
    text = noise + form.markers[marker % len(form.markers)] + tail
    items = [*parser.feed(Line(text, 1)), *parser.feed(Line(tail, 2, cut=True)), *parser.flush()]
    assert all(item.framework == framework.name for item in items)


@pytest.mark.parametrize(("framework", "form"), FORMATS, ids=lambda x: x.name)
def test_a_line_of_a_megabyte_is_survived(framework: Framework, form: LineFormat):
    parser = form.parser()
    for filler in ("x", "{'a': 1, ", "9", "[TP0 ", ", #token: 1"):
        list(parser.feed(Line(form.markers[0] + filler * (1_000_000 // len(filler)), 1)))
    list(parser.flush())
