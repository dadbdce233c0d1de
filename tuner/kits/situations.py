"""Situations that a control law must survive: the views over which the kit of laws goes."""

from collections.abc import Iterator
from dataclasses import replace
from math import inf, log

from policies.beliefs import Belief, Beliefs
from policies.control import Capability, View
from policies.settings import ACTED
from simulators.analytic import AnalyticModel
from simulators.plant import Bounds, Mode, Setpoints, Topology
from simulators.snapshot import Row, Snapshot
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, affine
from simulators.window import assemble
from simulators.workload import Lengths, Workload

TOPOLOGY = Topology(mode=Mode.OVERLAPPED, gpus_total=256, gpus_per_engine=8, trainer_gpu_step=8, trainer_gpus_min=16)
IN_FORCE = Setpoints(gpus_trainer=64, gpus_generator=192, group_size=8, batch_rollouts=512, max_in_flight=1536)
CAPABILITIES = tuple(Capability(knob, actuation_s=60.0, cost_s=60.0) for knob in ACTED)
BLIND = "blind"
"""The first word of every situation without evidence."""
WORKLOAD = Workload(Lengths(500.0), Lengths(16000.0, sigma=0.7, max_tokens=65536))
STATIONS = Stations(
    Engine(affine(0.01, 0.0002), slots=64), Trainer(2.0, 6.5e-4), admission=Admission(Plug.WIP_CAP, limit_groups=192)
)
"""24 engines that decode 4.2 rollouts a second, 64 GPUs that train 5.6: what the views tell of a starving trainer."""


def views() -> Iterator[tuple[str, View]]:
    """Both sides slow, balanced, blind, unknown, serial, extreme, late; without a model of the job and with one."""
    for name, wait, gated in (("starving", 0.4, 0.0), ("gated", 0.0, 0.4), ("balanced", 0.03, 0.03)):
        yield name, view_of(wait, gated)
        yield f"{name}, modelled", modelled(view_of(wait, gated))
    usual = view_of(0.3, 0.0)
    nothing = replace(usual, snapshot=Snapshot({}), beliefs=Beliefs())
    yield BLIND, nothing
    yield f"{BLIND} with unknown settings", replace(nothing, in_force=Setpoints())
    yield "unknown settings", replace(usual, in_force=Setpoints())
    yield "serial", replace(usual, topology=replace(TOPOLOGY, mode=Mode.SERIAL))
    yield "no lattice", replace(usual, topology=Topology(mode=Mode.UNKNOWN))
    yield "no room", replace(usual, bounds=Bounds(gpus_trainer_min=64, gpus_trainer_max=64))
    yield "a strange memory", replace(usual, memory={"ratio": -3.0, "trainer": 1e9, "home": 8.0})
    yield "at the end", replace(usual, horizon_s=0.0)
    yield "for ever", replace(usual, horizon_s=inf, now_s=1e12)
    yield "one GPU each", replace(usual, in_force=replace(IN_FORCE, gpus_trainer=1, gpus_generator=1))


def view_of(wait_frac: float, gated_frac: float, step_s: float = 128.0) -> View:
    """A job whose trainer waits and whose generator is gated for these shares of every step."""
    rows = [
        Row(
            {
                "step_s": step_s,
                "trainer_wait_s": wait_frac * step_s,
                "trainer_busy_s": (1.0 - wait_frac) * step_s,
                "generator_wait_s": gated_frac * step_s,
                "batch_rollouts": 512.0,
                "queue_depth": 512.0 * gated_frac,
            },
            step=i,
            time_s=step_s * i,
        )
        for i in range(1, 21)
    ]
    rate, now_s = 512.0 / step_s, 21 * step_s
    sides = {"trainer": rate / (1.0 - wait_frac), "generator": rate / (1.0 - gated_frac)}
    beliefs = Beliefs({side: Belief(log(per_s), 1e-4, now_s) for side, per_s in sides.items()})
    return View(
        now_s, assemble(rows), IN_FORCE, TOPOLOGY, beliefs=beliefs, capabilities=CAPABILITIES, horizon_s=21600.0
    )


def modelled(view: View) -> View:
    """The same with a model of the job, as a law may ask it; which of both sides waits is the view's."""
    return replace(view, model=AnalyticModel(STATIONS), workload=WORKLOAD, doubt=1e-3)
