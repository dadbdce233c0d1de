"""A small real plant for tests of the loop: two fluid stations, a batch at a time, with slow and fallible actuation."""

import pickle
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from policies.settings import gpus, merged, met, values
from simulators.legality import refused_pools
from simulators.plant import (
    Inventory,
    Mode,
    Observation,
    Order,
    Outcome,
    Receipt,
    Setpoints,
    Status,
    Topology,
)
from simulators.snapshot import Row
from simulators.window import assemble

TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8, trainer_gpu_step=8, trainer_gpus_min=16)
START = Setpoints(gpus_trainer=64, gpus_generator=192, batch_rollouts=512, max_in_flight=1536)
ROWS = 40
"""Steps in view."""


def constant(now_s: float) -> float:
    return 1.0


@dataclass
class FluidPlant:
    """step = batch / min(trainer rate, generator rate); the faster side waits for the slower.

    Orders are in force after `actuation_s`; GPUs on their way serve nobody. `refuses`: answers refused to all.
    """

    setpoints: Setpoints = START
    trainer_per_gpu_s: float = 5.6 / 64
    generator_per_gpu_s: float = 4.0 / 192
    exponent: float = 1.0
    noise: float = 0.02
    seed: int = 0
    actuation_s: float = 60.0
    trainer_factor: Callable[[float], float] = constant
    generator_factor: Callable[[float], float] = constant
    shows_generator_wait: bool = True
    refuses: bool = False
    never_serves: bool = False
    """New engines never get the current weights."""
    syncing: bool = False
    boundary: bool = False
    """Orders come into force at a step's end only."""
    tells_steps: bool = False
    """Says how many steps the job has done."""
    now_s: float = 0.0
    step: int = 0
    wish: Setpoints | None = None
    due_s: float = 0.0
    rows: list[Row] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    """GPUs in force and on their way, at every look and order."""
    rollouts: float = 0.0
    orders: list[Order] = field(default_factory=list)
    serving: int | None = None

    def observe(self, now_s: float) -> Observation:
        self._advance(now_s)
        self._count()
        engines = (self.setpoints.gpus_generator or 0) // 8
        if not self.never_serves or self.serving is None:
            self.serving = engines
        there = Inventory(
            self.setpoints.gpus_trainer,
            self.setpoints.gpus_generator,
            min(self.serving, engines),
            self.syncing,
            self.step if self.tells_steps else None,
        )
        return Observation(now_s, assemble(self.rows), self.setpoints, there)

    def apply(self, order: Order, now_s: float) -> Receipt:
        self._advance(now_s)
        self.orders.append(order)
        if self.refuses:
            return self._answer(order, Status.REFUSED, "told to refuse")
        pools = refused_pools(TOPOLOGY, self.setpoints, merged(self.setpoints, order.setpoints))
        if pools is not None:
            return self._answer(order, Status.REFUSED, pools)
        if met(self.setpoints, order.setpoints):
            self.wish = None
            return self._answer(order, Status.APPLIED, "in force")
        if self.wish != order.setpoints:
            self.wish, self.due_s = order.setpoints, now_s + self.actuation_s
        self._count()
        self._advance(now_s)
        done = self.wish is None
        return self._answer(order, Status.APPLIED if done else Status.PENDING, "in force" if done else "on its way")

    def _answer(self, order: Order, status: Status, reason: str) -> Receipt:
        return Receipt(order.decision_id, dict.fromkeys(values(order.setpoints), Outcome(status, reason)))

    def _count(self) -> None:
        coming = self.setpoints if self.wish is None else merged(self.setpoints, self.wish)
        self.totals.append(max(gpus(self.setpoints) or 0, gpus(coming) or 0))

    def _advance(self, until_s: float) -> None:
        while True:
            if self.wish is not None and self.now_s >= self.due_s:
                self.setpoints, self.wish = merged(self.setpoints, self.wish), None
            step_s, row = self._next_step()
            if self.now_s + step_s > until_s:
                break
            self.now_s += step_s
            self.step += 1
            self.rollouts += self.setpoints.batch_rollouts or 0
            self.rows = [*self.rows, replace(row, time_s=self.now_s)][-ROWS:]
        if self.wish is not None and until_s >= self.due_s and not self.boundary:
            self.setpoints, self.wish = merged(self.setpoints, self.wish), None

    def _next_step(self) -> tuple[float, Row]:
        now, drawn = self.setpoints, Random(f"{self.seed}-{self.step}")
        batch = float(now.batch_rollouts or 0)
        trainer = self.trainer_per_gpu_s * 64 * ((now.gpus_trainer or 0) / 64) ** self.exponent
        generator = self.generator_per_gpu_s * 192 * ((now.gpus_generator or 0) / 192) ** self.exponent
        train_s = batch / max(1e-6, trainer * self.trainer_factor(self.now_s)) * drawn.lognormvariate(0, self.noise)
        generate_s = (
            batch / max(1e-6, generator * self.generator_factor(self.now_s)) * drawn.lognormvariate(0, self.noise)
        )
        step_s = max(train_s, generate_s)
        seen = {
            "step_s": step_s,
            "trainer_wait_s": step_s - train_s,
            "trainer_busy_s": train_s,
            "batch_rollouts": batch,
        }
        seen["queue_depth"] = batch * (1.0 - seen["trainer_wait_s"] / step_s)
        if self.shows_generator_wait:
            seen["generator_wait_s"] = step_s - generate_s
        return step_s, Row(seen, step=self.step, time_s=self.now_s)


@dataclass
class SavedPlant:
    """A fluid plant that outlives the controller: it is read from its file before every call and written after."""

    path: Path

    def observe(self, now_s: float) -> Observation:
        plant = self.load()
        seen = plant.observe(now_s)
        self.save(plant)
        return seen

    def apply(self, order: Order, now_s: float) -> Receipt:
        plant = self.load()
        receipt = plant.apply(order, now_s)
        self.save(plant)
        return receipt

    def load(self) -> FluidPlant:
        plant = pickle.loads(self.path.read_bytes())
        assert isinstance(plant, FluidPlant)
        return plant

    def save(self, plant: FluidPlant) -> None:
        """Written beside and renamed: a kill leaves the old file or the new one."""
        beside = self.path.with_suffix(".new")
        beside.write_bytes(pickle.dumps(plant))
        beside.replace(self.path)
