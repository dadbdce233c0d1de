"""A small asynchronous GRPO job: engines generate and a trainer trains, each as fast as it can, none too far ahead.

    prompts ── at most (bound + 1) batches of groups started and untrained, so many rollouts in flight per engine
            ── engines (engines.py), turn by turn ── reward ── groups whose rewards differ ── buffer
            ── trainer (trainer.py, a process of its own) ── weights on disk ── engines reload them in mid-answer

What makes it a job that Equipoise can read and turn:
    /metrics   the signals of docs/signals.md as gauges rl_<signal>, beside rl_step          meters.py
    JSONL      the same, a line a step                                                       meters.py
    control    a file that is looked at between two steps                                    knobs.py
usage: python -m examples.live_job.job CONFIG.json         (stops on SIGTERM)
"""

import asyncio
import multiprocessing
import signal
import sys
import time
from collections import deque
from importlib import import_module
from pathlib import Path
from typing import Any

import aiohttp
from prometheus_client import CollectorRegistry, start_http_server

from examples.live_job import work
from examples.live_job.batch import Batch, Done
from examples.live_job.config import Config
from examples.live_job.engines import Engine, Engines
from examples.live_job.knobs import Knobs
from examples.live_job.meters import Meters
from examples.live_job.rollouts import Group, Rollout
from examples.live_job.slices import Slices


