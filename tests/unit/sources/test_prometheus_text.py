"""Prometheus text: who speaks, which parts add up, where a new scrape starts."""

from collections.abc import Callable, Iterable

import pytest

from tuner.errors import SourceError
from tuner.records import Configuration, Item, Record, Remark
from tuner.sources import prometheus_text
from tuner.sources.base import Opened

Make = Callable[..., Opened]


def records(items: Iterable[Item]) -> list[Record]:
    return [item for item in items if isinstance(item, Record)]


def remarks(items: Iterable[Item]) -> list[Remark]:
    return [item for item in items if isinstance(item, Remark)]


def test_one_record_a_speaker_with_the_names_as_they_stand(opened: Make) -> None:
    text = '# TYPE v:x counter\nv:x{engine="0",model_name="m"} 3\nv:x{engine="1",model_name="m"} 5\nv_total 7\n'
    found = records(prometheus_text.read(opened(text), ()))
    assert [(dict(r.labels), dict(r.values), r.step) for r in found] == [
        ({"engine": "0", "model_name": "m"}, {"v:x": 3.0}, 0),
        ({"engine": "1", "model_name": "m"}, {"v:x": 5.0}, 0),
        ({}, {"v_total": 7.0}, 0),
    ]


def test_parts_stay_and_their_sum_stands_beside_them(opened: Make) -> None:
    text = 'w{engine="0",reason="capacity"} 30\nw{engine="0",reason="deferred"} 2\n'
    text += 'q{quantile="0.5"} 1\nq{quantile="0.9"} 2\n'
    first, second = records(prometheus_text.read(opened(text), ()))
    assert first.values == {"w{reason=capacity}": 30.0, "w{reason=deferred}": 2.0, "w": 32.0}
    assert second.values == {"q{quantile=0.5}": 1.0, "q{quantile=0.9}": 2.0}


def test_a_figure_that_is_printed_whole_is_not_summed_again(opened: Make) -> None:
    (record,) = records(prometheus_text.read(opened('w 30\nw{reason="a"} 20\nw{reason="b"} 10\n'), ()))
    assert record.values["w"] == 30.0


def test_histograms_keep_sum_and_count_only(opened: Make) -> None:
    text = 'h_bucket{le="1"} 1\nh_bucket{le="+Inf"} 2\nh_sum 3.5\nh_count 2\nh_created 1.7e9\n'
    (record,) = records(prometheus_text.read(opened(text), ()))
    assert record.values == {"h_sum": 3.5, "h_count": 2.0}


def test_an_info_metric_states_settings(opened: Make) -> None:
    text = 'v:running{engine="0"} 1\nv:cache_config_info{engine="0",block_size="128",cache_dtype="auto"} 1\n'
    items = list(prometheus_text.read(opened(text), ()))
    info = next(r for r in records(items) if "v:cache_config_info" in r.values)
    assert info.values["v:cache_config_info/block_size"] == 128.0
    assert info.labels == {"engine": "0", "block_size": "128", "cache_dtype": "auto"}
    (config,) = [item for item in items if isinstance(item, Configuration)]
    assert config.values["v:cache_config_info/cache_dtype"] == "auto"


DUMP = "# HELP a x\n# TYPE a gauge\na {0}\n# HELP b y\nb {0}\n"


def test_dumps_in_one_file_are_scrapes_in_order(opened: Make) -> None:
    found = records(prometheus_text.read(opened("".join(DUMP.format(i) for i in range(4))), ()))
    assert [(r.step, r.values["a"], r.values["b"]) for r in found] == [(i, float(i), float(i)) for i in range(4)]


def test_dumps_without_announcements_are_told_apart_too(opened: Make) -> None:
    found = records(prometheus_text.read(opened("a 1\nb 1\na 2\nb 2\n"), ()))
    assert [(r.step, dict(r.values)) for r in found] == [(0, {"a": 1.0, "b": 1.0}), (1, {"a": 2.0, "b": 2.0})]


def test_several_engines_dumps_of_one_moment_are_one_scrape(opened: Make) -> None:
    text = "".join(f'# HELP m x\nm{{worker_addr="{addr}"}} {i}\n' for i in range(2) for addr in "pq")
    found = records(prometheus_text.read(opened(text), ()))
    assert [(r.step, r.labels["worker_addr"], r.values["m"]) for r in found] == [
        (0, "p", 0.0),
        (0, "q", 0.0),
        (1, "p", 1.0),
        (1, "q", 1.0),
    ]


def test_times_come_from_the_samples_or_from_the_lines_between(opened: Make) -> None:
    text = "m 1 1711115618500\n2024-03-22T13:54:38Z\nm 2\n1711115738\nm 3\n"
    found = records(prometheus_text.read(opened(text), ()))
    assert [r.time_s for r in found] == [1711115618.5, 1711115678.0, 1711115738.0]


def test_openmetrics_exemplars_and_seconds_are_understood(opened: Make) -> None:
    text = '# TYPE c counter\nc_total 3 1711115618.5 # {trace_id="x"} 0.5 1711115600\nz NaN\n# EOF\n'
    (record,) = records(prometheus_text.read(opened(text), ()))
    assert record.values["c_total"] == 3.0
    assert record.values["z"] != record.values["z"]
    assert record.time_s == 1711115618.5


def test_escapes_and_braces_inside_labels_are_text(opened: Make) -> None:
    (record,) = records(prometheus_text.read(opened('m{model_name="a\\"b}, \\\\c"} 1\n'), ()))
    assert record.labels == {"model_name": 'a"b}, \\c'}


def test_a_broken_sample_is_told_and_a_cut_last_one_left_out(opened: Make) -> None:
    items = list(prometheus_text.read(opened('a 1\nm{x=1} 2\nb 3\nc{engine="0"} 12'), ()))
    assert [dict(r.values) for r in records(items)] == [{"a": 1.0, "b": 3.0}]
    assert [(r.code, r.origin) for r in remarks(items)] == [
        ("broken-lines", "job.log:2"),
        ("truncated-record", "job.log:4"),
    ]


@pytest.mark.parametrize("text", ["", "# HELP a b\n", "hello world\nfoo bar\nm 1\n"])
def test_what_is_no_dump_is_refused(opened: Make, text: str) -> None:
    with pytest.raises(SourceError, match=r"job\.log.*name\{label="):
        list(prometheus_text.read(opened(text), ()))


@pytest.mark.parametrize(
    ("name", "key", "value"),
    [
        ("A18_sglang_metrics_dump.prom", "sglang:num_running_reqs", 162.0),
        ("V01_vllm_cpu_64_running.prom", "vllm:num_requests_waiting", 32.0),
        ("V02_vllm_cpu_preempting.prom", "vllm:num_preemptions_total", 24.0),
        ("V02_vllm_cpu_preempting.prom", "vllm:request_success_total", 14.0),
    ],
)
def test_real_dumps_are_one_scrape(name: str, key: str, value: float, case: Callable[[str], Opened]) -> None:
    items = list(prometheus_text.read(case(name), ()))
    assert {r.step for r in records(items)} == {0}
    assert [r.values[key] for r in records(items) if key in r.values] == [value]
    assert remarks(items) == []
