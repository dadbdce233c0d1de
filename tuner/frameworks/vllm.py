"""vLLM, the engine: its periodic console line, its start-up facts and its /metrics, old names and new."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from simulators.plant import Change, Mode, Setpoints, Topology
from tuner.adapting import count_setting, plain_value, quotient, spelled
from tuner.frameworks.base import Alias, Framework, KnobKey, LineFormat, Observed, exported
from tuner.parsing.lines import NUMBER
from tuner.parsing.stamps import seconds_of_stamp
from tuner.records import Configuration, Item, Line, Record

NAME = "vllm"

LONGEST_STATS_CHARS = 4_000
"""A statistics line is a few hundred characters; what follows is some other writer's text."""

STATS_MARKER = "Avg prompt throughput:"
HEADS = ("vllm:", "vllm_", "ray_vllm_")
THROUGH_RAY = HEADS[-1]
"""Before a metric's name where vLLM reports through Ray's agents (SkyRL, Ray Serve)."""
PREEMPTION_MARKER = "total_num_cumulative_preemption="
START_MARKERS = ("KV cache size:", "Maximum concurrency for", "# GPU blocks:", "non-default args:", "args: Namespace(")

_PAIR = re.compile(rf",\s*([A-Za-z][A-Za-z0-9 /-]*): *({NUMBER}) *(tokens/s|reqs|%)?(?=[^,]*(,?))")
"""Name, number, unit, and the comma that follows, if any: a part is whole where another comes after it."""
_WITH_UNIT = re.compile(rf"{NUMBER} *(?:tokens/s|reqs|%)")
_ENGINE = re.compile(r"Engine (\d+):")
_AGGREGATED = re.compile(r"(\d+) Engines Aggregated:")
_RANK_OF_SPEAKER = re.compile(r"_DP(\d+)")
_POOL = re.compile(r"KV cache size: ([\d,]+) tokens")
_CONCURRENCY = re.compile(r"Maximum concurrency for ([\d,]+) tokens per request: ([\d.]+)x")
_BLOCKS = re.compile(r"# GPU blocks: ([\d,]+)")
_SETTING = re.compile(
    r"\b(max_num_seqs|max_num_batched_tokens|max_model_len|gpu_memory_utilization|tensor_parallel_size"
    r"|pipeline_parallel_size|data_parallel_size|num_gpu_blocks_override|block_size|kv_cache_memory_bytes"
    rf"|enforce_eager|enable_prefix_caching)'?\s*[:=]\s*'?({NUMBER}|True|False)"
)


class _Statistics:
    """The line every ten seconds, and V0's preemption warning. Preemptions are printed per interval: summed here."""

    def __init__(self) -> None:
        self._preempted: dict[str, float] = {}

    def feed(self, line: Line) -> Iterable[Item]:
        text = line.text[:LONGEST_STATS_CHARS]
        places = [found.start() for found in re.finditer(STATS_MARKER, text)]
        if not places:
            return self._record(_warned(text), text[:80], line)
        found: list[Item] = []
        start = 0
        for at, then in zip(places, [*places[1:], len(text)], strict=True):
            end = _end_of_statistics(text, at, then)
            found += self._record(_pairs(text[at:end], line.cut), text[start:at], line)
            start = end
        return found

    def _record(self, values: dict[str, float], head: str, line: Line) -> tuple[Item, ...]:
        if not values:
            return ()
        labels = _labels(head, line.speaker)
        if (engines := _AGGREGATED.search(head)) is not None:
            values["engines"] = float(engines.group(1))
        if "Preemptions" in values:
            engine = labels.get("engine", "")
            values["Preemptions"] += self._preempted.get(engine, 0.0)
            self._preempted[engine] = values["Preemptions"]
        return (_record(values, line, labels, _time_s(head, line)),)

    def flush(self) -> Iterable[Item]:
        return ()


def _end_of_statistics(text: str, start: int, end: int) -> int:
    """Where a newline got lost, the next line's head follows the last number with a unit."""
    if end == len(text):
        return end
    *_, last = (0, *(found.end() for found in _WITH_UNIT.finditer(text, start, end)))
    return last or end


def _time_s(head: str, line: Line) -> float | None:
    """The line's time; of a later line pasted behind it, as much later as the stamps of the two say."""
    if line.time_s is not None and line.text.startswith(head):
        return line.time_s
    own_s = seconds_of_stamp(head)
    if line.time_s is None:
        return own_s
    first_s = seconds_of_stamp(line.text[:80])
    return None if own_s is None or first_s is None else line.time_s + own_s - first_s


def _record(values: Mapping[str, float], line: Line, labels: Mapping[str, str], time_s: float | None) -> Record:
    return Record(values, None, time_s, labels, NAME, cut=line.cut)


