"""The live job's generation: what is under way ends with it, and what fails in it is not kept quiet."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from examples.live_job.config import Config
from examples.live_job.engines import Engine, Engines
from examples.live_job.slices import Slices

HOOKS = Path(__file__).parents[3] / "deploy" / "hooks"
PATIENCE_S = 20.0
Answer = Callable[[web.Request], Awaitable[web.Response]]
Jobs = Callable[[Engines], Any]


@pytest.fixture
def job_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Jobs:
    """A job whose batches are never full: it trains nothing. Its control file's hook is where `make live` looks."""
    monkeypatch.syspath_prepend(str(HOOKS))
    job = importlib.import_module("examples.live_job.job").Job
    config = Config(
        folder=tmp_path,
        model=tmp_path,
        engines=[],
        engine_groups=[],
        trainer_group=str(tmp_path),
        slice_cores=0.25,
        metrics_port=0,
        gpus_trainer=1,
        gpus_generator=1,
        in_flight_per_engine=16,
        oversampling_ratio=2.0,
        quiet_s=0.0,
        drift_s=1.0,
        groups_per_batch=10**6,
    )
    return lambda engines: job(config, engines, None)


@asynccontextmanager
async def served(folder: Path, answer: Answer, engines: int = 1) -> AsyncIterator[Engines]:
    """A server that answers prompts so, by as many names behind the job's router."""

    async def obeyed(_: web.Request) -> web.Response:
        return web.Response()

    app = web.Application()
    app.add_routes([web.post("/v1/completions", answer), web.post("/{order}", obeyed)])
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        async with aiohttp.ClientSession() as session:
            named = [Engine(f"engine-{i}", f"http://{host}:{port}", Slices(folder)) for i in range(engines)]
            yield Engines(named, 0.25, session, folder / "engines.json")
    finally:
        await runner.cleanup()


def test_a_job_that_is_told_to_stop_gives_up_what_is_under_way(job_on: Jobs, tmp_path: Path) -> None:
    """Its rollouts went on beside a closed session: a traceback for each of them was the last that a log said."""

    async def scenario() -> tuple[int, int]:
        asked = asyncio.Event()

        async def never(_: web.Request) -> web.Response:
            asked.set()
            await asyncio.sleep(10.0 * PATIENCE_S)
            return web.Response()

        async with served(tmp_path, never) as engines:
            job = job_on(engines)
            await job.knobs.begin()
            playing = asyncio.create_task(job.play())
            await asyncio.wait_for(asked.wait(), PATIENCE_S)
            job.stop.set()
            await asyncio.wait_for(playing, PATIENCE_S)
            return engines.all[0].requests, job.in_flight

    assert asyncio.run(scenario()) == (0, 0)


def test_an_answer_that_cannot_be_understood_ends_the_job_with_that_word(job_on: Jobs, tmp_path: Path) -> None:
    """It kept a place in flight for ever, and the job went slower and slower without a word."""

    async def scenario() -> None:
        async def odd(_: web.Request) -> web.Response:
            return web.json_response({"choices": [{"text": "no tokens"}]})

        async with served(tmp_path, odd) as engines:
            job = job_on(engines)
            await job.knobs.begin()
            await asyncio.wait_for(job.play(), PATIENCE_S)

    with pytest.raises(ExceptionGroup) as told:
        asyncio.run(scenario())
    assert told.group_contains(KeyError, match="token_ids")


def test_attempts_that_are_given_up_leave_their_places(job_on: Jobs, tmp_path: Path) -> None:
    """Eight attempts a group, of which the first four to end are kept."""

    async def scenario() -> tuple[int, float]:
        count = 0

        async def every_other(_: web.Request) -> web.Response:
            nonlocal count
            count += 1
            await asyncio.sleep(0.0 if count % 2 else 10.0 * PATIENCE_S)
            choice = {"token_ids": [1], "logprobs": {"token_logprobs": [-1.0]}, "text": "e"}
            return web.json_response({"choices": [choice]})

        async with served(tmp_path, every_other) as engines:
            job = job_on(engines)
            await job.knobs.begin()
            playing = asyncio.create_task(job.play())
            async with asyncio.timeout(PATIENCE_S):
                while job.number < 6:
                    await asyncio.sleep(0.01)
            most = job.in_flight
            job.stop.set()
            await asyncio.wait_for(playing, PATIENCE_S)
            return most, job.in_flight

    most, left = asyncio.run(scenario())
    assert most <= 16
    assert left == 0


def test_an_answer_that_was_cut_off_is_asked_for_again_elsewhere(tmp_path: Path) -> None:
    """An engine that leaves aborts what it has not finished in time: half an answer was trained as a whole one."""

    async def scenario() -> tuple[list[int], list[bool]]:
        reasons = ["abort", "length"]

        async def cut_off_once(_: web.Request) -> web.Response:
            reason = reasons.pop(0)
            tokens = [1, 2] if reason == "length" else [1]
            choice = {"token_ids": tokens, "logprobs": {"token_logprobs": [-1.0] * len(tokens)}, "text": "ee"}
            return web.json_response({"choices": [{**choice, "finish_reason": reason}]})

        async with served(tmp_path, cut_off_once, engines=2) as engines:
            await engines.use(2)
            answer = await asyncio.wait_for(engines.complete([5, 6], 2), PATIENCE_S)
            return answer.tokens, [engine.used for engine in engines.all]

    assert asyncio.run(scenario()) == ([1, 2], [False, True])
