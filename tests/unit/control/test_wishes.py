"""How often something is wanted before it is asked of the models, and after they refused it."""

from policies.settings import with_trainer
from policies.wishes import REFUSED_TICKS, refused, wanted
from simulators.plant import Setpoints, Topology

TOPOLOGY = Topology(gpus_per_engine=8, trainer_gpu_step=8)
NOW = Setpoints(gpus_trainer=64, gpus_generator=192)


def to(gpus_trainer: int) -> Setpoints:
    return with_trainer(NOW, TOPOLOGY, gpus_trainer)


def test_the_same_way_counts_on_and_another_begins_anew() -> None:
    once = wanted(None, NOW, to(48))
    assert once is not None
    assert once.ticks == 1
    further, other = wanted(once, NOW, to(40)), wanted(once, NOW, to(72))
    assert further is not None
    assert other is not None
    assert (further.ticks, other.ticks) == (2, 1)
    assert wanted(once, NOW, Setpoints()) is None


def test_what_was_refused_waits_and_what_is_nearer_does_not() -> None:
    said_no = refused(wanted(None, NOW, to(40)), to(40))
    again, nearer = wanted(said_no, NOW, to(40)), wanted(said_no, NOW, to(56))
    assert again is not None
    assert nearer is not None
    assert (again.ticks, nearer.ticks) == (1 - REFUSED_TICKS, 1)


def test_while_a_job_begins_what_was_refused_is_asked_at_the_next_tick() -> None:
    again = wanted(refused(wanted(None, NOW, to(40)), to(40), begins=True), NOW, to(40))
    assert again is not None
    assert again.ticks == 1
