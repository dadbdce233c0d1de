# ruff: noqa: PLC0415  (as in tuner/cli.py: what a command needs is imported when it runs)
"""The command's face for a daemon: options of `run` and of what talks to it. Imports as little as tuner/cli.py."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated

import typer

from tuner.cli_options import AsJson

COMMANDS = (
    ("run", "Beside a live job until it is told to stop: look, decide, write down, advise, ask or act."),
    ("status", "What a running daemon sees, does and waits for."),
    ("pause", "Tell a running daemon to leave one knob, or all, alone."),
    ("resume", "Tell it to go on: pauses, freezes and alarms are over."),
    ("approve", "Say yes to the move that it asks for."),
    ("mode", "Say how far it goes by itself: observe, advise, approve or auto."),
    ("doctor", "Before a run: do the sources answer, do names exist, are knobs legal, is the disk a local one?"),
    ("journal", "Export a daemon's journal: one line or row a tick."),
)
"""Name and help of each, in the order of the list."""

Job = Annotated[Path, typer.Option("--job", metavar="FILE", help="The job file.")]
MaybeJob = Annotated[
    Path | None, typer.Option("--job", metavar="FILE", help="The daemon's job file: its address and token.")
]
Url = Annotated[
    str | None, typer.Option("--url", metavar="URL", help="The daemon's address; http://127.0.0.1:9464 if absent.")
]
Token = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Its bearer token; the job file's if absent.")
]
Knob = Annotated[str | None, typer.Argument(metavar="KNOB", help="gpus_trainer, max_in_flight, ...; all if absent.")]


def register(app: typer.Typer, texts: Mapping[str, str]) -> None:
    """Adds the daemon's commands."""
    talking: tuple[Callable[..., int | None], ...] = (_status, _pause, _resume, _approve, _mode)
    for (name, _), command in zip(COMMANDS, (_run, *talking, _doctor, _journal), strict=True):
        app.command(name, help=texts[name], short_help=texts[name])(command)


def _run(
    job: Job,
    mode: Annotated[
        str | None,
        typer.Option("--mode", metavar="MODE", help="observe, advise, approve or auto; the file's if absent."),
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="One tick: print the decision and stop.")] = False,
    as_json: AsJson = False,
) -> int:
    from tuner.commands import run

    return run.run(run.Wish(job, mode, once, as_json))


def _status(job: MaybeJob = None, url: Url = None, as_json: AsJson = False) -> None:
    from tuner.commands import status

    status.run(job, url, as_json=as_json)


def _pause(
    knob: Knob = None,
    direction: Annotated[
        str | None, typer.Option("--direction", metavar="up|down", help="Only this way; both if absent.")
    ] = None,
    job: MaybeJob = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    from tuner.commands import pause

    pause.run(knob, direction, (job, url, token_file))


def _resume(knob: Knob = None, job: MaybeJob = None, url: Url = None, token_file: Token = None) -> None:
    from tuner.commands import resume

    resume.run(knob, (job, url, token_file))


def _approve(
    ident: Annotated[str, typer.Argument(metavar="ID", help="The decision that waits, as `status` names it: d80.")],
    job: MaybeJob = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    from tuner.commands import approve

    approve.run(ident, (job, url, token_file))


def _mode(
    mode: Annotated[str, typer.Argument(metavar="MODE", help="observe, advise, approve or auto.")],
    job: MaybeJob = None,
    url: Url = None,
    token_file: Token = None,
) -> None:
    from tuner.commands import mode as command

    command.run(mode, (job, url, token_file))


def _doctor(job: Job, as_json: AsJson = False) -> int:
    from tuner.commands import doctor

    return doctor.run(job, as_json=as_json)


def _journal(
    action: Annotated[str, typer.Argument(metavar="export", help="What to do with it: export.")],
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal of a controller.")],
    kind: Annotated[
        str, typer.Option("--format", metavar="jsonl|csv", help="JSON lines with everything, or a table.")
    ] = "jsonl",
) -> None:
    from tuner.commands import journal as command

    command.run(action, journal, kind)