def _pairs(text: str, cut: bool) -> dict[str, float]:
    """Name and number of each part that carries its unit; a number without one was broken off."""
    found: dict[str, float] = {}
    for name, number, unit, comma in _PAIR.findall(f",{text}"):
        if unit or (name == "Preemptions" and (comma or not cut)):
            found[name] = float(number)
    return found


def _warned(text: str) -> dict[str, float]:
    _, found, rest = text.partition(PREEMPTION_MARKER)
    number = re.match(r"\d+", rest)
    return {"total_num_cumulative_preemption": float(number.group())} if found and number is not None else {}


def _labels(head: str, speaker: str | None) -> dict[str, str]:
    labels = {} if speaker is None else {"replica": speaker}
    engine = _ENGINE.search(head)
    if engine is not None:
        labels["engine"] = str(int(engine.group(1)))
    elif speaker is not None and (rank := _RANK_OF_SPEAKER.search(speaker)) is not None:
        labels["engine"] = rank.group(1)
    return labels


class _StartUp:
    """What the engine says once: its KV pool and its settings. Workers repeat one pool: only a new size counts."""

    def __init__(self) -> None:
        self._pool: float | None = None

    def feed(self, line: Line) -> Iterable[Item]:
        settings: dict[str, object] = {name: plain_value(value) for name, value in _SETTING.findall(line.text)}
        pool = _POOL.search(line.text)
        if (blocks := _BLOCKS.search(line.text)) is not None:
            settings["num_gpu_blocks"] = _whole(blocks.group(1))
        if (most := _CONCURRENCY.search(line.text)) is not None:
            settings["max_model_len"] = _whole(most.group(1))
            settings["kv_cache_max_concurrency"] = float(most.group(2))
        tokens = float(_whole(pool.group(1))) if pool is not None else _pool_behind(most)
        if settings:
            yield Configuration(settings, NAME)
        values = {"max_num_seqs": float(n)} if isinstance(n := settings.get("max_num_seqs"), int) else {}
        if tokens is not None and (self._pool is None or pool is not None) and tokens != self._pool:
            self._pool = tokens
            values["KV cache size"] = tokens
        if values:
            time_s = line.time_s if line.time_s is not None else seconds_of_stamp(line.text[:80])
            yield _record(values, line, _labels("", line.speaker), time_s)

    def flush(self) -> Iterable[Item]:
        return ()


def _pool_behind(most: re.Match[str] | None) -> float | None:
    """V0 prints no pool size, only how many longest requests fit into it."""
    return None if most is None else _whole(most.group(1)) * float(most.group(2))


def _whole(digits: str) -> int:
    return int(digits.replace(",", "") or 0)


def _prom(name: str, signal: str, counter: bool = False, trust: float = 1.0) -> tuple[Alias, ...]:
    alias = Alias(name, signal, trust=trust, counter=counter)
    return (*exported("vllm", alias), replace(alias, key=f"{THROUGH_RAY}{name}"))


ALIASES = (
    Alias("Running", "running"),
    Alias("Waiting", "queued"),
    Alias("Pending", "queued"),
    Alias("GPU KV cache usage", "kv_usage_frac", scale=0.01),
    Alias("Prefix cache hit rate", "prefix_hit_frac", scale=0.01),
    Alias("Avg prompt throughput", "prompt_tokens_per_s", trust=0.9),
    Alias("Avg generation throughput", "decode_tokens_per_s", trust=0.9),
    Alias("Preemptions", "preemptions"),
    Alias("Preemptions", "preemptions_per_s", counter=True),
    Alias("total_num_cumulative_preemption", "preemptions"),
    Alias("KV cache size", "kv_capacity_tokens"),
    Alias("max_num_seqs", "running_limit"),
    Alias("engines", "engines"),
    *_prom("num_requests_running", "running"),
    *_prom("num_requests_waiting", "queued"),
    *_prom("kv_cache_usage_perc", "kv_usage_frac"),
    *_prom("gpu_cache_usage_perc", "kv_usage_frac"),
    *_prom("cache_config_info/kv_cache_size_tokens", "kv_capacity_tokens"),
    *_prom("num_preemptions_total", "preemptions"),
    *_prom("num_preemptions_total", "preemptions_per_s", counter=True),
    *_prom("prompt_tokens_total", "prompt_tokens_per_s", counter=True, trust=0.9),
    *_prom("prompt_tokens_by_source_total{source=local_compute}", "prompt_tokens_per_s", counter=True),
    *_prom("generation_tokens_total", "decode_tokens_per_s", counter=True),
    *_prom("avg_generation_throughput_toks_per_s", "published_decode_tokens_per_s", trust=0.5),
)
"""The plain total of prompt tokens includes those found in the prefix cache (0.9)."""

