"""A small asynchronous GRPO job: engines generate and a trainer trains, each as fast as it can, none too far ahead.

    prompts ── at most (bound + 1) batches of groups started and untrained, so many rollouts in flight per engine
            ── engines (engines.py), turn by turn ── reward ── groups whose rewards differ ── buffer
            ── trainer (trainer.py, a process of its own) ── weights on disk ── engines reload them in mid-answer

What makes it a job that Equipoise can read and turn:
    /metrics   the signals of docs/signals.md as gauges rl_<signal>, beside rl_step          Job.told, Gauges
    JSONL      the same, a line a step                                                       Job.told
    control    a file that is looked at between two steps                                     Job.boundary
usage: python -m examples.live_job.job CONFIG.json         (stops on SIGTERM, after the step under way)
"""

import asyncio
import json
import multiprocessing
import signal
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

import aiohttp
from equipoise_control import ControlFile
from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import GaugeMetricFamily

from examples.live_job import work
from examples.live_job.batch import Done, Sample
from examples.live_job.engines import Engine, EngineLostError, Engines
from examples.live_job.slices import Slices

SLOTS = 64
"""Requests that an engine takes at once (its --max-num-seqs)."""


@dataclass(frozen=True)
class Config:
    """What the job is started with; the knobs may change later."""

    folder: Path
    """For its metrics, its control file and the list of its engines in use."""
    model: Path
    engines: list[str]
    engine_groups: list[str]
    """Control groups of the engines, and below of the trainer: where their slices of CPU time are set."""
    trainer_group: str
    slice_cores: float
    """One "GPU"."""
    metrics_port: int
    gpus_trainer: int
    gpus_generator: int
    in_flight_per_engine: int
    drift_s: float
    """How long the mix of prompts takes from its first to its last state."""
    hold_at: float | None = None
    """For calibration: no drift, this state instead."""
    learning_rate: float = 2e-3
    groups_per_batch: int = 4
    group_size: int = 4
    staleness_bound: int = 2
    """Of the mean: what is started and untrained is at most one batch more than this many."""
    drop_beyond: int = 4
    """Versions; a group that is older when its turn comes is dropped."""


@dataclass
class Rollout:
    tokens: list[int]
    chosen: list[bool]
    logprobs: list[float]
    reward: float = 0.0
    turns: int = 0
    seconds: float = 0.0
    outside_s: float = 0.0


@dataclass
class Group:
    version: int
    """Of the weights when its first rollout began: the oldest that any of its tokens can be from."""
    prompt_tokens: int
    rollouts: list[Rollout] = field(default_factory=list)

    @property
    def teaches(self) -> bool:
        return len({rollout.reward for rollout in self.rollouts}) > 1


class Gauges:
    """The last step's signals, all of one step whenever they are asked for."""

    def __init__(self) -> None:
        self.values: dict[str, float] = {}

    def collect(self) -> Iterator[GaugeMetricFamily]:
        for name, value in self.values.items():
            yield GaugeMetricFamily(f"rl_{name}", "see docs/signals.md", value=value)


