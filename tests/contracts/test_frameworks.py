"""What every framework's adapter must keep: names that exist, shares as fractions, parsers that survive any line."""

from collections import Counter
from collections.abc import Iterator
from math import inf, isfinite, nan
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policies.knobs import KNOBS
from simulators.plant import Mode, Setpoints, Topology
from simulators.signals import SIGNALS
from tuner.frameworks.base import Alias, Framework, LineFormat, Observed
from tuner.frameworks.registry import FRAMEWORKS, by_name
from tuner.records import Configuration, Item, Line, Record, Remark

DATA = Path(__file__).parents[1] / "data"
every_framework = pytest.mark.parametrize("framework", FRAMEWORKS, ids=lambda f: f.name)
every_format = pytest.mark.parametrize(
    ("framework", "form"), [(f, form) for f in FRAMEWORKS for form in f.formats], ids=lambda x: x.name
)
ODD_NUMBERS = st.one_of(st.floats(allow_nan=True, allow_infinity=True), st.sampled_from([0.0, -1.0, nan, inf, 1e308]))


def texts_for(form: LineFormat) -> st.SearchStrategy[str]:
    """Lines around a marker: any characters, and such as metrics lines are made of."""
    noise = st.one_of(st.text(max_size=80), st.text("'\"{}[]()=:,.|%/#0123456789eEnaif-+_ sStep", max_size=120))
    return st.tuples(noise, st.sampled_from(form.markers), noise).map("".join)


def fed(form: LineFormat, texts: list[str], cut: bool = False) -> Iterator[Item]:
    parser = form.parser()
    for number, text in enumerate(texts, start=1):
        yield from parser.feed(Line(text, number, cut=cut))
    yield from parser.flush()


@every_framework
def test_every_alias_names_a_signal(framework: Framework):
    unknown = [alias.key for alias in framework.aliases if alias.signal not in SIGNALS]
    assert unknown == []
    assert set(framework.computed_trust) <= SIGNALS.keys()


@every_framework
def test_no_alias_is_given_twice(framework: Framework):
    counts = Counter((a.key, a.signal, a.only) for a in framework.aliases)
    assert [key for key, n in counts.items() if n > 1] == []


@every_framework
def test_trust_is_a_share_and_scales_are_finite(framework: Framework):
    assert all(0.0 < alias.trust <= 1.0 for alias in framework.aliases)
    assert all(isfinite(alias.scale) and alias.scale != 0.0 for alias in framework.aliases)


@every_framework
def test_percentages_are_scaled_to_fractions(framework: Framework):
    percent = [a for a in framework.aliases if "percent" in a.key.casefold() or a.key.endswith("_pct")]
    assert [a.key for a in percent if SIGNALS[a.signal].high == 1.0 and not a.scale <= 0.01] == []


@every_framework
def test_times_in_milliseconds_are_scaled_to_seconds(framework: Framework):
    def in_ms(alias: Alias) -> bool:
        return SIGNALS[alias.signal].unit == "s" and any(p.endswith("_ms") for p in alias.key.split("/"))

    assert [a.key for a in framework.aliases if in_ms(a) and a.scale > 1e-3] == []


@every_framework
def test_every_knob_is_one_of_the_products_and_has_a_key(framework: Framework):
    assert {knob.knob for knob in framework.knobs} <= KNOBS.keys()
    assert all(knob.key for knob in framework.knobs)


@every_framework
def test_names_are_unique_and_found_however_written(framework: Framework):
    assert [f.name for f in FRAMEWORKS].count(framework.name) == 1
    assert by_name(framework.name) is framework
    assert by_name(framework.name.replace("_", "-").upper()) is framework


def test_an_unknown_name_is_none():
    assert by_name("no such framework") is None


@every_framework
def test_a_framework_can_be_told_by_its_keys(framework: Framework):
    assert framework.signature
    assert framework.aliases


@every_format
def test_every_line_format_has_markers(framework: Framework, form: LineFormat):
    assert form.markers
    assert all(form.markers)


@every_format
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_no_line_makes_a_parser_fail(framework: Framework, form: LineFormat, data: st.DataObject):
    texts = data.draw(st.lists(texts_for(form), max_size=4))
    for item in fed(form, texts, cut=data.draw(st.booleans())):
        assert isinstance(item, Record | Configuration | Remark)
        if isinstance(item, Record):
            assert item.values
            assert item.framework in (framework.name, None)


@every_format
def test_a_huge_line_is_survived(framework: Framework, form: LineFormat):
    list(fed(form, [form.markers[0] + " 'a/b': 1.5, - timing_s/x:1 | Name 3" * 20_000]))


@every_framework
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_odd_numbers_make_no_interpretation_fail(framework: Framework, data: st.DataObject):
    if framework.interpret is None:
        return
    names = st.sampled_from(sorted({a.key.replace("*", "x") for a in framework.aliases}))
    values = data.draw(st.dictionaries(names, ODD_NUMBERS, max_size=25))
    keyed = {a.key.replace("*", "x"): a for a in framework.aliases}
    found = {keyed[key].signal: value * keyed[key].scale for key, value in values.items()}
    for mode in Mode:
        extra = framework.interpret(Record(values), found, mode)
        assert extra.keys() <= SIGNALS.keys()


@every_framework
@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_odd_configurations_make_no_facts_fail(framework: Framework, data: st.DataObject):
    keys = [k.key for k in framework.knobs] + list(framework.config_signature)
    odd = st.one_of(ODD_NUMBERS, st.integers(), st.booleans(), st.none(), st.text(max_size=8), st.lists(st.integers()))
    config = data.draw(st.dictionaries(st.sampled_from(keys or ["x"]), odd, max_size=12))
    seen = Observed(frozenset(data.draw(st.sets(st.sampled_from(framework.signature)))), config)
    topology, setpoints = framework.facts(seen)
    assert isinstance(topology, Topology)
    assert isinstance(setpoints, Setpoints)
    assert framework.mode(seen) in Mode
    assert topology.mode in (framework.mode(seen), Mode.UNKNOWN)


@every_framework
def test_a_real_sample_is_read(framework: Framework):
    samples = [path for path in sorted((DATA / framework.name).rglob("*")) if path.is_file()]
    assert samples, f"tests/data/{framework.name}/ holds no sample"
    if not framework.formats:
        return  # its files are rows and summaries, which sources read without it
    texts = [path.read_text(encoding="utf-8").splitlines() for path in samples if path.suffix in (".log", ".txt")]
    items = [item for lines in texts for form in framework.formats for item in fed(form, _marked(form, lines))]
    assert any(isinstance(item, Record) for item in items)


def _marked(form: LineFormat, lines: list[str]) -> list[str]:
    if form.block:
        return lines
    return [line for line in lines if any(marker in line for marker in form.markers)]
