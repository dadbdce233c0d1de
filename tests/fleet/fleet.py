"""The emulated job: a SimulatedPlant driven by the wall clock, and its engines as each would speak for itself."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from threading import RLock
from time import monotonic

from simulators.pipeline import SimulatedPlant
from simulators.plant import Inventory, Order, Receipt, Setpoints
from simulators.scenario import Scenario
from simulators.signals import SIGNALS
from simulators.snapshot import Row

KV_TOKENS = 400_000
"""Of one emulated engine, as its info metric states; nothing is derived from it."""


@dataclass
class Engine:
    """What one engine remembers: running totals since it started, which a reset sets back to nothing."""

    share: float
    """Of the pool's work: engines are never quite alike."""
    since_tokens: float = 0.0
    state: str = "alive"
    """alive; dead: does not answer; frozen: repeats its last words, as a lingering series does."""
    last_words: str = ""


@dataclass
class Totals:
    """Running totals of the whole pool since the job began, which never fall."""

    decoded: float = 0.0
    prompted: float = 0.0
    preempted: float = 0.0
    latency_s: float = 0.0
    """Of all tokens together, in seconds of the wall."""
    steps: int = 0
    at_s: float = 0.0


@dataclass
class Fleet:
    """Time passes when somebody looks, `acceleration` simulated seconds in one of the wall."""

    scenario: Scenario
    acceleration: float
    seed: int = 0
    names: str = "neutral"
    """Of the trainer's gauges: neutral, or prime-rl."""
    start_s: float = 0.0
    """Simulated seconds that have passed when the clock starts."""
    scatter: float = 0.02
    """Between engines, and between two scrapes of one gauge."""
    plant: SimulatedPlant = field(init=False)
    totals: Totals = field(default_factory=Totals)
    engines: dict[int, Engine] = field(default_factory=dict)
    lock: RLock = field(default_factory=RLock)

    _shown: float = 0.0
    """Tokens that a scrape has shown: a running total never falls."""

    def __post_init__(self) -> None:
        self.plant = SimulatedPlant(self.scenario, self.seed)
        self.random = Random(self.seed)
        self._began = monotonic()
        self._orders = 0

    # ---- time ----

    def job_s(self) -> float:
        """Simulated seconds since the job began."""
        return self.start_s + (monotonic() - self._began) * self.acceleration

    def look(self) -> Row | None:
        """The newest step as the job's own metrics show it; all running totals brought up to now."""
        now_s = self.job_s()
        rows = self.plant.observe(now_s).snapshot.rows
        for log in self.plant.log[self.totals.steps :]:
            self._add(log.row.values, log.row.values["step_s"], log.row.time_s or 0.0)
        self.totals.steps = len(self.plant.log)
        return rows[-1] if rows else None

    def _add(self, values: Mapping[str, float], seconds: float, at_s: float) -> None:
        self.totals.decoded += values.get("decode_tokens_per_s", 0.0) * seconds
        self.totals.prompted += values.get("prompt_tokens_per_s", 0.0) * seconds
        self.totals.preempted += values.get("preemptions_per_s", 0.0) * seconds
        tokens = values.get("decode_tokens_per_s", 0.0) * seconds
        self.totals.latency_s += tokens * values.get("tpot_s", 0.0) / self.acceleration
        self.totals.at_s = at_s

    # ---- knobs ----

    def in_force(self) -> tuple[Setpoints, Inventory]:
        with self.lock:
            seen = self.plant.observe(self.job_s())
            return seen.in_force, seen.inventory

    def order(self, setpoints: Setpoints, decision_id: str = "", fencing_token: int = 0) -> Receipt:
        """Turns knobs of the emulated job; times of the answer are simulated seconds."""
        with self.lock:
            self._orders += 1
            name = decision_id or f"fleet-{self._orders}"
            return self.plant.apply(Order(setpoints, name, fencing_token), self.job_s())

    # ---- engines ----

    def running_engines(self) -> list[int]:
        """Those that the GPUs of the generator carry now; the others are gone."""
        settings, inventory = self.in_force()
        gpus = inventory.gpus_generator if inventory.gpus_generator is not None else settings.gpus_generator
        count = (gpus or 0) // (self.scenario.topology.gpus_per_engine or 1)
        with self.lock:
            for index in range(count):
                self.engines.setdefault(index, Engine(1.0 + self.random.uniform(-self.scatter, self.scatter)))
            for index in [i for i in self.engines if i >= count]:
                del self.engines[index]
            return sorted(self.engines)

    def control(self, index: int, state: str) -> None:
        """alive, dead, frozen, or reset: its process restarted, its totals begin anew."""
        with self.lock:
            engine = self.engines[index]
            if state == "reset":
                engine.since_tokens = self._decoded_now()
            else:
                engine.state = state

    def _decoded_now(self) -> float:
        """Tokens of the whole pool up to the last finished step, spread evenly over the running one."""
        row = self.look()
        if row is None:
            return 0.0
        passed_s = max(0.0, self.job_s() - self.totals.at_s)
        rate = self.plant.log[-1].row.values.get("decode_tokens_per_s", 0.0)
        self._shown = max(self._shown, self.totals.decoded + rate * passed_s)
        return self._shown

    def engine_text(self, index: int) -> str | None:
        """One engine's /metrics; None where it does not answer."""
        with self.lock:
            engine = self.engines.get(index)
            if engine is None or engine.state == "dead":
                return None
            if engine.state != "frozen":
                engine.last_words = self._engine_text(engine)
            return engine.last_words

    def _engine_text(self, engine: Engine) -> str:
        row = self.look()
        values = row.values if row is not None else {}
        part = engine.share / max(1, len(self.engines))
        tokens = max(0.0, self._decoded_now() - engine.since_tokens) * part
        lines = {
            "num_requests_running": self._seen(values.get("running", 0.0) * part),
            "num_requests_waiting": self._seen(values.get("queued", 0.0) * part),
            "kv_cache_usage_perc": min(1.0, self._seen(values.get("kv_usage_frac", 0.0))),
            "generation_tokens_total": tokens,
            "prompt_tokens_total": self.totals.prompted * part,
            "num_preemptions_total": self.totals.preempted * part,
            "inter_token_latency_seconds_sum": self.totals.latency_s * part,
            "inter_token_latency_seconds_count": self.totals.decoded * part,
        }
        kind = {name: "counter" if name.endswith("_total") else "gauge" for name in lines}
        labels = '{engine="0",model_name="emulated"}'
        said = [f"# TYPE vllm:{name} {kind[name]}\nvllm:{name}{labels} {value:.6f}" for name, value in lines.items()]
        info = '{engine="0",block_size="16",num_gpu_blocks="' + str(KV_TOKENS // 16) + '"}'
        return "\n".join([*said, f"# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{info} 1", ""])

    def _seen(self, value: float) -> float:
        return max(0.0, value * (1.0 + self.random.uniform(-self.scatter, self.scatter)))

    # ---- the trainer ----

    def trainer_text(self) -> str:
        with self.lock:
            row = self.look()
            if row is None:
                return "# TYPE rl_up gauge\nrl_up 1\n"
            gauges = self._prime_rl(row) if self.names == "prime-rl" else self._neutral(row)
            return "".join(f"# TYPE {name} gauge\n{name} {value!r}\n" for name, value in gauges.items())

    def _neutral(self, row: Row) -> dict[str, float]:
        """What no engine says, in seconds of the wall clock."""
        engines = ("running", "queued", "kv_usage_frac", "tpot_s", "engines", "prefix_hit_frac", "preemptions_per_s")
        kept = {n: v for n, v in row.values.items() if n not in engines and not n.endswith("_tokens_per_s")}
        return {"rl_step": float(row.step or 0)} | {f"rl_{n}": self.faster(n, v) for n, v in kept.items()}

    def _prime_rl(self, row: Row) -> dict[str, float]:
        values = row.values
        return {
            "trainer_step": float(row.step or 0),
            "trainer_last_step_timestamp_seconds": (row.time_s or 0.0) / self.acceleration,
            "trainer_throughput_tokens_per_sec": values.get("train_tokens_per_s", 0.0) * self.acceleration,
        }

    def faster(self, signal: str, value: float) -> float:
        """A signal of a job that is so much faster."""
        unit = SIGNALS[signal].unit
        if unit == "s":
            return value / self.acceleration
        return value * self.acceleration if unit.endswith("/s") else value
