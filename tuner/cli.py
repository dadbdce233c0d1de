"""The command's face: names, options and help. Everything else is imported inside the command that needs it."""

import io
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, cast

import typer

from tuner import cli_daemon, cli_tune
from tuner.cli_options import AsJson, FrameworkName, JobPath, Last, Since, Sources
from tuner.errors import TunerError
from tuner.version import VERSION

COMMANDS = (
    ("advise", "Who waits for whom, what it costs, what to change first, what to leave alone."),
    ("whatif", "Other settings instead of today's: what they would bring, by a model calibrated on the job itself."),
    ("compare", "Two runs phase by phase, per rollout and per token: why is one slower?"),
    ("evaluate", "Control laws on scenarios until the same work is done, with a clairvoyant's run beside them."),
    ("explain", "One decision of a journal, as a person would tell it: seen, limits, alternatives, what came of it."),
    ("init", "Print a first job file from what the sources show."),
    ("replay", "A journal's observations through a control law again: the same decisions, or another law's."),
    ("simulate", "Run a scenario: an invented or published job that drifts, in seconds instead of days."),
    ("validate", "Published jobs against the model: measured, predicted, and how a naive guess would do."),
    cli_tune.COMMAND,
    *cli_daemon.COMMANDS,
)
"""Name and help of each command; a test compares it with what is registered and with tuner/commands/."""

HELP = dict(COMMANDS)

EXIT_INTERRUPTED, EXIT_BUG = 130, 70

app = typer.Typer(
    name="equipoise",
    help="Keeps an RL post-training job in balance: reads its own logs and metrics and says what to change first.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"equipoise {VERSION}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
) -> None:
    pass


@app.command("advise", help=HELP["advise"], short_help=HELP["advise"])
def _advise(
    sources: Sources = None,
    framework: FrameworkName = "auto",
    job: JobPath = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with pictures.")] = None,
    since: Since = None,
    last: Last = None,
    usd_per_gpu_hour: Annotated[
        str | None, typer.Option("--usd-per-gpu-hour", metavar="USD", help="Price of one GPU for an hour.")
    ] = None,
) -> None:
    from tuner.commands import advise, base

    ask = base.Ask(tuple(sources or ()), framework, job, since, last)
    advise.run(ask, advise.Wish(as_json, html, usd_per_gpu_hour))


@app.command("whatif", help=HELP["whatif"], short_help=HELP["whatif"])
def _whatif(
    sources: Sources = None,
    wishes: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="NAME=VALUE", help="A setting to ask about (gpus_trainer=48); as many as needed."
        ),
    ] = None,
    framework: FrameworkName = "auto",
    job: JobPath = None,
    as_json: AsJson = False,
    since: Since = None,
    last: Last = None,
) -> None:
    from tuner.commands import base, whatif

    whatif.run(base.Ask(tuple(sources or ()), framework, job, since, last), wishes or (), as_json=as_json)


@app.command("compare", help=HELP["compare"], short_help=HELP["compare"])
def _compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="A file or folder, as for advise.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The other one.")],
    framework: FrameworkName = "auto",
    as_json: AsJson = False,
    last: Last = None,
) -> None:
    from tuner.commands import base, compare

    asks = [base.Ask((path,), framework, None, None, last) for path in (run_a, run_b)]
    compare.run(asks[0], asks[1], as_json=as_json)


@app.command("evaluate", help=HELP["evaluate"], short_help=HELP["evaluate"])
def _evaluate(
    scenarios: Annotated[
        list[str] | None,
        typer.Option(
            "--scenarios", metavar="DIR|FILE|NAME", help="Which (repeatable); all that come with it if absent."
        ),
    ] = None,
    policies: Annotated[
        str | None, typer.Option("--policies", metavar="A,B", help="Which control laws; all if absent.")
    ] = None,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", metavar="N", help="Runs of each, on paired random numbers (2; quick 1, full 5)."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Shorter horizons, one seed: a few minutes.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Whole horizons, five seeds, a finer yardstick: hours.")] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Keep finished runs here; started again, it goes on from them."),
    ] = None,
    journals: Annotated[
        Path | None, typer.Option("--journals", metavar="DIR", help="Write every controlled run's journal there.")
    ] = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with pictures.")] = None,
) -> None:
    from tuner.commands import evaluate

    names = tuple(name.strip() for word in scenarios or () for name in word.split(","))
    laws = tuple(name.strip() for name in (policies or "").split(",") if name.strip())
    evaluate.run(evaluate.Wish(names, laws, seeds, quick, full, as_json, html, record, journals))