HISTOGRAMS: tuple[tuple[str, tuple[str, ...]], ...] = (
    (
        "tpot_s",
        ("inter_token_latency_seconds", "time_per_output_token_seconds", "request_time_per_output_token_seconds"),
    ),
    ("ttft_mean_s", ("time_to_first_token_seconds",)),
    ("queue_time_mean_s", ("request_queue_time_seconds",)),
    ("request_prompt_tokens_mean", ("request_prompt_tokens",)),
    ("request_output_tokens_mean", ("request_generation_tokens",)),
)
"""Signal and the histograms whose mean it is, the best first: per token, then per finished request."""
MEANS = tuple(
    (signal, tuple((f"vllm:{name}_sum", f"vllm:{name}_count") for name in names)) for signal, names in HISTOGRAMS
)
"""The same by sum and count: asked for at every scrape of every engine."""


def interpret(record: Record, found: Mapping[str, float], mode: Mode) -> Mapping[str, float]:
    """Means of histograms (sum over count: since the engine started), cache hits, and the pool behind the info metric.

    Given a record of differences between two scrapes the same quotients are the means between them.
    """
    bare = ((key.removeprefix("ray_"), value) for key, value in record.values.items())
    values = {f"vllm:{key[5:]}": value for key, value in bare if key.startswith(("vllm:", "vllm_"))}
    extra: dict[str, float] = {}
    if not values:
        return extra
    for signal, names in MEANS:
        means = (quotient(values, total, count) for total, count in names)
        mean = next((m for m in means if m is not None), None)
        if mean is not None:
            extra[signal] = mean
    for side in ("", "gpu_"):
        hits = quotient(values, f"vllm:{side}prefix_cache_hits_total", f"vllm:{side}prefix_cache_queries_total")
        if hits is not None:
            extra["prefix_hit_frac"] = hits
    blocks, block = (values.get(f"vllm:cache_config_info/{name}") for name in ("num_gpu_blocks", "block_size"))
    if blocks and block and "kv_capacity_tokens" not in found:
        extra["kv_capacity_tokens"] = blocks * block
    return extra


def facts(observed: Observed) -> tuple[Topology, Setpoints]:
    config = spelled(observed.config)
    tensor, pipeline = count_setting(config, "tensor_parallel_size"), count_setting(config, "pipeline_parallel_size")
    gpus = None if tensor is None else tensor * (pipeline or 1)
    topology = Topology(framework=NAME, mode=Mode.ENGINE, gpus_per_engine=gpus)
    return topology, Setpoints(
        engines=count_setting(config, "data_parallel_size"),
        max_in_flight_per_engine=count_setting(config, "max_num_seqs"),
    )


SPOKEN = (
    *("cache_config_info", "rl_weight_update_operations_in_flight"),
    *(f"{name}_{part}" for _, names in HISTOGRAMS for name in names for part in ("sum", "count")),
    *(f"{side}prefix_cache_{part}_total" for side in ("", "gpu_") for part in ("hits", "queries")),
)
"""Names that only `interpret` and the weight sync read."""
SERVES = ("vllm:", "vllm_", THROUGH_RAY, *(f"{head}{name}" for head in ("vllm:", THROUGH_RAY) for name in SPOKEN))

FRAMEWORK = Framework(
    name=NAME,
    aliases=ALIASES,
    serves=SERVES,
    knobs=(
        KnobKey("max_in_flight", "--max-num-seqs", Change.RESTART, note="requests one engine admits at once"),
        KnobKey("kv_memory", "--gpu-memory-utilization", Change.RESTART, note="share of GPU memory for weights and KV"),
        KnobKey("engine_settings", "--max-num-batched-tokens", Change.RESTART, note="tokens of one engine step"),
        KnobKey("gpus_generator", "--data-parallel-size", Change.RESTART),
        KnobKey("prefill_decode_split", "--kv-transfer-config", Change.RESTART),
        KnobKey("logging", "--disable-log-stats", Change.RESTART, note="leave it out; serve /metrics"),
    ),
    formats=(
        LineFormat("vllm-statistics", (STATS_MARKER, PREEMPTION_MARKER), _Statistics),
        LineFormat("vllm-start", START_MARKERS, _StartUp),
    ),
    signature=(
        *(f"{head}{name}" for head in HEADS for name in ("num_", "request_", "kv_", "gpu_", "prefix_")),
        "vllm:cache_config_info",
        "Avg prompt throughput",
        "Avg generation throughput",
        "GPU KV cache usage",
    ),
    config_signature=("max_num_seqs", "gpu_memory_utilization", "max_num_batched_tokens"),
    step_keys=(),
    engine=True,
    sync_keys=tuple(f"{head}rl_weight_update_operations_in_flight" for head in HEADS),
    mode=lambda _: Mode.ENGINE,
    facts=facts,
    interpret=interpret,
    computed_trust={signal: 0.6 for signal, _ in HISTOGRAMS} | {"prefix_hit_frac": 0.8},
)
