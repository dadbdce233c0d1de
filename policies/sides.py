"""Both sides' speeds in a stated job: one of them slower or faster, or the trainer of another exponent."""

from dataclasses import replace

from simulators.event_state import Job
from simulators.stations import StepTime, Trainer


def hinged(trainer: Trainer, gpus: int, exponent: float) -> Trainer:
    """Another exponent, as fast as before on that many GPUs."""
    seconds = trainer.gpu_s_per_token * gpus ** (exponent - trainer.exponent)
    return replace(trainer, gpu_s_per_token=seconds, exponent=exponent)


def with_trainer_factor(job: Job, factor: float) -> Job:
    trainer = job.stations.trainer
    scaled = replace(trainer, base_s=trainer.base_s * factor, gpu_s_per_token=trainer.gpu_s_per_token * factor)
    return replace(job, stations=replace(job.stations, trainer=scaled))


def with_engine_factor(job: Job, factor: float) -> Job:
    engine = job.stations.engine
    step = StepTime(tuple((b, t * factor) for b, t in engine.step.table), engine.step.per_context_token_s * factor)
    scaled = replace(engine, step=step, prefill_s_per_token=engine.prefill_s_per_token * factor)
    return replace(job, stations=replace(job.stations, engine=scaled))
