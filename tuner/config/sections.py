"""The sections of a job file, one model each; a field's documentation says where a user finds its value."""

from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import BaseModel, BeforeValidator, Field, FiniteFloat, model_validator

from simulators.plant import Mode, TrainerResize
from tuner.config.daemon_sections import (
    ActuatorSection,
    GateSection,
    GuardrailsSection,
    JournalSection,
    ObjectiveSection,
    PolicySection,
    ServerSection,
)
from tuner.config.values import Count, Number, Seconds, Section, not_bool
from tuner.names import FileName, SourceName


class JobSection(Section):
    """What the job is called and how long it still runs."""

    name: str | None = Field(default=None, examples=["swe-agent-235b"])
    """A name for reports."""
    framework: str | None = Field(default=None, examples=["verl"])
    """verl, slime, prime-rl, trl, ..., or your own as package.module:NAME; found from the logs where absent."""
    horizon_s: Seconds | None = Field(default=None, examples=[86400])
    """Seconds the job still has to run: a change must pay for itself inside them."""


class TopologySection(Section):
    """Facts of the job that no knob changes while it runs."""

    framework: str | None = Field(default=None, examples=["verl"])
    """The same by its name; one of the two is enough."""
    mode: Mode | None = Field(default=None, examples=["overlapped"])
    """serial: phases one after another on the same GPUs; overlapped: generator and trainer at the same time on their
    own GPUs; engine: only an inference engine is known."""
    gpus_total: Count | None = Field(default=None, examples=[256])
    """GPUs of the whole job: nodes times GPUs per node in the launch script."""
    gpu_model: str | None = Field(default=None, examples=["NVIDIA H200 141GB"])
    """As `nvidia-smi -L` prints it."""
    gpus_per_engine: Count | None = Field(default=None, examples=[8])
    """GPUs of one inference engine (tensor x pipeline parallel size), or of one indivisible replica."""
    trainer_gpu_step: Count | None = Field(default=None, examples=[8])
    """Model-parallel size of the trainer (tensor x pipeline x context): its GPU count moves in these steps."""
    trainer_gpus_min: Count | None = Field(default=None, examples=[32])
    """Fewest GPUs on which the trainer fits into memory."""
    trainer_sizes: tuple[Count, ...] = Field(default=(), examples=[[32, 64, 128]])
    """Legal trainer sizes where not every multiple of trainer_gpu_step will do."""
    batch_must_divide: bool | None = Field(default=None, examples=[True])
    """true when the framework demands that the trainer's data-parallel size divides the batch."""
    trainer_resize: TrainerResize | None = Field(default=None, examples=["ok"])
    """What becomes of a checkpoint on another number of GPUs: ok, needs-convert or impossible."""
    max_response_tokens: Count | None = Field(default=None, examples=[32768])
    """Length cap of one response."""
    queue_capacity: Count | None = Field(default=None, examples=[1024])
    """Finished rollouts that may wait for the trainer before the generator is held up (TRL's queue_maxsize)."""
    restart_s: Seconds | None = Field(default=None, examples=[600])
    """Seconds from stop to the first step after a restart from a checkpoint."""
    updates_per_step: Count | None = Field(default=None, examples=[1])
    """Optimizer updates in one step."""
    self_tuned: tuple[str, ...] = Field(default=(), examples=[["max_in_flight"]])
    """Our names of the knobs that the framework's own controller moves."""

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.gpus_total is not None and (self.trainer_gpus_min or 0) > self.gpus_total:
            raise ValueError(f"trainer_gpus_min={self.trainer_gpus_min} must be <= gpus_total={self.gpus_total}")
        return self


