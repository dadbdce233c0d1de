# ruff: noqa: PLC0415  (as in tuner/cli.py: what a command needs is imported when it runs)
"""The command's face for studies: the many options of `tune`. Imports as little as tuner/cli.py."""

from pathlib import Path
from typing import Annotated

import typer

from tuner.cli_options import AsJson, FrameworkName, JobPath, Last, Since

COMMAND = ("tune", "Search a job's settings or a policy's parameters: before a run, or overnight from a recording.")
"""Its name and help."""


def register(app: typer.Typer) -> None:
    name, text = COMMAND
    app.command(name, help=text, short_help=text)(_tune)


def _tune(
    scenarios: Annotated[
        list[str] | None,
        typer.Option("--scenario", metavar="FILE|DIR|NAME", help="What to search on (repeatable)."),
    ] = None,
    sources: Annotated[
        list[str] | None,
        typer.Option("--from", metavar="SOURCE", help="Or a recording, calibrated first (repeatable)."),
    ] = None,
    hold_out: Annotated[
        list[str] | None,
        typer.Option("--hold-out", metavar="FILE|DIR|NAME", help="Scenarios to compare on, which no search sees."),
    ] = None,
    knobs: Annotated[
        str | None,
        typer.Option(
            "--knobs",
            metavar="A,B",
            help="split, prefill, concurrency (these if absent), oversampling, staleness, sync, group, batch.",
        ),
    ] = None,
    policy: Annotated[
        str | None,
        typer.Option(
            "--policy", metavar="NAME", help="Search this law's parameters instead (or package.module:Class)."
        ),
    ] = None,
    objective: Annotated[
        str,
        typer.Option(
            "--objective", metavar="A,B", help="useful, worst, staleness, waste, cost, moves; several: a Pareto front."
        ),
    ] = "useful",
    trials: Annotated[int, typer.Option("--trials", metavar="N", help="Points to try.")] = 100,
    seeds: Annotated[
        int | None, typer.Option("--seeds", metavar="N", help="Runs of each scenario (3; policies: 1).")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="Same seed and one worker, same study.")] = 0,
    sampler: Annotated[
        str, typer.Option("--sampler", metavar="NAME", help="auto, tpe, all, nsga, random, cmaes, gp.")
    ] = "auto",
    storage: Annotated[
        str, typer.Option("--storage", metavar="URL", help="sqlite:///FILE, or postgresql://USER@HOST/NAME.")
    ] = "sqlite:///equipoise-studies.db",
    study: Annotated[
        str | None, typer.Option("--study", metavar="NAME", help="Its name there; by what is searched if absent.")
    ] = None,
    begin_from: Annotated[
        str | None, typer.Option("--begin-from", metavar="STUDY", help="Try the best of an earlier one there first.")
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", metavar="N", help="Workers on this machine.")] = 1,
    ray: Annotated[
        str | None, typer.Option("--ray", metavar="auto|ADDRESS", help="Workers on a Ray cluster instead.")
    ] = None,
    trial_timeout_s: Annotated[
        float | None, typer.Option("--trial-timeout", metavar="SECONDS", help="A trial that takes longer is given up.")
    ] = None,
    framework: FrameworkName = "auto",
    job: JobPath = None,
    as_json: AsJson = False,
    html: Annotated[Path | None, typer.Option("--html", metavar="FILE", help="Write a report with pictures.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Write the settings found as part of a job file.")
    ] = None,
    since: Since = None,
    last: Last = None,
) -> None:
    from tuner.commands import base, tune

    source = base.Ask(tuple(sources), framework, job, since, last) if sources else None
    named, apart = (
        tuple(n.strip() for word in words or () for n in word.split(",")) for words in (scenarios, hold_out)
    )
    wanted, aims = (tuple(n.strip() for n in (w or "").split(",") if n.strip()) for w in (knobs, objective))
    tune.run(
        tune.Wish(
            scenarios=named,
            source=source,
            hold_out=apart,
            knobs=wanted,
            policy=policy,
            objectives=aims,
            trials=trials,
            seeds=seeds,
            seed=seed,
            sampler=sampler,
            storage=storage,
            study=study,
            begin_from=begin_from,
            jobs=jobs,
            ray=ray,
            trial_timeout_s=trial_timeout_s,
            json=as_json,
            html=html,
            out=out,
        )
    )
