"""A Prometheus server as a feed: what it stored becomes records, and whatever is wrong with it a sentence."""

import json
import math
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.prometheus_api import JSON, PrometheusApi
from tests.servers import HTML, Answer, Server, certificate, serving
from tuner.errors import ConfigError
from tuner.feeds.base import Poll
from tuner.feeds.contract import Contract
from tuner.feeds.http import Access
from tuner.feeds.prometheus import Prometheus
from tuner.frameworks.registry import FRAMEWORKS
from tuner.live import LivePlant, source_at
from tuner.records import Record, Remark

NOW_S = 1.8e9
DEADLINE_S = 30.0
SECRET = "s3cr3t-token-of-ours"


@contextmanager
def feed(url: str, **given: Any) -> Iterator[Prometheus]:
    found = source_at(f"prometheus+{url}", **given).feed
    assert isinstance(found, Prometheus)
    with closing(found):
        yield found


def polled(url: str, deadline_s: float = DEADLINE_S, **given: Any) -> Poll:
    with feed(url, **given) as prometheus:
        return prometheus.poll({}, NOW_S, deadline_s)


def records(poll: Poll) -> list[Record]:
    return [item for item in poll.items if isinstance(item, Record)]


def remarks(poll: Poll) -> dict[str, str]:
    return {item.code: item.detail for item in poll.items if isinstance(item, Remark)}


def engine(api: PrometheusApi, instance: str, running: float = 10.0, at_s: float = NOW_S - 1.0) -> None:
    labels = {"job": "engines", "instance": instance, "engine": "0", "model_name": "m"}
    api.store("vllm:num_requests_running", labels, (at_s, running))


# ---- what it reads ----


def test_each_target_and_moment_is_one_record_in_our_time(api: PrometheusApi, server: Server) -> None:
    engine(api, "a:8000", 10.0, NOW_S - 20.0)
    engine(api, "a:8000", 12.0, NOW_S - 5.0)
    engine(api, "b:8000", 30.0, NOW_S - 4.0)
    found = [(r.labels["instance"], r.values["vllm:num_requests_running"]) for r in records(polled(server.url))]
    assert found == [("a:8000", 10.0), ("a:8000", 12.0), ("b:8000", 30.0)]


def test_what_was_handed_on_is_not_handed_on_again(api: PrometheusApi, server: Server) -> None:
    engine(api, "a:8000", 10.0, NOW_S - 3.0)
    with feed(server.url) as prometheus:
        first = prometheus.poll({}, NOW_S, DEADLINE_S)
        engine(api, "a:8000", 11.0, NOW_S + 2.0)
        engine(api, "b:8000", 20.0, NOW_S - 1.0)
        api.now_s += 5.0
        second = prometheus.poll(first.cursor, NOW_S + 5.0, DEADLINE_S)
    assert [r.values["vllm:num_requests_running"] for r in records(first)] == [10.0]
    assert sorted(r.values["vllm:num_requests_running"] for r in records(second)) == [11.0, 20.0]


def test_a_target_that_died_has_nothing_new_and_is_named(api: PrometheusApi, server: Server) -> None:
    api.up = [({"job": "engines", "instance": "a"}, 1.0), ({"job": "engines", "instance": "b"}, 0.0)]
    api.up += [({"job": "another", "instance": "c"}, 0.0)]
    engine(api, "a")
    engine(api, "b", at_s=NOW_S - 250.0)
    poll = polled(server.url)
    assert [r.labels["instance"] for r in records(poll)] == ["a"]
    assert (poll.asked, poll.answered) == (2, 1)
    assert "b" in remarks(poll)["silent-targets"]


def test_labels_that_belong_to_the_target_do_not_split_its_figures(api: PrometheusApi, server: Server) -> None:
    target = {"job": "engines", "instance": "a", "namespace": "rl", "shard_of_cloud": "7"}
    api.up = [(target, 1.0)]
    by_source = {**target, "engine": "0", "source": "local_compute"}
    api.store("vllm:prompt_tokens_by_source_total", by_source, (NOW_S - 1.0, 5.0))
    (record,) = records(polled(server.url))
    assert record.values == {
        "vllm:prompt_tokens_by_source_total": 5.0,
        "vllm:prompt_tokens_by_source_total{source=local_compute}": 5.0,
    }


