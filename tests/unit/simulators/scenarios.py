"""A small job that runs in milliseconds; tests change what they are about."""

from simulators.plant import Change, Mode, Setpoints, Topology, TrainerResize
from simulators.scenario import Horizon, Move, Scenario
from simulators.stations import Admission, Engine, Plug, Stations, Trainer, affine
from simulators.workload import Lengths, Workload

HOT = (Move("gpus_trainer", actuation_s=60.0), Move("gpus_generator", actuation_s=60.0), Move("max_in_flight"))
RESTART = tuple(Move(move.knob, Change.RESTART) for move in HOT)


def small(steps: int = 20, moves: tuple[Move, ...] = HOT) -> Scenario:
    """Two GPUs train, six generate; neither side is far from the other."""
    return Scenario(
        title="a small job",
        topology=Topology(
            mode=Mode.OVERLAPPED,
            gpus_total=8,
            gpus_per_engine=1,
            trainer_gpu_step=1,
            trainer_resize=TrainerResize.OK,
            restart_s=300.0,
        ),
        setpoints=Setpoints(gpus_trainer=2, gpus_generator=6, group_size=8, batch_rollouts=64),
        workload=Workload(Lengths(200.0), Lengths(1000.0, sigma=0.5, max_tokens=8192)),
        stations=Stations(
            Engine(affine(0.01, 0.0002), slots=32),
            Trainer(2.0, 2e-4),
            admission=Admission(Plug.WIP_CAP, limit_groups=24),
        ),
        horizon=Horizon(steps=steps),
        move=moves,
    )
