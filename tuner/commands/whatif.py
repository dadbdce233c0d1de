"""`equipoise whatif`: one question to the model that is calibrated on the job's own history."""

import os
import sys
from collections.abc import Iterable
from dataclasses import fields
from difflib import get_close_matches

from policies.estimators import estimate
from policies.prospects import SETTINGS, Value, prospects_of
from policies.questions import reply
from simulators.plant import Bounds, Setpoints
from tuner.answers.advise import to_json
from tuner.commands.base import Ask, read, screen_for
from tuner.errors import ConfigError
from tuner.report.asked import build, render

KINDS = {f.name: str(f.type) for f in fields(Setpoints) if f.name in SETTINGS}
SWITCHES = {"on": True, "true": True, "yes": True, "1": True, "off": False, "false": False, "no": False, "0": False}
LARGEST = 1e9


def run(ask: Ask, wishes: Iterable[str], *, as_json: bool) -> None:
    """Prints what the wished settings would bring."""
    pairs = [parsed(wish) for wish in wishes]
    settings = dict(pairs)
    twice = [name for place, (name, _) in enumerate(pairs) if name in dict(pairs[:place])]
    if twice:
        raise ConfigError(f"--set {twice[0]}: given twice; one question holds one value of a setting")
    if not settings:
        raise ConfigError("no setting given: ask with --set, e.g. --set gpus_trainer=48 --set staleness_bound=1")
    reading, config = read(ask)
    bounds = config.to_bounds() if config is not None else Bounds()
    snapshot = estimate(reading.topology, reading.setpoints, reading.snapshot)
    prospects = prospects_of(reading.topology, reading.setpoints, snapshot)
    try:
        asked = build(reply(prospects, settings, bounds), settings, prospects.why_not)
    except ValueError as error:
        raise ConfigError(f"--set {' '.join(f'{n}={v}' for n, v in settings.items())}: {error}") from None
    sys.stdout.write(to_json(asked) + "\n" if as_json else render(asked, screen_for(sys.stdout, os.environ)))


def parsed(wish: str) -> tuple[str, Value]:
    """Name and value of one `name=value`.

    >>> parsed("gpus_trainer=48"), parsed("partial_rollout=on")
    (('gpus_trainer', 48), ('partial_rollout', True))
    """
    name, found, text = (part.strip() for part in wish.partition("="))
    if not found:
        raise ConfigError(f"--set {wish}: write it as name=value, e.g. --set gpus_trainer=48")
    if name not in KINDS:
        near = get_close_matches(name, KINDS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise ConfigError(f"--set {name}: no setting of the model; {hint}known: {', '.join(sorted(KINDS))}")
    if "bool" in KINDS[name]:
        if text.lower() not in SWITCHES:
            raise ConfigError(f"--set {wish}: must be on or off")
        return name, SWITCHES[text.lower()]
    return name, _number(wish, text, whole="int" in KINDS[name])


def _number(wish: str, text: str, *, whole: bool) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0.0 <= value < LARGEST or (whole and (value != int(value) or value < 1.0)):
        kind = "a whole number of at least 1" if whole else "a number of at least 0"
        raise ConfigError(f"--set {wish}: must be {kind}")
    return int(value) if whole else value