def test_labels_of_a_target_that_is_told_of_late_are_known_from_then_on(api: PrometheusApi, server: Server) -> None:
    labels = {"job": "engines", "instance": "a", "namespace": "rl", "source": "local_compute"}
    api.store("vllm:prompt_tokens_by_source_total", labels, (NOW_S - 1.0, 5.0), (NOW_S + 1.0, 6.0))
    with feed(server.url) as prometheus:
        first = prometheus.poll({}, NOW_S, DEADLINE_S)
        api.up = [({"job": "engines", "instance": "a", "namespace": "rl"}, 1.0)]
        api.now_s += 2.0
        second = prometheus.poll(first.cursor, NOW_S + 2.0, DEADLINE_S)
    keys = [
        set(record.values) - {"vllm:prompt_tokens_by_source_total"} for record in (*records(first), *records(second))
    ]
    assert keys == [
        {"vllm:prompt_tokens_by_source_total{namespace=rl,source=local_compute}"},
        {"vllm:prompt_tokens_by_source_total{source=local_compute}"},
    ]


def test_two_servers_that_scrape_the_same_target_count_once(api: PrometheusApi, server: Server) -> None:
    for copy in ("0", "1"):
        labels = {"job": "engines", "instance": "a", "prometheus_replica": copy}
        api.store("vllm:num_requests_running", labels, (NOW_S - 1.0, 10.0))
    (record,) = records(polled(server.url))
    assert record.values["vllm:num_requests_running"] == 10.0


def test_a_counter_that_starts_anew_makes_no_negative_rate(api: PrometheusApi, server: Server) -> None:
    labels = {"job": "engines", "instance": "a", "engine": "0"}
    totals = [1000.0, 2000.0, 3000.0, 500.0, 1500.0]
    samples = [(NOW_S - 50.0 + 10.0 * i, total) for i, total in enumerate(totals)]
    api.store("vllm:generation_tokens_total", labels, *samples)
    api.store("vllm:num_requests_running", labels, *[(t, 4.0) for t, _ in samples])
    with closing(LivePlant([source_at(f"prometheus+{server.url}")], deadline_s=DEADLINE_S)) as plant:
        rows = plant.observe(NOW_S).snapshot.engine_rows
    assert [row.values.get("decode_tokens_per_s") for row in rows] == [None, 100.0, 100.0, 100.0, 100.0]


def test_nan_and_infinity_reach_no_signal(api: PrometheusApi, server: Server) -> None:
    labels = {"job": "engines", "instance": "a", "engine": "0"}
    api.store("vllm:num_requests_running", labels, (NOW_S - 2.0, math.nan), (NOW_S - 1.0, math.inf))
    api.store("vllm:kv_cache_usage_perc", labels, (NOW_S - 2.0, 0.5), (NOW_S - 1.0, 0.5))
    with closing(LivePlant([source_at(f"prometheus+{server.url}")], deadline_s=DEADLINE_S)) as plant:
        seen = plant.observe(NOW_S).snapshot
    assert seen.get("running") is None
    assert seen.get("kv_usage_frac") == 0.5


# ---- whose clock ----


@pytest.mark.parametrize("skew_s", [-3600.0, 3600.0])
def test_ages_are_by_the_servers_clock_told_in_ours(api: PrometheusApi, server: Server, skew_s: float) -> None:
    api.now_s = NOW_S + skew_s
    engine(api, "a", at_s=api.now_s - 7.0)
    poll = polled(server.url)
    (record,) = records(poll)
    assert record.time_s == pytest.approx(NOW_S - 7.0, abs=60.0)
    assert ("ahead of" if skew_s > 0 else "behind") in remarks(poll)["clock-skew"]


# ---- what goes wrong ----


def test_a_server_that_is_down_is_a_failure(api: PrometheusApi) -> None:
    with serving(api.respond) as gone:
        url = gone.url
    poll = polled(url)
    assert poll.failure is not None
    assert "nobody listens there" in poll.failure
    assert poll.coverage_frac == 0.0


SAID: dict[str, tuple[Answer, str]] = {
    "500": (Answer(b"oops", 500), "HTTP 500"),
    "500 that explains itself": (Answer(json.dumps({"error": "out of memory"}).encode(), 500, JSON), "out of memory"),
    "login page": (Answer(HTML, 200, {"Content-Type": "text/html"}), "web page instead of metrics"),
    "redirect to a login": (
        Answer(b"", 302, {"Location": "https://sso.example/login?next=x"}),
        "redirects to sso.example",
    ),
    "401": (Answer(b"no", 401), "wants a login"),
    "404": (Answer(b"no", 404), "nothing is served under this address"),
    "other JSON": (Answer(b'{"hello": 1}', 200, JSON), "not the form that Prometheus gives"),
    "an error with status 200": (Answer(b'{"status":"error","error":"x"}', 200, JSON), "not the form"),
    "half an answer": (Answer(b'{"status":"success","data":{"resu', 200, JSON), "no JSON"),
    "a list of nonsense": (Answer(b'{"status":"success","data":{"result":[1,2]}}', 200, JSON), "not the form"),
    "nothing": (Answer(b"", 200, JSON), "no JSON"),
}


