"""How long a leg of a move may take before it has failed: by its actuator, and by the job's own pace."""

from collections.abc import Iterable
from math import isfinite

from policies.control import View
from policies.readings import step_lengths_s
from policies.settings import ACTED, GPUS_OF
from simulators.plant import Change, Setpoints

LEG_LIMIT_S = 300.0
"""A leg has at least this long."""
LEG_LIMIT_ACTUATIONS = 3.0
"""And so many times what it is known to take."""
LEG_LIMIT_STEPS = 3.0
"""And besides, where it turns at a step's end, so many of the longest steps. The rest of the step under way is one, and
a hook that reads at one boundary tells at the next; the third is for a step longer than any seen: with an evaluation or
a checkpoint, or the first one on fewer GPUs."""


def leg_limit_s(view: View, knobs: Iterable[str], path: Iterable[Setpoints], actuation_s: float) -> float:
    """What turns while the job runs has its actuator's time; what turns at a step's end has steps besides.

    # actuation 60 s: 300 s | at the end of steps of up to 640 s: 300 + 3 x 640 = 2,220 s
    """
    parts = {part for knob in knobs for part in (knob, *ACTED.get(knob, ()))}
    waits = any(c.change is Change.BOUNDARY for c in view.capabilities if c.knob in parts)
    limit_s = max(LEG_LIMIT_S, LEG_LIMIT_ACTUATIONS * actuation_s)
    return limit_s + (LEG_LIMIT_STEPS * _longest_step_s(view, path) if waits else 0.0)


def verify_limit_s(view: View, knobs: Iterable[str], path: Iterable[Setpoints]) -> float:
    """New engines serve the current version once weights are published again, and not before: a hot leg's too."""
    if not any(part in GPUS_OF for knob in knobs for part in ACTED.get(knob, ())):
        return 0.0
    return LEG_LIMIT_S + LEG_LIMIT_STEPS * (view.in_force.sync_interval or 1) * _longest_step_s(view, path)


def _longest_step_s(view: View, path: Iterable[Setpoints]) -> float:
    """Of those that were seen and, by the model where there is one, those to come; 0 where nobody knows."""
    return max([*step_lengths_s(view.snapshot), *(_predicted_step_s(view, settings) for settings in path)], default=0.0)


def _predicted_step_s(view: View, settings: Setpoints) -> float:
    try:
        prediction = view.predicted(settings)
    except ValueError:
        return 0.0
    return prediction.step_s if prediction is not None and isfinite(prediction.step_s) else 0.0
