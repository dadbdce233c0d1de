"""Launch scripts and argument lists: which words of a command are the job's settings, and which the launcher's."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tuner.parsing.configuration import UNKNOWN, parse_tokens
from tuner.records import Configuration, Item, Remark
from tuner.sources.configuration.shell import Script, commands

LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "srun", "mpirun"})
"""Their own flags are kept under `launcher.`: `torchrun --nproc_per_node 8` is `launcher.nproc_per_node`."""

LAUNCHING_MODULES = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)

WRAPPERS = frozenset({"launch", "run", "exec", "env", "python", "python3", "bash", "sh", *LAUNCHERS})
"""After `uv run`, these are not yet the program."""

PROGRAMS = frozenset({"trl", "rl", "orchestrator", "trainer", "inference", "vllm", "sglang", "swift"})
"""Commands that start a part of a job without `python`."""

MOST_NESTED = 3
"""How deep `bash -c "..."` is followed."""

_PYTHON = re.compile(r"(?:.*/)?(?:python[\d.]*|torchrun|accelerate|deepspeed|uv|srun|mpirun|ray)\Z")
_SBATCH = re.compile(r"^#SBATCH\s+(--\S+(?:[ \t]+[^\s#]\S*)?)", re.MULTILINE)
_START = re.compile(
    r"^[ \t]*(?:export[ \t]+|[A-Za-z_]\w*=\S*[ \t]+)*(?:uv run|python3?\b|torchrun\b|accelerate launch|deepspeed\b"
    r"|trl\b|ray job submit|srun\b|vllm serve|bash -c)",
    re.MULTILINE,
)
_ARGUMENTS = re.compile(r"\A\s*(?:#[^\n]*\n\s*)*(?:--[A-Za-z][\w.-]*(?:[ =\\\n]|\Z)|\+{0,2}\w+(?:\.\w+)+=\S)")
_ARRAY_OF_FLAGS = re.compile(r"^[ \t]*\w+\+?=\(\s*(?:#[^\n]*\n\s*)*(?:--\w|\+{0,2}\w+(?:\.\w+)+=)", re.MULTILINE)
_SHEBANG = re.compile(r"\A#!.*\b(?:ba|z)?sh\b")


def looks_like_launch(text: str, alone: bool = False) -> bool:
    """True for a script that starts a job, or a bare argument list. `alone`: nothing but the content tells."""
    if _ARGUMENTS.match(text):
        return True
    if alone and not _SHEBANG.match(text):
        # A console log may echo a command: a script says so in its first line, a pasted command is all there is.
        found = _START.match(text)
        return found is not None and "\n" not in re.sub(r"\\\r?\n", " ", text).strip()
    return bool(_START.search(text) or _ARRAY_OF_FLAGS.search(text))


@dataclass(frozen=True, slots=True)
class Launch:
    """One command that starts a part of the job."""

    entry: str
    """Module or script: `verl.trainer.main_ppo`, `train.py`."""
    launcher: tuple[str, ...]
    arguments: tuple[str, ...]


def launches(text: str, origin: str) -> Iterator[Item]:
    """One configuration per launched command; the arrays of arguments themselves where no command is found."""
    head = parse_tokens(word for found in _SBATCH.findall(text) for word in found.split())
    sbatch = {f"sbatch.{key}": value for key, value in head.items()}
    script = Script()
    unresolved: list[str] = []
    found = False
    for launch in _launches(text, script, 0):
        found = True
        values = parse_tokens(launch.arguments)
        values.update({f"launcher.{key}": value for key, value in parse_tokens(launch.launcher).items()})
        unresolved.extend(_unresolved(launch.arguments))
        yield Configuration({**sbatch, **values, "launcher.entry": launch.entry}, origin=origin)
    if not found:
        words = [word for name, array in script.arrays.items() if name not in script.used for word in array]
        words = words or _bare_arguments(text)
        unresolved.extend(_unresolved(words))
        values = parse_tokens(words)
        if values or sbatch:
            yield Configuration({**sbatch, **values}, origin=origin)
        else:
            yield Remark("unreadable-configuration", "no command that starts a job, and no argument list", origin)
    if unresolved:
        shown = ", ".join(unresolved[:5]) + (f" and {len(unresolved) - 5} more" if len(unresolved) > 5 else "")
        detail = f"left out, as their shell variables are not set here: {shown}; give the configuration the job printed"
        yield Remark("unresolved-variable", detail, origin)


def _launches(text: str, script: Script, depth: int) -> Iterator[Launch]:
    for words in commands(text, script):
        inner = _inner_script(words)
        if inner is not None and depth < MOST_NESTED:
            yield from _launches(inner, script, depth + 1)
            continue
        launch = find_launch(words)
        if launch is not None:
            yield launch


def _inner_script(words: list[str]) -> str | None:
    """The script in `bash -c "..."`, also behind srun or docker."""
    for place in range(len(words) - 2):
        if words[place].rpartition("/")[2] in ("bash", "sh") and words[place + 1] in ("-c", "-lc", "-lic", "-ic"):
            return words[place + 2]
    return None


def find_launch(words: list[str]) -> Launch | None:
    """The job's program and its arguments in a command's words; None for `ray start`, `mkdir` and the like."""
    if words[:3] == ["ray", "job", "submit"]:
        words = words[words.index("--") + 1 :] if "--" in words else []
    launcher: list[str] = []
    python = uv = launching = False
    for place, word in enumerate(words):
        name, before = word.rpartition("/")[2], words[place - 1] if place else ""
        if python and before == "-m" and word not in LAUNCHING_MODULES:
            return Launch(word, tuple(launcher[:-1]), tuple(words[place + 1 :]))
        by_uv = uv and before == "run" and word[:1] != "-" and name not in WRAPPERS
        by_name = name in PROGRAMS and (place == 0 or (python and before[:1] != "-"))
        if by_uv or by_name or (name.endswith(".py") and (python or place == 0)):
            return Launch(name, tuple(launcher), tuple(words[place + 1 :]))
        if name.endswith(".sh") and before in ("bash", "sh") and parse_tokens(words[place + 1 :]):
            return Launch(name, (), tuple(words[place + 1 :]))
        if launching:
            launcher.append(word)
        uv = uv or name == "uv"
        python = python or _PYTHON.match(word) is not None
        launching = launching or name in LAUNCHERS or word in LAUNCHING_MODULES
    return None


def _bare_arguments(text: str) -> list[str]:
    """The words of a file that is nothing but arguments, one or many a line."""
    if not _ARGUMENTS.match(text):
        return []
    without_ends = re.sub(r"(?m)(?:^|(?<=\s))#.*$|\\$", "", text).replace("\n", " ")
    return [word for words in commands("arguments " + without_ends, Script()) for word in words]


def _unresolved(words: tuple[str, ...] | list[str]) -> list[str]:
    """The names of settings whose value is not known."""
    names = []
    for place, word in enumerate(words):
        if UNKNOWN not in word:
            continue
        before = (earlier for earlier in reversed(words[:place]) if earlier.startswith("-"))
        name = word if "=" in word else next(before, "")
        name = name.partition("=")[0].lstrip("-+")
        if name and UNKNOWN not in name and name not in names:
            names.append(name)
    return names