@pytest.mark.parametrize("what", SAID)
def test_a_wrong_answer_is_a_failure_in_words(api: PrometheusApi, server: Server, what: str) -> None:
    answer, words = SAID[what]
    engine(api, "a")
    api.fault = lambda promql: answer
    poll = polled(server.url)
    assert poll.items == ()
    assert poll.failure is not None
    assert words in poll.failure


def test_a_connection_that_breaks_off_is_asked_once_more(api: PrometheusApi, server: Server) -> None:
    engine(api, "a")
    seen: list[str] = []

    def once(promql: str) -> Answer | None:
        seen.append(promql)
        return Answer(b"restarting", 503) if len(seen) == 1 else None

    api.fault = once
    assert len(records(polled(server.url))) == 1


def test_a_slow_server_costs_the_deadline_and_no_more(api: PrometheusApi, server: Server) -> None:
    api.slow_s = 120.0
    began = time.monotonic()
    poll = polled(server.url, deadline_s=0.5)
    assert time.monotonic() - began < 60.0
    assert poll.failure == "no answer in time"


def test_an_answer_that_drips_costs_the_deadline_and_no_more(api: PrometheusApi, server: Server) -> None:
    api.fault = lambda promql: Answer(b" " * 10_000, 200, JSON, drip_s=0.02)
    began = time.monotonic()
    poll = polled(server.url, deadline_s=0.5)
    assert time.monotonic() - began < 60.0
    assert poll.failure is not None
    assert "when the time was over" in poll.failure


def test_an_empty_server_says_what_is_missing(api: PrometheusApi, server: Server) -> None:
    poll = polled(server.url, match={"job": "mine"})
    assert poll.failure is not None
    assert "no new series with job=mine" in poll.failure


def test_a_server_that_restarts_empty_is_found_out_while_old_rows_age(api: PrometheusApi, server: Server) -> None:
    engine(api, "a")
    with closing(LivePlant([source_at(f"prometheus+{server.url}")], deadline_s=DEADLINE_S)) as plant:
        plant.observe(NOW_S)
        api.stored.clear()
        api.now_s += 400.0
        seen = plant.observe(NOW_S + 400.0)
    assert seen.snapshot.signals["running"].age_s == pytest.approx(401.0, abs=60.0)
    assert "feed-failed" in [note.code for note in seen.snapshot.notes]


def test_a_partial_answer_is_used_and_told(api: PrometheusApi, server: Server) -> None:
    engine(api, "a")
    api.store("trainer_step", {"job": "trainer", "instance": "t"}, (NOW_S - 1.0, 7.0))
    api.fault = lambda promql: Answer(b"", 422) if "trainer_step" in promql else None
    poll = polled(server.url)
    assert poll.failure is None
    assert poll.coverage_frac < 1.0
    assert "HTTP 422" in remarks(poll)["partial-answer"]
    assert [r.labels["instance"] for r in records(poll)] == ["a"]


def test_warnings_of_the_server_are_told(api: PrometheusApi, server: Server) -> None:
    engine(api, "a")
    api.warnings = ["store 10.0.0.7 is down: partial response"]
    assert remarks(polled(server.url))["server-warning"] == "store 10.0.0.7 is down: partial response"


def test_an_answer_beyond_the_limit_is_refused(api: PrometheusApi, server: Server, monkeypatch: Any) -> None:
    monkeypatch.setattr("tuner.feeds.prometheus_server.BYTES_MAX", 1 << 20)
    api.fault = lambda promql: Answer(b" " * (2 << 20), 200, JSON)
    assert polled(server.url).failure == "its answer is over 1 MiB"


# ---- who is let in ----


def test_a_token_that_rotates_is_read_again(api: PrometheusApi, server: Server, tmp_path: Path) -> None:
    engine(api, "a")
    token = tmp_path / "token"
    token.write_text("first\n")
    with feed(server.url, access=Access(token_file=token)) as prometheus:
        prometheus.poll({}, NOW_S, DEADLINE_S)
        token.write_text("second\n")
        api.authorizations.clear()
        prometheus.poll({}, NOW_S + 1.0, DEADLINE_S)
    assert set(api.authorizations) == {"Bearer second"}


def test_basic_authentication_takes_its_password_from_a_file(
    api: PrometheusApi, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "password").write_text("pw")
    polled(server.url, access=Access(user="me", password_file=tmp_path / "password"))
    assert set(api.authorizations) == {"Basic bWU6cHc="}


def test_a_missing_token_is_a_failure_that_heals(api: PrometheusApi, server: Server, tmp_path: Path) -> None:
    engine(api, "a")
    token = tmp_path / "token"
    with feed(server.url, access=Access(token_file=token)) as prometheus:
        failure = prometheus.poll({}, NOW_S, DEADLINE_S).failure
        token.write_text("here")
        healed = prometheus.poll({}, NOW_S, DEADLINE_S)
    assert failure is not None
    assert str(token) in failure
    assert healed.failure is None


