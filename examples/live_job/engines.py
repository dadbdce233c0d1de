"""The job's engines: which are in use, a router to the least loaded, new weights for all, more or fewer of them."""

import asyncio
import json
import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp

from examples.live_job.slices import Slices

CALL_S = 60.0
"""A request or an order that takes longer has failed."""
DRAIN_S = 30.0
"""How long an engine that is taken out of use may finish what it has; then its requests go to others."""


class EngineLostError(RuntimeError):
    """An engine does not answer."""


@dataclass
class Engine:
    """One inference server."""

    name: str
    url: str
    slices: Slices
    used: bool = False
    requests: int = 0
    """Under way."""


@dataclass
class Answer:
    tokens: list[int]
    logprobs: list[float]
    text: str


class Engines:
    """All servers that run. Only those in use get requests, new weights and a place in Prometheus's list of targets."""

    def __init__(self, engines: list[Engine], cores: float, session: aiohttp.ClientSession, targets: Path) -> None:
        self.all, self._cores = engines, cores
        self._session, self._targets = session, targets
        self._changed = asyncio.Condition()

    @property
    def used(self) -> list[Engine]:
        return [engine for engine in self.all if engine.used]

    # ---- requests ----

    async def complete(self, tokens: list[int], most: int) -> Answer:
        """One answer from the least loaded engine in use; another one's, where that dies meanwhile."""
        while True:
            async with self._changed:
                await self._changed.wait_for(lambda: self.used)
                engine = min(self.used, key=lambda e: e.requests)
                engine.requests += 1
            try:
                return await self._asked(engine, tokens, most)
            except EngineLostError:
                await self._out(engine)
            finally:
                engine.requests -= 1

    async def _asked(self, engine: Engine, tokens: list[int], most: int) -> Answer:
        body = {
            "model": "tiny",
            "prompt": tokens,
            "max_tokens": most,
            "temperature": 1.0,
            "logprobs": 0,
            "return_token_ids": True,
            "ignore_eos": True,
        }
        choice = (await self._post(engine, "/v1/completions", body))["choices"][0]
        if choice.get("finish_reason") in ("abort", "error"):  # half an answer is none
            raise EngineLostError(f"{engine.name} did not finish an answer")
        return Answer(choice["token_ids"], choice["logprobs"]["token_logprobs"], choice["text"])

    async def _post(self, engine: Engine, path: str, body: Any = None, total_s: float = CALL_S) -> Any:
        limit = aiohttp.ClientTimeout(total=total_s)
        try:
            async with self._session.post(engine.url + path, json=body, timeout=limit) as answer:
                text = await answer.text()
                if answer.status != 200:
                    raise EngineLostError(f"{engine.name}: {path} answers {answer.status} {text[:200]}")
                return json.loads(text) if text else None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            raise EngineLostError(f"{engine.name}: {path}: {type(error).__name__}") from None

    # ---- weights ----

    async def publish(self) -> None:
        """The weights on disk become those of all engines in use. Requests under way stop, and go on with new ones."""
        await asyncio.gather(*(self._reloaded_or_out(engine) for engine in self.used))

    async def _reloaded_or_out(self, engine: Engine) -> None:
        try:
            await self._reload(engine)
        except EngineLostError:
            await self._out(engine)

    async def _reload(self, engine: Engine) -> None:
        await self._post(engine, "/pause?mode=keep")
        await self._post(engine, "/collective_rpc", {"method": "reload_weights"})
        await self._post(engine, "/reset_prefix_cache")
        await self._post(engine, "/resume")

    # ---- more and fewer ----

    async def use(self, count: int) -> None:
        """So many engines in use, each with its slice. EngineLostError where too few answer: then none was added."""
        before, lost = self.used, EngineLostError(f"there are only {len(self.all)} engines")
        for engine in self.all:
            if len(self.used) < count and not engine.used:
                try:
                    engine.slices.give(self._cores)
                    await self._reload(engine)
                    engine.used = True
                except EngineLostError as error:
                    engine.slices.give(0.0)
                    lost = error
        enough = len(self.used) >= count
        await self._release(self.used[count:] if enough else [engine for engine in self.used if engine not in before])
        if not enough:
            raise lost

    async def _release(self, leaving: list[Engine]) -> None:
        """They finish what they have, for a while, and then hold no slice."""
        for engine in leaving:
            engine.used = False
        await self._told()
        until = time.monotonic() + DRAIN_S
        while time.monotonic() < until and any(engine.requests for engine in leaving):
            await asyncio.sleep(0.05)
        for engine in leaving:
            if engine.requests:
                await self._post(engine, "/abort_requests", {})
            engine.slices.give(0.0)

    async def _out(self, engine: Engine) -> None:
        if engine.used:
            engine.used = False
            await self._told()

    async def _told(self) -> None:
        """Prometheus reads its targets from a file: an engine that is not in use is none of the job's."""
        listed = [{"targets": [engine.url.removeprefix("http://")]} for engine in self.used]
        fresh = self._targets.with_suffix(".new")
        fresh.write_text(json.dumps(listed))
        os.rename(fresh, self._targets)
        async with self._changed:
            self._changed.notify_all()
