"""What can be turned while the job runs: who has the slices, how much is in flight, how many attempts a group starts.

A control file is looked at between two steps. What takes a moment is in force before the next one; a move of engines
may take its time: the job goes on meanwhile, and says when it is done: what is in force then, and why the rest is not.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

from equipoise_control import ControlFile

from examples.live_job.config import Config
from examples.live_job.engines import EngineLostError, Engines
from examples.live_job.slices import Slices

SLOTS = 64
"""Requests that an engine takes at once (its --max-num-seqs)."""
RATIO_MOST = 4.0
AT_ONCE_S = 1.0
"""The next step waits so long for a change, at most."""
SPLIT = ("gpus_trainer", "gpus_generator", "engines")
IN_FLIGHT = ("max_in_flight", "max_in_flight_per_engine")


class Knobs:
    def __init__(self, config: Config, engines: Engines) -> None:
        self._config, self._engines = config, engines
        self._trainer = Slices(Path(config.trainer_group))
        self.gpus_trainer, self.gpus_generator = config.gpus_trainer, config.gpus_generator
        self._per_engine, self._ratio = config.in_flight_per_engine, config.oversampling_ratio
        self._control = ControlFile(str(config.folder / "control.json"))
        self._move: asyncio.Task[tuple[dict[str, float], dict[str, str]]] | None = None

    @property
    def limit(self) -> int:
        """Rollouts in flight; one group always fits, also while an engine is lost."""
        return max(self.members, self._per_engine * len(self._engines.used))

    @property
    def members(self) -> int:
        """Rollouts that each group starts; of them the first `group_size` to end are kept."""
        return max(self._config.group_size, round(self._ratio * self._config.group_size))

    @property
    def threads(self) -> int:
        """The trainer's: one for each core that it has, at least one."""
        return max(1, round(self.gpus_trainer * self._config.slice_cores))

    def in_force(self) -> dict[str, float]:
        return {
            "gpus_trainer": self.gpus_trainer,
            "gpus_generator": self.gpus_generator,
            "engines": len(self._engines.used),
            "max_in_flight_per_engine": self._per_engine,
            "max_in_flight": self.limit,
            "oversampling_ratio": self.members / self._config.group_size,
        }

    async def begin(self) -> None:
        await self._share_out(self.gpus_trainer, self.gpus_generator)
        self._control.acknowledge(self.in_force(), {}, 0)

    async def boundary(self, step: int) -> None:
        """Between two steps."""
        self._acknowledge(step)
        if self._move is None and (wanted := self._control.changed()) is not None:
            self._move = asyncio.create_task(self._turned(wanted))
            await asyncio.wait({self._move}, timeout=AT_ONCE_S)
            self._acknowledge(step)
        if self._move is None and len(self._engines.used) < self.gpus_generator:
            with suppress(EngineLostError):
                await self._engines.use(self.gpus_generator)

    def _acknowledge(self, step: int) -> None:
        if self._move is not None and self._move.done():
            in_force, refused = self._move.result()
            self._control.acknowledge(in_force, refused, step)
            self._move = None

    async def _turned(self, wanted: dict[str, Any]) -> tuple[dict[str, float], dict[str, str]]:
        refused = dict.fromkeys(wanted.keys() - self.in_force().keys(), "this job does not turn it")
        count = int(wanted.get("engines", wanted.get("gpus_generator", self.gpus_generator)))
        self._turn_ratio(wanted, refused)
        self._turn_in_flight(wanted, count, refused)
        try:
            await self._share_out(int(wanted.get("gpus_trainer", self.gpus_trainer)), count)
        except EngineLostError as error:
            refused |= {n: str(error) for n in SPLIT if n in wanted}
        return self.in_force(), refused

    def _turn_ratio(self, wanted: dict[str, Any], refused: dict[str, str]) -> None:
        ratio = float(wanted.get("oversampling_ratio", self._ratio))
        if 1.0 <= ratio <= RATIO_MOST:
            self._ratio = ratio
        else:
            refused["oversampling_ratio"] = f"a group starts 1 to {RATIO_MOST:g} times what it needs"

    def _turn_in_flight(self, wanted: dict[str, Any], engines: int, refused: dict[str, str]) -> None:
        per_engine = int(wanted.get("max_in_flight_per_engine", self._per_engine))
        if "max_in_flight" in wanted:
            per_engine = round(wanted["max_in_flight"] / max(1, engines))
        if 0 < per_engine <= SLOTS:
            self._per_engine = per_engine
        else:
            refused |= {n: f"an engine takes 1 to {SLOTS} at once" for n in IN_FLIGHT if n in wanted}

    async def _share_out(self, gpus_trainer: int, engines: int) -> None:
        """Who gives goes first, so that no slice is held twice."""
        cores = self._config.slice_cores
        if engines < 1 or gpus_trainer < 1:
            raise EngineLostError("both sides need at least one slice")
        if gpus_trainer < self.gpus_trainer:
            self._trainer.give(gpus_trainer * cores)
        try:
            await self._engines.use(engines)
        except EngineLostError:
            self._trainer.give(self.gpus_trainer * cores)
            raise
        self._trainer.give(gpus_trainer * cores)
        self.gpus_trainer, self.gpus_generator = gpus_trainer, engines
