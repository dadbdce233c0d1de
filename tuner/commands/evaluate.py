"""`equipoise evaluate`: control laws on scenarios at equal progress, with a clairvoyant's run beside them."""

import hashlib
import json
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from pydantic import TypeAdapter, ValidationError

from policies.reachable import half_turned
from tuner.charter import POLICIES, policy_named
from tuner.errors import ConfigError
from tuner.evaluation.pool import all_done
from tuner.evaluation.tasks import FULL, NOTHING, ORACLE, QUICK, USUAL, Run, Size, Task
from tuner.report.evaluated import evaluated, render, to_json
from tuner.report.progress import Progress, evaluating
from tuner.scenario_files import Named, load, shipped
from tuner.version import VERSION

SEEDS = {"quick": 1, "usual": 2, "full": 5}
SIZES = {"quick": QUICK, "usual": USUAL, "full": FULL}
CUT = {"quick": ", horizons cut short (--quick)", "usual": ", long horizons cut (--full has them whole)", "full": ""}
_RUN = TypeAdapter(Run)
MAKING = ("policies", "simulators", "tuner.evaluation", "tuner.loop", "tuner.charter", "tuner.hearing", "tuner.worker")
"""Whose code makes a run what it is."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What the command line said."""

    scenarios: tuple[str, ...] = ()
    """Files, folders or names; none: all that are shipped."""
    policies: tuple[str, ...] = ()
    seeds: int | None = None
    quick: bool = False
    full: bool = False
    json: bool = False
    html: Path | None = None
    record: Path | None = None
    """Runs that are done are kept here, and not done again."""
    journals: Path | None = None
    """A folder for the journal of every controlled run."""


def run(wish: Wish) -> None:
    """Prints the table, and writes the report where one is asked for."""
    if wish.html is not None:
        html_room().check_target(wish.html)
    named = scenarios_of(wish.scenarios)
    policies = tuple(dict.fromkeys((NOTHING, *(wish.policies or POLICIES))))
    for name in policies:
        policy_named(name)
    if wish.quick and wish.full:
        raise ConfigError("--quick and --full: choose one of them")
    tier = "quick" if wish.quick else "full" if wish.full else "usual"
    seeds = wish.seeds if wish.seeds is not None else SEEDS[tier]
    if seeds < 1:
        raise ConfigError(f"--seeds {seeds}: at least 1")
    began = time.monotonic()
    runs = _all_runs(named, policies, seeds, How(SIZES[tier], wish.record, _folder(wish.journals)))
    runs = sorted(runs, key=lambda r: (r.name, (*policies, ORACLE).index(r.policy), r.seed))
    slips = [f" {n.name}: {slip}." for n in named for slip in half_turned(n.scenario)]
    note = f"{len(runs)} runs, {time.monotonic() - began:.0f} s{CUT[tier]}.{''.join(slips)}"
    told = evaluated({n.name: n.scenario for n in named}, runs, seeds, note)
    if wish.html is not None:
        html_room().write(wish.html, page_room().render_evaluated(told))
    sys.stdout.write(to_json(told) + "\n" if wish.json else render(told))


def scenarios_of(words: Sequence[str]) -> list[Named]:
    """Every scenario that the words name; a name may stand only once."""
    paths: list[str] = []
    for word in dict.fromkeys(words or [path.stem for path in shipped()]):
        if not word.strip():
            raise ConfigError("--scenarios: an empty name; `equipoise simulate --list` names what comes with it")
        folder = Path(word)
        if not folder.is_dir():
            paths.append(word)
            continue
        inside = sorted(folder.glob("*.toml"))
        if not inside:
            raise ConfigError(f"--scenarios {word}: there is no scenario (*.toml) in this folder")
        paths += map(str, inside)
    found = [load(path) for path in paths]
    names = [named.name for named in found]
    twice = [name for name in names if names.count(name) > 1]
    if twice:
        raise ConfigError(f"--scenarios: two scenarios are named {twice[0]}; rename one of the files")
    return found


@dataclass(frozen=True, slots=True)
class How:
    """How thorough, and what is kept of it on disk."""

    size: Size
    record: Path | None = None
    journals: Path | None = None


def _folder(path: Path | None) -> Path | None:
    if path is None:
        return None
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"--journals {path}: cannot be made: {error.strerror}; name another folder") from None
    if any(path.glob("*.journal")):
        raise ConfigError(f"--journals {path}: holds journals already; name an empty folder")
    return path


