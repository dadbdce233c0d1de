"""SGLang, the engine: its prefill and decode lines, its start-up facts and its /metrics (also behind a router)."""

import re
from collections.abc import Iterable, Mapping

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, flag_setting, plain_value, quotient, spelled
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed, exported
from tuner.parsing.lines import NUMBER
from tuner.parsing.stamps import seconds_of_stamp
from tuner.records import Configuration, Item, Line, Record

NAME = "sglang"

LONGEST_BATCH_CHARS = 4_000
"""A batch line is a few hundred characters; what follows is some other writer's text."""

BATCH_MARKERS = ("Prefill batch", "Decode batch")
RETRACT_MARKER = "#retracted_reqs:"
START_MARKERS = ("server_args=", "ServerArgs(", "max_total_num_tokens=")

_RANK = re.compile(r"\b(DP|TP|PP)(\d+)\b")
_SETTING = re.compile(
    r"(?<![\w'])'?(max_running_requests|max_total_num_tokens|max_total_tokens|mem_fraction_static|chunked_prefill_size"
    r"|max_prefill_tokens|context_len|context_length|tp_size|dp_size|pp_size|schedule_conservativeness"
    rf"|disable_radix_cache|enable_dp_attention)'?\s*[=:]\s*({NUMBER}|True|False)"
)


class _Ranks:
    """Tells which ranks speak for themselves: every tensor-parallel rank of one replica prints the same figures."""

    def __init__(self) -> None:
        self._first: dict[str, tuple[int, int]] = {}

    def speaks(self, ranks: Mapping[str, int]) -> bool:
        """True for TP0, and in a data-parallel rank (whose first rank need not be 0) for the lowest one seen."""
        own = (ranks.get("PP", 0), ranks.get("TP", 0))
        if ranks.get("DP", 0) == 0:
            return own == (0, 0)
        replica = str(ranks["DP"])
        self._first[replica] = min(own, self._first.get(replica, own))
        return own == self._first[replica]


def _ranks_of(head: str) -> dict[str, int]:
    start, end = head.rfind("["), head.rfind("]")
    inside = head[start : end if end > start else None] if start >= 0 else ""
    return {kind: int(number) for kind, number in _RANK.findall(inside)}


def _labels(ranks: Mapping[str, int], speaker: str | None) -> dict[str, str]:
    labels = {} if speaker is None else {"replica": speaker}
    if "DP" in ranks:
        labels["dp_rank"] = str(ranks["DP"])
    return labels


class _Batches:
    """Prefill and decode lines, and retractions (summed: each line names its own only)."""

    def __init__(self) -> None:
        self._ranks = _Ranks()
        self._retracted: dict[str, float] = {}
        self._prefill: dict[str, _PrefillRate] = {}

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text[:LONGEST_BATCH_CHARS]
        at = max(text.find(marker) for marker in (*BATCH_MARKERS, "KV cache pool is full", "Decode out of memory"))
        ranks = _ranks_of(text[: max(at, 0)])
        if at < 0 or not self._ranks.speaks(ranks):
            return ()
        labels = _labels(ranks, line.speaker)
        replica = labels.get("dp_rank", "")
        time_s = line.time_s if line.time_s is not None else seconds_of_stamp(text[:at])
        values = _pairs(text[at:], line.cut)
        if "#retracted_reqs" in values:
            total = self._retracted.get(replica, 0.0) + values["#retracted_reqs"]
            self._retracted[replica] = total
            values = {"#retracted_reqs": total}
        elif "#new-token" in values and "input throughput (token/s)" not in values and time_s is not None:
            rate = self._prefill.setdefault(replica, _PrefillRate()).add(time_s, values["#new-token"])
            values |= {} if rate is None else {"#new-token per second": rate}
        return (Record(values, None, time_s, labels, NAME, cut=line.cut),) if values else ()

    def flush(self) -> Iterable[Item]:
        return ()


class _PrefillRate:
    """Prompt tokens per second from lines whose stamps are whole seconds: those of one stamp over the time to the next.

    # stamps 29 29 30, new tokens 2062 8192 8192: at 30 the rate is (2062 + 8192) / 1
    """

    def __init__(self) -> None:
        self._since: float | None = None
        self._tokens = 0.0

    def add(self, time_s: float, tokens: float) -> float | None:
        rate = None
        if self._since is None or time_s < self._since:
            self._since, self._tokens = time_s, 0.0
        elif time_s - self._since >= 1.0:
            rate = self._tokens / (time_s - self._since)
            self._since, self._tokens = time_s, 0.0
        self._tokens += tokens
        return rate