@app.command("explain", help=HELP["explain"], short_help=HELP["explain"])
def _explain(
    journal: Annotated[Path, typer.Option("--journal", metavar="FILE", help="The journal of a controller.")],
    ident: Annotated[
        str | None, typer.Argument(metavar="ID", help="A decision (d80); the last move if absent.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    from tuner.commands import explain

    explain.run(explain.Wish(journal, ident, as_json))


@app.command("init", help=HELP["init"], short_help=HELP["init"])
def _init(sources: Sources = None, framework: FrameworkName = "auto") -> None:
    from tuner.commands import base, init

    init.run(base.Ask(tuple(sources or ()), framework))


@app.command("replay", help=HELP["replay"], short_help=HELP["replay"])
def _replay(
    journal: Annotated[Path, typer.Argument(metavar="JOURNAL", help="The journal of a controller.")],
    policy: Annotated[
        str | None, typer.Option("--policy", metavar="NAME", help="A control law; the journal's own if absent.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    from tuner.commands import replay

    replay.run(replay.Wish(journal, policy, as_json))


@app.command("simulate", help=HELP["simulate"], short_help=HELP["simulate"])
def _simulate(
    scenario: Annotated[
        str | None, typer.Option("--scenario", metavar="FILE|NAME", help="A scenario file, or a shipped one's name.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed, same run.")] = 0,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="KNOB=VALUE", help="Another value than the file's; repeatable.")
    ] = None,
    levers: Annotated[
        bool, typer.Option("--levers", help="Also simulate what would help: split, tasks, tail, in flight.")
    ] = False,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with pictures.")] = None,
    names: Annotated[bool, typer.Option("--list", help="Name the shipped scenarios and stop.")] = False,
    show: Annotated[
        str | None, typer.Option("--show", metavar="NAME", help="Print a scenario's file and stop.")
    ] = None,
) -> None:
    from tuner.commands import simulate

    if names:
        return simulate.print_shipped()
    if show is not None:
        return simulate.print_text(show)
    return simulate.run(simulate.Wish(scenario, seed, tuple(settings or ()), as_json, html, levers))


@app.command("validate", help=HELP["validate"], short_help=HELP["validate"])
def _validate(
    case: Annotated[str | None, typer.Option("--case", metavar="ID", help="Only this one, at length.")] = None,
    cases: Annotated[
        Path | None, typer.Option("--cases", metavar="DIR", help="Your own case files (a folder or one .toml).")
    ] = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with pictures.")] = None,
) -> None:
    from tuner.commands import validate

    validate.run(validate.Wish(case, cases, as_json, html))


cli_tune.register(app)
cli_daemon.register(app, HELP)

USAGE_ERROR = next(c for c in typer.BadParameter.__mro__ if c.__name__ == "ClickException")
"""The parser's own complaints, wherever this version of typer keeps them."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line; the result is the exit code. Never a traceback unless EQUIPOISE_DEBUG=1."""
    _replace_closed_streams()
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(args=None if arguments is None else list(arguments), prog_name="equipoise", standalone_mode=False)
        sys.stdout.flush()
    except (BrokenPipeError, SystemExit):
        # The reader has seen enough (typer turns EPIPE into SystemExit). Python flushes again at exit, in silence.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        return 0
    except TunerError as error:
        return _complain(str(error), error.exit_code)
    except OSError as error:
        return _complain(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}", 2)
    except (KeyboardInterrupt, typer.Abort):
        return _complain("interrupted", EXIT_INTERRUPTED)
    except Exception as error:
        if isinstance(error, USAGE_ERROR):
            return _usage(error)
        if os.environ.get("EQUIPOISE_DEBUG") == "1":
            raise
        return _complain(
            f"this is a bug of ours ({type(error).__name__}: {str(error)[:200]}). "
            "Please report it with the output of the same command under EQUIPOISE_DEBUG=1.",
            EXIT_BUG,
        )
    if code == EXIT_INTERRUPTED:
        return _complain("interrupted", EXIT_INTERRUPTED)
    return code if isinstance(code, int) else 0


def _replace_closed_streams() -> None:
    """A stream that the caller closed (`>&-`, some daemons) is None in Python: reads end, what is written is lost."""
    nothing = Path(os.devnull)
    sys.stdin = sys.stdin or nothing.open(encoding="utf-8")
    sys.stdout = sys.stdout or nothing.open("w", encoding="utf-8")
    sys.stderr = sys.stderr or nothing.open("w", encoding="utf-8")


def _usage(error: Exception) -> int:
    text = " ".join(str(cast(Any, error).format_message()).split())
    if not text:
        return 2
    end = "" if text.endswith((".", "?")) else "."
    return _complain(f"{text}{end} `equipoise --help` lists commands, `equipoise COMMAND --help` options.", 2)


def _complain(text: str, code: int) -> int:
    """One sentence on stderr; what a file name or a log slipped in cannot colour or break the terminal."""
    plain = "".join(c if c.isprintable() else " " for c in text.encode("utf-8", "backslashreplace").decode())
    sys.stderr.write(f"error: {plain}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
