"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

Sources = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="SOURCE...",
        show_default=False,
        help="Logs, metrics files, resolved configurations, folders of them, or - for standard input.",
    ),
]
FrameworkName = Annotated[str, typer.Option("--framework", metavar="NAME", help="verl, slime, prime-rl, trl, ...")]
JobPath = Annotated[Path | None, typer.Option("--job", metavar="FILE", help="A job file (see `equipoise init`).")]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")]
Since = Annotated[str | None, typer.Option("--since", metavar="STEP|TIME", help="Leave out everything before it.")]
Last = Annotated[
    str | None, typer.Option("--last", metavar="N|DURATION", help="Only the last steps (50) or time (2h).")
]