def _pairs(text: str, cut: bool) -> dict[str, float]:
    """`name: number` parts after the marker, percent signs kept out; the last part of a cut line may lack digits."""
    _, marker, rest = text.partition("batch")
    parts = (rest[1:] if marker else text.replace(". ", ",")).split(",")
    if cut:
        parts.pop()
    found: dict[str, float] = {}
    for part in parts:
        name, colon, value = part.rpartition(":")
        if colon:
            try:
                found[name.strip()] = float(value.strip(" %."))
            except ValueError:
                continue
    return found


class _StartUp:
    """Server arguments and pool sizes; each rank prints them."""

    def __init__(self) -> None:
        self._ranks = _Ranks()

    def feed(self, line: Line) -> Iterable[Item]:
        settings: dict[str, object] = {name: plain_value(value) for name, value in _SETTING.findall(line.text)}
        at = min((i for marker in START_MARKERS if (i := line.text.find(marker)) >= 0), default=0)
        ranks = _ranks_of(line.text[:at])
        if not settings or not self._ranks.speaks(ranks):
            return
        yield Configuration(settings, NAME)
        values = {key: float(settings[key]) for key in _LIMITS if isinstance(settings.get(key), int)}  # type: ignore[arg-type]
        if values:
            time_s = line.time_s if line.time_s is not None else seconds_of_stamp(line.text[:at])
            yield Record(values, None, time_s, _labels(ranks, line.speaker), NAME, cut=line.cut)

    def flush(self) -> Iterable[Item]:
        return ()


_LIMITS = ("max_total_num_tokens", "max_running_requests")


def _prom(name: str, signal: str, counter: bool = False, trust: float = 1.0) -> tuple[Alias, ...]:
    return exported("sglang", Alias(name, signal, trust=trust, counter=counter))


ALIASES = (
    Alias("#running-req", "running"),
    Alias("#queue-req", "queued"),
    Alias("token usage", "kv_usage_frac"),
    Alias("#token", "kv_tokens"),
    Alias("#full token", "kv_tokens"),
    Alias("cache hit rate", "prefix_hit_frac", scale=0.01),
    Alias("gen throughput (token/s)", "published_decode_tokens_per_s", trust=0.7),
    Alias("input throughput (token/s)", "prompt_tokens_per_s", trust=0.7),
    Alias("#new-token per second", "prompt_tokens_per_s", trust=0.6),
    Alias("#retracted_reqs", "preemptions"),
    Alias("#retracted_reqs", "preemptions_per_s", counter=True),
    Alias("max_total_num_tokens", "kv_capacity_tokens"),
    Alias("max_running_requests", "running_limit"),
    *_prom("num_running_reqs", "running"),
    *_prom("num_queue_reqs", "queued"),
    *_prom("token_usage", "kv_usage_frac"),
    *_prom("num_used_tokens", "kv_tokens"),
    *_prom("max_total_num_tokens", "kv_capacity_tokens"),
    *_prom("cache_hit_rate", "prefix_hit_frac", trust=0.7),
    *_prom("gen_throughput", "published_decode_tokens_per_s", trust=0.3),
    *_prom("avg_request_queue_latency", "queue_time_mean_s", trust=0.5),
    *_prom("num_retracted_requests_total", "preemptions"),
    *_prom("num_retracted_requests_total", "preemptions_per_s", counter=True),
    *_prom("realtime_tokens_total{mode=prefill_compute}", "prompt_tokens_per_s", counter=True),
    *_prom("realtime_tokens_total{mode=decode}", "decode_tokens_per_s", counter=True),
    *_prom("prompt_tokens_total", "prompt_tokens_per_s", counter=True, trust=0.7),
    *_prom("generation_tokens_total", "decode_tokens_per_s", counter=True, trust=0.7),
)
"""A prefill line's running requests are those before admission. The older token counters grow when a request *ends*
(0.7); the throughput gauge keeps its last value while nothing is decoded (0.3)."""

HISTOGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("tpot_s", ("inter_token_latency_seconds", "time_per_output_token_seconds")),
    ("ttft_mean_s", ("time_to_first_token_seconds",)),
    ("queue_time_mean_s", ("queue_time_seconds",)),
    ("request_prompt_tokens_mean", ("prompt_tokens_histogram",)),
    ("request_output_tokens_mean", ("generation_tokens_histogram",)),
)
"""Signal and the histograms whose mean it is, the best first."""

