"""Runs one case in this process and judges what came out."""

import json
import math
import signal
import tempfile
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from jsonschema import Draft202012Validator

from tests.fuzz import library
from tests.fuzz.cases import Case
from tuner.errors import ContractError, TunerError

OUR_PACKAGES = ("simulators", "policies", "tuner")
HANG_S = 60
"""A case that has computed for so long counts as a hang. Inputs are small: an honest one takes milliseconds.

Processor seconds: on a machine that many share the clock on the wall says nothing of a case.
"""
STUCK_S = 1200
"""By the clock on the wall: so long no case waits for anything."""


class HangError(BaseException):
    """Not an Exception, so that no `except Exception` on the way swallows it."""


class DirtyAnswerError(Exception):
    """The answer is there, but is not JSON as promised."""


@dataclass(frozen=True)
class Outcome:
    index: int
    refusal: str | None = None
    """The sentence of the TunerError; None: an answer was given."""
    failure: str | None = None
    """The traceback."""
    signature: str = ""
    """Kind and place of the failure: equal ones are shown once."""


def run_case(case: Case) -> Outcome:
    with tempfile.TemporaryDirectory(prefix="equipoise-fuzz-") as folder:
        paths = write_files(case, Path(folder))
        return run_paths(paths, case.framework, case.index)


def write_files(case: Case, folder: Path) -> list[Path]:
    """Each file in a folder of its own, so that equal names do not meet."""
    paths = []
    for number, sample in enumerate(case.files):
        path = folder / str(number) / sample.name
        path.parent.mkdir(parents=True)
        path.write_bytes(sample.data)
        paths.append(path)
    return paths


def run_paths(paths: list[Path], framework: str | None, index: int) -> Outcome:
    try:
        with time_limit(), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)
            check_answer(library.answer_json(paths, framework))
    except ContractError as error:
        return _failed(index, error)
    except TunerError as error:
        return Outcome(index, refusal=str(error)) if str(error).strip() else _failed(index, error)
    except (Exception, HangError) as error:
        return _failed(index, error)
    return Outcome(index)


def check_answer(text: str) -> None:
    """Strict JSON with finite numbers only, valid under the shipped schema."""
    try:
        answer = json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except ValueError as error:
        raise DirtyAnswerError(f"not strict JSON: {error}") from error
    errors = sorted(_validator().iter_errors(answer), key=str)
    if errors:
        raise DirtyAnswerError(f"against the schema at {errors[0].json_path}: {errors[0].message[:300]}")


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _finite(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise ValueError(f"{digits[:40]} is not finite")
    return number


@cache
def _validator() -> Draft202012Validator:
    return Draft202012Validator(library.schema())


@contextmanager
def time_limit(hang_s: float = HANG_S, stuck_s: float = STUCK_S) -> Iterator[None]:
    def stop(number: int, _frame: object) -> None:
        limit, clock = (hang_s, "computing") if number == signal.SIGPROF else (stuck_s, "waiting")
        raise HangError(f"not done after {limit:g} s of {clock}")

    clocks = ((signal.SIGPROF, signal.ITIMER_PROF, hang_s), (signal.SIGALRM, signal.ITIMER_REAL, stuck_s))
    previous = [signal.signal(number, stop) for number, _, _ in clocks]
    for _, timer, seconds in clocks:
        signal.setitimer(timer, seconds)
    try:
        yield
    finally:
        for (number, timer, _), handler in zip(clocks, previous, strict=True):
            signal.setitimer(timer, 0.0)
            signal.signal(number, handler)


def _failed(index: int, error: BaseException) -> Outcome:
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if any(f"/{package}/" in frame.filename for package in OUR_PACKAGES)]
    place = f"{Path(ours[-1].filename).name}:{ours[-1].name}" if ours else "the answer"
    what = str(error).partition(":")[0][:80] if isinstance(error, DirtyAnswerError) else ""
    signature = f"{type(error).__name__} in {place} {what}".strip()
    return Outcome(index, failure="".join(traceback.format_exception(error)), signature=signature)