class Job:
    """Generation and training side by side, and what they say of themselves."""

    def __init__(self, config: Config, engines: Engines, pipe: Any) -> None:
        self.config, self.engines, self.pipe = config, engines, pipe
        self.stop = asyncio.Event()
        self.version, self.number, self.in_flight, self.open_groups = 0, 0, 0, 0
        self.per_engine = config.in_flight_per_engine
        self.gpus_trainer, self.gpus_generator = config.gpus_trainer, config.gpus_generator
        self.buffer: deque[Group] = deque()
        self.changed = asyncio.Condition()
        self.began = time.monotonic()
        self.counts = dict.fromkeys(("dispatched", "dropped_stale", "filtered_zero_adv", "filtered_groups"), 0.0)
        self.finished: list[Rollout] = []
        self.gated_s, self.in_flight_area, self.gate_at = 0.0, 0.0, time.monotonic()
        self.gauges = Gauges()
        self.control = ControlFile(str(config.folder / "control.json"))
        self.move: asyncio.Task[tuple[dict[str, float], dict[str, str]]] | None = None

    # ---- generation ----

    @property
    def limit(self) -> int:
        return self.per_engine * max(1, len(self.engines.used))

    @property
    def groups_most(self) -> int:
        """The mean staleness of what is trained is bounded by what is started and not yet trained."""
        return (self.config.staleness_bound + 1) * self.config.groups_per_batch

    async def generate(self) -> None:
        """Starts groups while there is room; a rollout that ends makes room for the next."""
        size, running = self.config.group_size, set[asyncio.Task[None]]()
        while not self.stop.is_set():
            async with self.changed:
                await self.changed.wait_for(
                    lambda: self.in_flight + size <= self.limit and self.open_groups < self.groups_most
                )
                self._clock_gate()
                self.in_flight += size
                self.open_groups += 1
            running.add(task := asyncio.create_task(self._group()))
            task.add_done_callback(running.discard)

    async def _group(self) -> None:
        config = self.config
        progress = config.hold_at if config.hold_at is not None else (time.monotonic() - self.began) / config.drift_s
        task = work.task_at(self.number, work.mix_at(progress))
        group = Group(self.version, len(task.prompt))
        self.number += 1
        self.counts["dispatched"] += config.group_size
        group.rollouts = list(await asyncio.gather(*(self._rollout(task, i) for i in range(config.group_size))))
        async with self.changed:
            if group.teaches:
                self.buffer.append(group)
            else:
                self.open_groups -= 1
                self.counts["filtered_groups"] += 1
                self.counts["filtered_zero_adv"] += config.group_size
            self._clock_gate()
            self.changed.notify_all()

    async def _rollout(self, task: work.Task, member: int) -> Rollout:
        began, text = time.monotonic(), ""
        rollout = Rollout(list(task.prompt), [False] * len(task.prompt), [0.0] * len(task.prompt))
        for turn in range(task.turns):
            if turn:
                told = work.tool_answer(task, turn)
                await asyncio.sleep(task.tool_s)
                rollout.outside_s += task.tool_s
                _append(rollout, told, [0.0] * len(told), False)
            answer = await self.engines.complete(rollout.tokens, work.answer_limit(task, member, turn))
            _append(rollout, answer.tokens, answer.logprobs, True)
            text += answer.text
        rollout.turns, rollout.seconds = task.turns, time.monotonic() - began
        rollout.reward = work.reward(task, text)
        self.finished.append(rollout)
        async with self.changed:
            self._clock_gate()
            self.in_flight -= 1
            self.changed.notify_all()
        return rollout

    def _clock_gate(self) -> None:
        """Adds up what is in flight, and the share of its places that stand empty because the trainer is behind."""
        now = time.monotonic()
        self.in_flight_area += (now - self.gate_at) * self.in_flight
        if self.open_groups >= self.groups_most:
            self.gated_s += (now - self.gate_at) * max(0.0, 1.0 - self.in_flight / self.limit)
        self.gate_at = now

    # ---- training ----

    async def train(self) -> None:
        """Step by step: take a batch, train, publish, free its places, look at the control file, say how it went."""
        while not self.stop.is_set():
            began = time.monotonic()
            batch = await self._batch()
            waited = time.monotonic()
            done = await self._trained(batch)
            trained = time.monotonic()
            self.version += 1
            await self.engines.publish()
            async with self.changed:
                self._clock_gate()
                self.open_groups -= len(batch)
                self.changed.notify_all()
            await self.boundary()
            ended = time.monotonic()
            times = {
                "step_s": ended - began,
                "trainer_wait_s": waited - began,
                "trainer_busy_s": trained - waited,
                "update_s": done.busy_s,
                "weight_sync_s": ended - trained,
            }
            self.told(times, batch, done)

    async def _batch(self) -> list[Group]:
        """The oldest groups that are not too old; older ones are dropped."""
        async with self.changed:
            while True:
                while self.buffer and self.version - self.buffer[0].version > self.config.drop_beyond:
                    self.buffer.popleft()
                    self.open_groups -= 1
                    self.counts["dropped_stale"] += self.config.group_size
                    self.changed.notify_all()
                if len(self.buffer) >= self.config.groups_per_batch:
                    return [self.buffer.popleft() for _ in range(self.config.groups_per_batch)]
                await self.changed.wait()

    async def _trained(self, batch: list[Group]) -> Done:
        samples = [sample for group in batch for sample in _samples(group)]
        return await asyncio.to_thread(_answered, self.pipe, samples)

    # ---- what it says ----

    def told(self, times: dict[str, float], batch: list[Group], done: Done) -> None:
        """One step under the neutral names: a line of JSONL, and the gauges of /metrics."""
        self._clock_gate()
        trained = [rollout for group in batch for rollout in group.rollouts]
        answers = sorted(sum(rollout.chosen) for rollout in trained)
        seconds = sorted(rollout.seconds for rollout in self.finished) or [0.0]
        ages = [self.version - 1 - group.version for group in batch]
        values = {
            **times,
            **self.counts,
            "generator_wait_s": min(self.gated_s, times["step_s"]),
            "batch_rollouts": len(trained),
            "accepted": len(trained),
            "queue_depth": len(self.buffer) * self.config.group_size,
            "inflight_rollouts": self.in_flight_area / times["step_s"],
            "inflight_limit": self.limit,
            "staleness_mean": fmean(ages),
            "staleness_max": max(ages),
            "policy_version": self.version,
            "rollout_latency_s": fmean(seconds),
            "rollout_p99_s": seconds[int(0.99 * (len(seconds) - 1))],
            "slowest_s": seconds[-1],
            "non_generation_mean_s": fmean([r.outside_s for r in self.finished] or [0.0]),
            "resp_len_mean": fmean(answers),
            "resp_len_p50": answers[len(answers) // 2],
            "resp_len_max": answers[-1],
            "prompt_len_mean": fmean([len(r.tokens) for r in trained]) - fmean(answers),
            "tokens_total": sum(len(r.tokens) for r in trained),
            "turns_mean": fmean([r.turns for r in trained]),
            "reward_mean": fmean([r.reward for r in self.finished or trained]),
            "zero_adv_frac": 0.0,
            "entropy": done.entropy,
            "grad_norm": done.grad_norm,
        }
        self.counts = dict.fromkeys(self.counts, 0.0)
        self.finished, self.gated_s, self.in_flight_area = [], 0.0, 0.0
        self.gauges.values = {"step": self.version, **values}
        line = {"step": self.version, "timestamp": time.time(), **{k: round(v, 5) for k, v in values.items()}}
        with (self.config.folder / "steps.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    # ---- what is turned ----

    async def boundary(self) -> None:
        """Between two steps. A move of engines takes its time; the job goes on meanwhile, and says when it is done."""
        if self.move is not None and self.move.done():
            in_force, refused = self.move.result()
            self.control.acknowledge(in_force, refused, self.version)
            self.move = None
        if self.move is None and (wanted := self.control.changed()) is not None:
            self.move = asyncio.create_task(self._turned(wanted))
        if self.move is None and len(self.engines.used) < self.gpus_generator:
            with suppress(EngineLostError):
                await self.engines.use(self.gpus_generator)

    async def _turned(self, wanted: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        """Turns what it can. What is in force then, and why the rest is not."""
        refused = dict.fromkeys(wanted.keys() - self.in_force().keys(), "this job does not turn it")
        count = int(wanted.get("engines", wanted.get("gpus_generator", self.gpus_generator)))
        share = int(wanted.get("gpus_trainer", self.gpus_trainer))
        per_engine = int(wanted.get("max_in_flight_per_engine", self.per_engine))
        if "max_in_flight" in wanted:
            per_engine = round(wanted["max_in_flight"] / max(1, count))
        if 0 < per_engine <= SLOTS:
            self.per_engine = per_engine
        else:
            refused |= {n: f"an engine takes 1 to {SLOTS} at once" for n in wanted if n.startswith("max_in_flight")}
        try:
            await self.share_out(share, count)
        except EngineLostError as error:
            refused |= {n: str(error) for n in ("gpus_trainer", "gpus_generator", "engines") if n in wanted}
        async with self.changed:
            self.changed.notify_all()
        return self.in_force(), refused

    async def share_out(self, gpus_trainer: int, engines: int) -> None:
        """Who gives goes first, so that no slice is held twice."""
        slices, cores = Slices(Path(self.config.trainer_group)), self.config.slice_cores
        if engines < 1 or gpus_trainer < 1:
            raise EngineLostError("both sides need at least one slice")
        if gpus_trainer < self.gpus_trainer:
            slices.give(gpus_trainer * cores)
        try:
            await self.engines.use(engines)
        except EngineLostError:
            slices.give(self.gpus_trainer * cores)
            raise
        slices.give(gpus_trainer * cores)
        self.gpus_trainer, self.gpus_generator = gpus_trainer, engines

    def in_force(self) -> dict[str, float]:
        return {
            "gpus_trainer": self.gpus_trainer,
            "gpus_generator": self.gpus_generator,
            "engines": len(self.engines.used),
            "max_in_flight_per_engine": self.per_engine,
            "max_in_flight": self.limit,
        }


def _append(rollout: Rollout, tokens: list[int], logprobs: list[float], chosen: bool) -> None:
    rollout.tokens += tokens
    rollout.logprobs += logprobs
    rollout.chosen += [chosen] * len(tokens)


def _samples(group: Group) -> Iterator[Sample]:
    """Each rollout with its advantage over its group."""
    rewards = [rollout.reward for rollout in group.rollouts]
    mean, deviation = fmean(rewards), pstdev(rewards)
    for r in group.rollouts:
        yield Sample(r.tokens, r.chosen, r.logprobs, (r.reward - mean) / (deviation + 1e-4))


def _answered(pipe: Any, told: Any) -> Any:
    pipe.send(told)
    return pipe.recv()


async def run(config: Config, pipe: Any) -> None:
    """Until SIGTERM or SIGINT."""
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        servers = [
            Engine(f"engine-{i}", url, Slices(Path(group)))
            for i, (url, group) in enumerate(zip(config.engines, config.engine_groups, strict=True))
        ]
        for server in servers:
            server.slices.give(0.0)
        engines = Engines(servers, config.slice_cores, session, config.folder / "engines.json")
        job = Job(config, engines, pipe)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, job.stop.set)
        registry = CollectorRegistry()
        registry.register(job.gauges)
        start_http_server(config.metrics_port, addr="127.0.0.1", registry=registry)
        await job.share_out(config.gpus_trainer, config.gpus_generator)
        job.control.acknowledge(job.in_force(), {}, 0)
        both = [asyncio.create_task(job.generate()), asyncio.create_task(job.train())]
        stopped = asyncio.create_task(job.stop.wait())
        ended, _ = await asyncio.wait([*both, stopped], return_when=asyncio.FIRST_COMPLETED)
        for task in ended - {stopped}:
            task.result()
        for task in both:
            task.cancel()


def _trainer(*given: Any) -> None:
    """In the trainer's process, the only one that needs torch."""
    import_module("examples.live_job.trainer").serve(*given)


def main(path: str) -> None:
    config = json.loads(Path(path).read_text())
    config |= {"folder": Path(config["folder"]), "model": Path(config["model"])}
    job = Config(**config)
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    threads = max(1, round(job.gpus_trainer * job.slice_cores))
    process = context.Process(target=_trainer, args=(theirs, job.model, threads, job.learning_rate), daemon=True)
    process.start()
    theirs.close()
    (job.folder / "trainer.pid").write_text(str(process.pid))
    slices = Slices(Path(job.trainer_group))
    slices.give(job.gpus_trainer * job.slice_cores)
    slices.add(process.pid or 0)
    try:
        ours.recv()
        asyncio.run(run(job, ours))
    finally:
        process.terminate()
        process.join()


if __name__ == "__main__":
    main(sys.argv[1])