class SetpointsSection(Section):
    """The knobs in force, where the logs and configurations do not state them."""

    gpus_trainer: Count | None = Field(default=None, examples=[64])
    """GPUs of the trainer (overlapped jobs)."""
    gpus_generator: Count | None = Field(default=None, examples=[192])
    """GPUs of all inference engines (overlapped jobs)."""
    gpus_prefill: Count | None = Field(default=None, examples=[32])
    """Part of the generator that only prefills."""
    gpus_decode: Count | None = Field(default=None, examples=[32])
    """Part of the generator that only decodes."""
    engines: Count | None = Field(default=None, examples=[24])
    """Inference engines or replicas."""
    oversampling_ratio: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(ge=1)] | None = Field(
        default=None, examples=[1.25]
    )
    """Rollouts dispatched for each one that a batch needs."""
    max_in_flight: Count | None = Field(default=None, examples=[1024])
    """Most rollouts dispatched and not finished, whole job."""
    max_in_flight_per_engine: Count | None = Field(default=None, examples=[64])
    """The same for one engine; its max-num-seqs or max-running-requests."""
    staleness_bound: Number | None = Field(default=None, examples=[1])
    """Versions that a batch may be behind the trainer."""
    sync_interval: Count | None = Field(default=None, examples=[1])
    """Trainer steps between two weight publications."""
    group_size: Count | None = Field(default=None, examples=[16])
    """Rollouts of one prompt (n, num_generations, n_samples_per_prompt)."""
    batch_rollouts: Count | None = Field(default=None, examples=[512])
    """Rollouts trained per step: prompts times group size."""
    overlap: bool | None = Field(default=None, examples=[True])
    """true when the next batch is generated while this one is trained."""
    partial_rollout: bool | None = Field(default=None, examples=[False])
    """true when an unfinished rollout is kept and resumed in a later batch."""
    in_flight_update: bool | None = Field(default=None, examples=[False])
    """true when new weights are loaded in the middle of rollouts."""
    filter_zero_adv: bool | None = Field(default=None, examples=[False])
    """true when groups without advantage are dropped and refilled (dynamic sampling)."""
    packing: bool | None = Field(default=None, examples=[True])
    """true when the trainer packs sequences instead of padding them."""
    activation_checkpointing: bool | None = Field(default=None, examples=[True])
    """true when activations are computed again in the backward pass (gradient checkpointing, recompute)."""
    checkpoint_interval: Count | None = Field(default=None, examples=[20])
    """Steps between two checkpoints."""
    validation_interval: Count | None = Field(default=None, examples=[10])
    """Steps between two evaluations."""
    sandbox_quota: Count | None = Field(default=None, examples=[500])
    """Most sandboxes that the provider allows at once."""


class SourceSection(Section):
    """One thing to read; used when the command line names none."""

    path: SourceName = Field(examples=["logs/train.log"])
    """A file or folder, `-` for standard input, or a server to watch live: prometheus+http(s)://host:port or
    scrape+http(s)://host:port. Relative to where the command is run."""
    kind: str | None = Field(default=None, examples=["console"])
    """console, jsonl, csv, tensorboard, ...; detected where absent."""
    framework: str | None = Field(default=None, examples=["verl"])
    """Of this source alone, e.g. vllm for an engine's log beside the trainer's; detected where absent."""
    match: dict[str, str] = Field(default={}, examples=[{"job": "swe-agent"}])
    """Of a Prometheus server: the labels that this job's series carry."""
    token_file: FileName | None = Field(default=None, examples=["prometheus.token"])
    """Of a server: a file with its bearer token, read at each request."""
    user: str | None = Field(default=None, examples=["equipoise"])
    """Of a server with basic authentication, instead of token_file."""
    password_file: FileName | None = Field(default=None, examples=["prometheus.password"])
    """The file with that user's password."""
    ca_file: FileName | None = Field(default=None, examples=["ca.pem"])
    """Of a server: certificates to trust instead of the system's."""


class BoundsSection(Section):
    """How far advice may go."""

    gpus_total_max: Count | None = Field(default=None, examples=[256])
    """Most GPUs the job may hold."""
    gpus_trainer_min: Count | None = Field(default=None, examples=[32])
    """Fewest GPUs the trainer may be given."""
    gpus_trainer_max: Count | None = Field(default=None, examples=[128])
    """Most GPUs the trainer may be given."""
    max_in_flight_max: Count | None = Field(default=None, examples=[2048])
    """Most rollouts in flight, e.g. what the sandbox provider allows."""
    sandbox_starts_per_s_max: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(gt=0)] | None = Field(
        default=None, examples=[5.0]
    )
    """Sandbox starts a second that the provider allows; how many may live at once is [setpoints] sandbox_quota."""
    staleness_max: Number | None = Field(default=None, examples=[4])
    """Oldest rollouts, in versions, that you accept to train on."""
    kept_over_attempted_min: Annotated[FiniteFloat, BeforeValidator(not_bool), Field(gt=0, le=1)] | None = Field(
        default=None, examples=[0.9]
    )
    """Bias bound: mean length and solve rate of the rollouts kept over those attempted; 0.9 where absent."""

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        low, high = self.gpus_trainer_min, self.gpus_trainer_max
        if low is not None and high is not None and low > high:
            raise ValueError(f"gpus_trainer_min={low} must be <= gpus_trainer_max={high}")
        return self


class CostSection(Section):
    """Prices."""

    usd_per_gpu_hour: Number | None = Field(default=None, examples=[2.0])
    """What one GPU costs for an hour, in US dollars; without it an answer holds no cost (H200 has a published one)."""


SECTIONS: Mapping[str, type[BaseModel]] = {
    "job": JobSection,
    "topology": TopologySection,
    "setpoints": SetpointsSection,
    "source": SourceSection,
    "actuator": ActuatorSection,
    "bounds": BoundsSection,
    "objective": ObjectiveSection,
    "policy": PolicySection,
    "guardrails": GuardrailsSection,
    "gate": GateSection,
    "journal": JournalSection,
    "server": ServerSection,
    "cost": CostSection,
}
"""Each section's model, in the order of the file."""
REPEATED = ("source", "actuator")
"""Sections of which a file may have several: [[double brackets]]."""