class Job:
    """Generation and training side by side."""

    def __init__(self, config: Config, engines: Engines, pipe: Any) -> None:
        self.config, self.engines, self.pipe = config, engines, pipe
        self.knobs, self.meters = Knobs(config, engines), Meters(config.folder / "steps.jsonl")
        self.stop = asyncio.Event()
        self.version, self.number, self.in_flight, self.open_groups = 0, 0, 0, 0
        self.buffer: deque[Group] = deque()
        self.changed = asyncio.Condition()
        self.began = time.monotonic()

    # ---- generation ----

    @property
    def groups_most(self) -> int:
        """The mean staleness of what is trained is bounded by what is started and not yet trained."""
        return (self.config.staleness_bound + 1) * self.config.groups_per_batch

    def has_room(self) -> bool:
        return self.in_flight + self.knobs.members <= self.knobs.limit and self.open_groups < self.groups_most

    async def generate(self) -> None:
        """Starts groups while there is room; a rollout that ends makes room for the next."""
        async with asyncio.TaskGroup() as groups:
            while True:
                async with self.changed:
                    await self.changed.wait_for(self.has_room)
                    self._clock()
                    members = self.knobs.members
                    self.in_flight += members
                    self.open_groups += 1
                groups.create_task(self._group(members))

    async def _group(self, members: int) -> None:
        """The first attempts to end are kept; the others are given up, their requests with them."""
        config = self.config
        task = work.task_at(self.number, work.mix_at(self._progress()))
        group = Group(self.version)
        self.number += 1
        self.meters.count("dispatched", members)
        async with asyncio.TaskGroup() as begun:
            attempts = [begun.create_task(self._rollout(task, i)) for i in range(members)]
            for first in asyncio.as_completed(attempts):
                group.rollouts.append(await first)
                if len(group.rollouts) == config.group_size:
                    break
            late = [attempt for attempt in attempts if attempt.cancel()]
        self.meters.count("aborted", len(late))
        async with self.changed:
            self._clock()
            if group.teaches:
                self.buffer.append(group)
            else:
                self.open_groups -= 1
                self.meters.count("filtered_groups", 1)
                self.meters.count("filtered_zero_adv", config.group_size)
            self.changed.notify_all()

    def _progress(self) -> float:
        """Of the drift: 0 before it, 1 and more after it."""
        if self.config.hold_at is not None:
            return self.config.hold_at
        return (time.monotonic() - self.began - self.config.quiet_s) / self.config.drift_s

    async def _rollout(self, task: work.Task, member: int) -> Rollout:
        try:
            rollout = await self._played(task, member)
            self.meters.finish(rollout)
            return rollout
        finally:  # its place is free at once, also where it is given up while it waits for the lock
            self._clock()
            self.in_flight -= 1
            async with self.changed:
                self.changed.notify_all()

    async def _played(self, task: work.Task, member: int) -> Rollout:
        began, text = time.monotonic(), ""
        rollout = Rollout(list(task.prompt), [False] * len(task.prompt), [0.0] * len(task.prompt))
        for turn in range(task.turns):
            if turn:
                told = work.tool_answer(task, turn)
                await asyncio.sleep(task.tool_s)
                rollout.outside_s += task.tool_s
                rollout.append(told, [0.0] * len(told), False)
            answer = await self.engines.complete(rollout.tokens, work.answer_limit(task, member, turn))
            rollout.append(answer.tokens, answer.logprobs, True)
            text += answer.text
        rollout.turns, rollout.seconds = task.turns, time.monotonic() - began
        rollout.reward = work.reward(task, text)
        return rollout

    def _clock(self) -> None:
        self.meters.clock(self.in_flight, self.knobs.limit, gated=self.open_groups >= self.groups_most)

    # ---- training ----

    async def train(self) -> None:
        """Step by step: take a batch, train, publish, free its places, look at the control file, say how it went."""
        while True:
            began = time.monotonic()
            batch = await self._batch()
            waited = time.monotonic()
            done = await self._trained(batch)
            trained = time.monotonic()
            self.version += 1
            await self.engines.publish()
            async with self.changed:
                self._clock()
                self.open_groups -= len(batch)
                self.changed.notify_all()
            await self.knobs.boundary(self.version)
            ended = time.monotonic()
            times = {
                "step_s": ended - began,
                "trainer_wait_s": waited - began,
                "trainer_busy_s": trained - waited,
                "update_s": done.busy_s,
                "weight_sync_s": ended - trained,
            }
            self._clock()
            queue = {"queue_depth": len(self.buffer) * self.config.group_size, "inflight_limit": self.knobs.limit}
            self.meters.tell(self.version, times, batch, done, queue)

    async def _batch(self) -> list[Group]:
        """The oldest groups that are not too old; older ones are dropped."""
        async with self.changed:
            while True:
                while self.buffer and self.version - self.buffer[0].version > self.config.drop_beyond:
                    self.buffer.popleft()
                    self.open_groups -= 1
                    self.meters.count("dropped_stale", self.config.group_size)
                    self.changed.notify_all()
                if len(self.buffer) >= self.config.groups_per_batch:
                    return [self.buffer.popleft() for _ in range(self.config.groups_per_batch)]
                await self.changed.wait()

    async def _trained(self, batch: list[Group]) -> Done:
        told = Batch([sample for group in batch for sample in group.samples()], self.knobs.threads)
        return await asyncio.to_thread(_answered, self.pipe, told)

    # ---- both ----

    async def play(self) -> None:
        """Until it is told to stop, or a side fails: that is told on, and nothing of either goes on by itself."""
        sides = [asyncio.create_task(self.generate()), asyncio.create_task(self.train())]
        told = asyncio.create_task(self.stop.wait())
        ended, _ = await asyncio.wait([*sides, told], return_when=asyncio.FIRST_COMPLETED)
        for task in (*sides, told):
            task.cancel()
        await asyncio.gather(*sides, return_exceptions=True)
        for task in ended - {told}:
            task.result()


def _answered(pipe: Any, told: Batch) -> Any:
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
        registry.register(job.meters)
        start_http_server(config.metrics_port, addr="127.0.0.1", registry=registry)
        await job.knobs.begin()
        await job.play()


def _trainer(*given: Any) -> None:
    """In the trainer's process, the only one that needs torch."""
    import_module("examples.live_job.trainer").serve(*given)


def main(path: str) -> None:
    job = Config.read(Path(path))
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_trainer, args=(theirs, job.model, job.learning_rate), daemon=True)
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