def _all_runs(named: Sequence[Named], policies: Sequence[str], seeds: int, how: How) -> list[Run]:
    """First what doing nothing makes of each scenario, then everything else at the same progress."""
    record = Record(how.record, how.size)
    progress = Progress(sys.stderr, time.monotonic, evaluating)
    first = [Task(n.name, n.scenario, NOTHING, seed, how.size) for n in named for seed in range(seeds)]
    total = len(first) * (len(policies) + 1)
    try:
        nothing = list(record.done(first, progress, total))
        by_key = {(r.name, r.seed): r for r in nothing}
        rest = [
            _after(task, policy, by_key[task.name, task.seed], how)
            for policy in (ORACLE, *policies[1:])
            for task in first
        ]
        return [*nothing, *record.done(rest, progress, total)]
    finally:
        progress.clear()
        if record.anew:
            why = "what is kept of them was made by other code, another scenario or at another size"
            sys.stderr.write(f"--record {how.record}: {record.anew} runs taken anew: {why}\n")


def _after(task: Task, policy: str, nothing: Run, how: How) -> Task:
    """The same scenario and seed under another policy, to the same progress."""
    written = how.journals is not None and policy != ORACLE
    path = how.journals / f"{task.name}-{policy}-{task.seed}.journal" if written and how.journals is not None else None
    return replace(task, policy=policy, goal=nothing.goal, ends_s=nothing.seconds, journal=path)


class Record:
    """Runs on disk, one a line: what is there under the same conditions is not done again."""

    def __init__(self, path: Path | None, size: Size) -> None:
        self.path, self.ready = path, dict[str, Run]()
        self.mark = f"{VERSION} {_sources_mark()} {size}"
        self.kept, self.anew = set[tuple[str, str, int]](), 0
        self.count = 0
        if path is not None and (path.is_dir() or not path.parent.is_dir()):
            raise ConfigError(f"--record {path}: must be a file in a folder that is there")
        if path is not None and path.exists():
            self._read(path)

    def _read(self, path: Path) -> None:
        lines = _record_lines(path)
        if lines and not lines[-1].endswith("\n"):
            with path.open("a", encoding="utf-8") as file:  # killed while it wrote: the next run starts its own line
                file.write("\n")
        for line in lines:
            with suppress(ValueError, KeyError, TypeError, ValidationError):
                entry = json.loads(line)
                if entry["mark"] == self.mark:
                    self.ready[entry["task"]] = _RUN.validate_python(entry["run"])
                run = entry["run"]
                self.kept.add((run["name"], run["policy"], run["seed"]))

    def done(self, tasks: Sequence[Task], progress: Progress, total: int) -> Iterator[Run]:
        known = [(task, None if task.journal else self.ready.get(_fingerprint(task))) for task in tasks]
        self.anew += sum(found is None and (t.name, t.policy, t.seed) in self.kept for t, found in known)
        names = {task.key: _fingerprint(task) for task in tasks}
        for _, found in known:
            if found is not None:
                self.count += 1
                yield found
        for result in all_done([task for task, found in known if found is None]):
            self.count += 1
            progress(self.count, total)
            self._keep(names[f"{result.name}/{result.policy}/{result.seed}"], result)
            yield result

    def _keep(self, task: str, result: Run) -> None:
        if self.path is None:
            return
        line = json.dumps({"mark": self.mark, "task": task, "run": _RUN.dump_python(result, mode="json")})
        with self.path.open("a", encoding="utf-8") as file:
            file.write(line + "\n")


def _record_lines(path: Path) -> list[str]:
    """Lines of a record; a file of another kind is refused rather than added to."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    except UnicodeDecodeError:
        lines = ["no text"]
    if lines and not lines[0].startswith('{"mark": '):
        raise ConfigError(f"--record {path}: is no record of an evaluation; name a new file")
    return lines


def _fingerprint(task: Task) -> str:
    """What a run depends on beside our own sources: scenario, seed, goal, the law with its module and parameters."""
    law = None if task.policy == ORACLE else policy_named(task.policy, task.parameters)
    return repr((task.key, task.scenario, task.goal, law, "" if law is None else _module_mark(type(law).__module__)))


def _sources_mark() -> str:
    """Of all sources that make a run: whoever edits one of them gets runs of the new code."""
    return _hash(path for room in MAKING for path in _sources(room))


def _sources(room: str) -> list[Path]:
    """A module's file, or every file of a package in one order."""
    module = import_module(room)
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    return sorted(p for f in folders for p in f.rglob("*.py")) or [Path(module.__file__ or "")]


def _module_mark(name: str) -> str:
    path = import_module(name).__file__
    return "" if path is None else _hash([Path(path)])


def _hash(paths: Iterable[Path]) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def html_room() -> ModuleType:
    """jinja2 is loaded only for those who ask for a report."""
    return import_module("tuner.report.html")


def page_room() -> ModuleType:
    """Draws the pages."""
    return import_module("tuner.report.evaluated_html")