USAGES = ("token usage", "full token usage", "swa token usage", "mamba usage")
METRIC_USAGES = ("token_usage", "full_token_usage", "swa_token_usage", "mamba_usage")
"""Shares of the pools of a hybrid model: the fullest one decides who is admitted."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Means of histograms, the fullest pool, cache hits of a prefill line, tokens per finished request.

    Given a record of differences between two scrapes the same quotients are the means between them.
    """
    values = {key.replace("sglang_", "sglang:", 1): value for key, value in record.values.items()}
    extra: dict[str, float] = {}
    for signal, names in HISTOGRAMS:
        means = (quotient(values, f"sglang:{name}_sum", f"sglang:{name}_count") for name in names)
        mean = next((m for m in means if m is not None), None)
        if mean is not None:
            extra[signal] = mean
    finished = "sglang:e2e_request_latency_seconds_count"
    for signal, total in (("request_prompt_tokens_mean", "prompt"), ("request_output_tokens_mean", "generation")):
        mean = quotient(values, f"sglang:{total}_tokens_total", finished)
        if mean is not None:
            extra.setdefault(signal, mean)
    usages = [values[k] for k in (*USAGES, *(f"sglang:{name}" for name in METRIC_USAGES)) if k in values]
    if usages:
        extra["kv_usage_frac"] = max(usages)
    if "prefix_hit_frac" not in found and values.get("#cached-token", -1.0) >= 0.0:
        prompt = values["#cached-token"] + max(0.0, values.get("#new-token", 0.0))
        extra |= {"prefix_hit_frac": values["#cached-token"] / prompt} if prompt > 0.0 else {}
    return extra


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    """With data-parallel attention the replicas share the tensor-parallel GPUs: they are not engines of their own."""
    config = spelled(observed.config)
    tensor, pipeline = count_setting(config, "tp_size"), count_setting(config, "pp_size")
    gpus = None if tensor is None else tensor * (pipeline or 1)
    topology = Topology(framework=NAME, mode=Mode.ENGINE, gpus_per_engine=gpus)
    inside = flag_setting(config, "enable_dp_attention")
    return topology, Setpoints(
        engines=None if inside else count_setting(config, "dp_size"),
        max_in_flight_per_engine=count_setting(config, "max_running_requests"),
    )


SERVES = (
    *("sglang:", "sglang_", "sglang:e2e_request_latency_seconds_count", "sglang_e2e_request_latency_seconds_count"),
    *(
        f"sglang{mark}{name}_{part}"
        for mark in ":_"
        for _, names in HISTOGRAMS
        for name in names
        for part in ("sum", "count")
    ),
    *(f"sglang{mark}{name}" for mark in ":_" for name in (*METRIC_USAGES, "num_paused_reqs")),
)

FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    serves=SERVES,
    knobs=(
        KnobKey("max_in_flight", "--max-running-requests", Change.RESTART, note="requests one engine admits at once"),
        KnobKey("kv_memory", "--mem-fraction-static", Change.RESTART, note="share of GPU memory for weights and KV"),
        KnobKey("engine_settings", "--chunked-prefill-size", Change.RESTART, note="prompt tokens of one prefill batch"),
        KnobKey("gpus_generator", "--dp-size", Change.RESTART),
        KnobKey("prefill_decode_split", "--disaggregation-mode", Change.RESTART),
        KnobKey("logging", "--enable-metrics", Change.RESTART, note="serves /metrics"),
    ),
    formats=(
        LineFormat("sglang-batch", (*BATCH_MARKERS, RETRACT_MARKER), _Batches),
        LineFormat("sglang-start", START_MARKERS, _StartUp),
    ),
    signature=(
        *(f"sglang{mark}{name}" for mark in ":_" for name in ("num_", "token_", "gen_", "full_", "cache_", "e2e_")),
        *(f"sglang{mark}{name}" for mark in ":_" for name in ("prompt_", "generation_", "time_", "inter_", "max_")),
        "#running-req",
        "#queue-req",
        "token usage",
        "gen throughput (token/s)",
    ),
    config_signature=("mem_fraction_static", "chunked_prefill_size", "max_running_requests"),
    step_keys=(),
    engine=True,
    sync_keys=("sglang:num_paused_reqs", "sglang_num_paused_reqs"),
    mode=lambda _: Mode.ENGINE,
    facts=facts,
    interpret=interpret,
    computed_trust={signal: 0.6 for signal, _ in HISTOGRAMS},
    copy_labels=("tp_rank", "pp_rank", "moe_ep_rank"),
)