@pytest.mark.parametrize("what", [*SAID, "slow", "down", "broken token"])
def test_no_secret_is_in_any_message(api: PrometheusApi, server: Server, tmp_path: Path, what: str) -> None:
    token = tmp_path / "token"
    token.write_text(SECRET + ("\nsecond line" if what == "broken token" else ""))
    if what in SAID:
        api.fault = lambda promql: SAID[what][0]
    api.slow_s = 60.0 if what == "slow" else 0.0
    url = "http://127.0.0.1:1" if what == "down" else server.url
    poll = polled(url, deadline_s=0.5 if what == "slow" else DEADLINE_S, access=Access(token_file=token))
    assert poll.failure
    assert SECRET not in repr(poll)


def test_a_url_with_a_password_is_refused_without_repeating_it() -> None:
    with pytest.raises(ConfigError, match="no user or password in a URL") as refused:
        source_at(f"prometheus+http://me:{SECRET}@127.0.0.1:9090")
    assert SECRET not in str(refused.value)


def test_a_certificate_of_ones_own_authority_is_trusted_where_given(api: PrometheusApi, tmp_path: Path) -> None:
    engine(api, "a")
    with serving(api.respond, certificate(tmp_path)) as server:
        trusted = polled(server.url, access=Access(ca_file=tmp_path / "ca.pem"))
        stranger = polled(server.url)
    assert len(records(trusted)) == 1
    assert stranger.failure is not None
    assert "certificate is not trusted" in stranger.failure


# ---- what it asks ----

HOSTILE: dict[str, str] = {
    "quote": 'x"} or {__name__=~".+',
    "backslash": "x\\",
    "newline": 'x"\n} or vector(1) #',
    "regex": ".*",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_a_label_value_stays_a_label_value(api: PrometheusApi, server: Server, what: str) -> None:
    polled(server.url, match={"job": HOSTILE[what]})
    for promql in (asked for asked in api.asked if asked != "vector(time())"):
        quoted = promql[promql.index(',job="') + 6 :]
        assert unquoted(quoted) == HOSTILE[what]


def unquoted(text: str) -> str:
    """What a PromQL parser reads up to the closing quote, after which only the selector's end may come."""
    escapes = {"\\": "\\", '"': '"', "n": "\n", "r": "\r", "t": "\t"}
    found, at = "", 0
    while text[at] != '"':
        if text[at] == "\\":
            at += 1
            found += escapes[text[at]]
        else:
            found += text[at]
        at += 1
    assert text[at + 1 :].split("[")[0] == "}"
    return found


def test_a_label_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="not a Prometheus label"):
        source_at("prometheus+http://127.0.0.1:9090", match={'job="x"}': "y"})


# ---- before a run ----


def contract(api: PrometheusApi, url: str, *names: str) -> Contract:
    for name in names:
        api.store(name, {"job": "engines", "instance": "a"}, (NOW_S, 1.0))
    with feed(url) as prometheus:
        return prometheus.contract(FRAMEWORKS, DEADLINE_S)


def test_the_contract_says_what_will_be_there_and_what_not(api: PrometheusApi, server: Server) -> None:
    known = ("vllm:num_requests_running", "vllm:num_requests_waiting", "vllm:kv_cache_usage_perc")
    told = contract(api, server.url, *known, "vllm:generation_tokens_total", "go_goroutines")
    assert told.found == {"vllm": (*known, "vllm:generation_tokens_total")}
    assert {"running", "queued", "kv_usage_frac", "decode_tokens_per_s"} <= set(told.signals)
    assert [missing.what for missing in told.missing] == ["step_s", "who waits", "the batch"]
    assert all("metrics file as a second source" in missing.remedy for missing in told.missing)


def test_a_renamed_metric_is_named_beside_what_was_looked_for(api: PrometheusApi, server: Server) -> None:
    told = contract(api, server.url, "vllm:num_requests_running", "vllm:kv_cache_usage_percent")
    missing = next(missing for missing in told.missing if missing.what == "the KV pool")
    assert "vllm:kv_cache_usage_perc" in missing.looked_for
    assert missing.alike == ("vllm:kv_cache_usage_percent",)
    assert "--disable-log-stats" in missing.remedy


def test_a_contract_with_a_server_that_does_not_answer_fails_in_words(api: PrometheusApi, server: Server) -> None:
    api.fault = lambda promql: Answer(HTML, 200)
    told = contract(api, server.url)
    assert told.failure is not None
    assert "web page" in told.failure
