"""What a person would turn: the knobs of recommendations and warnings, each with what it is."""

from collections.abc import Mapping

KNOBS: Mapping[str, str] = {
    "gpus_trainer": "GPUs of the trainer",
    "gpus_generator": "GPUs of the generator: its engines",
    "prefill_decode_split": "GPUs or engines that only read prompts, beside those that only decode",
    "oversampling_ratio": "rollouts dispatched for each one that a batch needs, at least 1",
    "max_in_flight": "cap on rollouts dispatched and not finished, of the job or of one engine",
    "overlap": "whether generation and training run at the same time, and how many batches apart",
    "staleness_bound": "versions that a rollout may be older than the model that trains on it",
    "sync_interval": "trainer steps between two weight publications",
    "in_flight_update": "whether engines take new weights while requests keep running",
    "partial_rollout": "whether an interrupted rollout resumes later instead of starting again",
    "pruning": "whether hopeless or slow rollouts are stopped before their end",
    "group_size": "rollouts of one prompt",
    "curriculum_filter": "which tasks are generated at all: by how often the model solves them",
    "kv_memory": "room of the KV pool: memory fraction, cache precision, tensor parallelism",
    "packing": "whether sequences share micro-batches up to a token budget",
    "activation_checkpointing": "whether the trainer computes activations again instead of keeping them",
    "checkpoint_interval": "trainer steps between two checkpoints",
    "validation_interval": "trainer steps between two evaluations",
    "sandbox_quota": "sandboxes the provider allows at once, or starts per minute",
    "reward_concurrency": "rewards or verifiers computed at once",
    "client_concurrency": "how many requests the process that talks to the engines has open, and how it sends them",
    "engine_settings": "any other setting of the engines: graphs, prefix cache, chunk size, offload, response cap",
    "logging": "what the job writes down: the answer to `cannot-tell`",
}
"""Names people script against: added to, never renamed. The framework's own key of each is in tuner/frameworks."""
