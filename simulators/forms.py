"""The register of closed forms that a case file may name: inputs with units and legal ranges, outputs, sources."""

from collections.abc import Mapping

from simulators import closed_forms as forms
from simulators.closed_forms import Form, Input


def _in(name: str, unit: str, about: str, **more: float | bool | None) -> Input:
    return Input(name, unit, about, **more)  # type: ignore[arg-type]


OURS = "renewal and work-conservation arguments written out in simulators/closed_forms.py"
SEMIANALYSIS = "SemiAnalysis, RL Systems Mind the Gap, 16 June 2026"
APPLIED_COMPUTE = "Applied Compute, Predicting and Controlling Staleness in Fully Asynchronous RL Training, 3 July 2026"

_FORMS = (
    Form(
        "little",
        "Little's law: how many are inside.",
        "in_flight = rate x time",
        (
            _in("rate_per_s", "1/s", "what passes through"),
            _in("time_s", "s", "how long each stays"),
        ),
        {"in_flight": ""},
        forms.little,
        "Little, Operations Research 9, 1961",
    ),
    Form(
        "idle-from-rates",
        "Share of wall time in which the trainer waits; over a series of steps, weighted by their time.",
        "idle = 1 - sum(1/trainer) / sum(1/min(generator, trainer))",
        (
            _in("generator_per_s", "rollouts/s", "delivered by the generator", series=True),
            _in("trainer_per_s", "rollouts/s", "the trainer's rate while it computes", series=True),
        ),
        {"idle_frac": ""},
        forms.idle_from_rates,
        SEMIANALYSIS,
    ),
    Form(
        "mfu",
        "Model FLOPs utilisation of the trainer.",
        "mfu = 6 x active_params x rollouts_per_s x tokens_per_rollout / gpus / peak_flops",
        (
            _in("active_params", "", "parameters that one token passes"),
            _in("rollouts_per_s", "rollouts/s", "trained"),
            _in("tokens_per_rollout", "tokens", "prompt and response"),
            _in("gpus", "GPUs", "of the trainer"),
            _in("peak_flops", "1/s", "of one GPU, dense"),
        ),
        {"mfu_frac": ""},
        forms.mfu,
        SEMIANALYSIS,
    ),
    Form(
        "cost-per-mtok",
        "Dollars for a million trained tokens; over a series, the mean of its steps.",
        "usd_per_mtok = gpus x usd_per_gpu_hour / 3600 x seconds / (rollouts x tokens_per_rollout / 1e6)",
        (
            _in("gpus", "GPUs", "that are paid for"),
            _in("usd_per_gpu_hour", "$/h", "of one GPU"),
            _in("seconds", "s", "in which `rollouts` are trained (a step, or 1 with a rate)", series=True),
            _in("rollouts", "rollouts", "trained in `seconds`"),
            _in("tokens_per_rollout", "tokens", "prompt and response", series=True),
        ),
        {"usd_per_mtok": "$/Mtok"},
        forms.cost_per_mtok,
        SEMIANALYSIS + " (formula by recomputation)",
    ),
    Form(
        "hosted-price",
        "Dollars for a million trained tokens at a hosted trainer that charges each token by what is done to it.",
        "usd_per_mtok = (prompt x prefill + response x sample) / (prompt + response) + train",
        (
            _in("prompt_tokens", "tokens", "prefilled once", series=True, above_low=False),
            _in("response_tokens", "tokens", "sampled", series=True),
            _in("prefill_usd", "$/Mtok", "price of a prefilled token", above_low=False),
            _in("sample_usd", "$/Mtok", "price of a sampled token", above_low=False),
            _in("train_usd", "$/Mtok", "price of a trained token", above_low=False),
        ),
        {"usd_per_mtok": "$/Mtok"},
        forms.hosted_price,
        SEMIANALYSIS + " (prices by recomputation)",
    ),
    Form(
        "total",
        "Parts that follow one another.",
        "total = sum(parts)",
        (_in("parts", "any", "phases of a step, or anything that adds up", series=True, above_low=False),),
        {"total": "of the parts"},
        forms.total,
        "arithmetic",
    ),
    Form(
        "ratio",
        "One figure over another: a speed-up, a utilisation.",
        "ratio = over / under",
        (_in("over", "any", "numerator", above_low=False), _in("under", "the same", "denominator")),
        {"ratio": ""},
        forms.ratio,
        "arithmetic",
    ),
    Form(
        "proportional",
        "One figure carried over to another size.",
        "value x (to_size / size)^power",
        (
            _in("value", "any", "the figure at `size`"),
            _in("size", "any", "where it was measured"),
            _in("to_size", "as size", "where it is wanted"),
            _in("power", "", "1: proportional, -1: inversely", low=-10.0, high=10.0, above_low=False, default=1.0),
        ),
        {"value": "as value"},
        forms.proportional,
        "arithmetic",
    ),
    Form(
        "max-of-sides",
        "An overlapped job: the slower side sets the step.",
        "step = max(generate, train) + sync",
        (
            _in("generate_s", "s", "to generate one batch"),
            _in("train_s", "s", "to train one batch"),
            _in("sync_s", "s", "in which neither works", above_low=False, default=0.0),
        ),
        {"step_s": "s", "trainer_idle_frac": ""},
        forms.max_of_sides,
        "StreamRL, arXiv 2504.15930",
    ),
    Form(
        "run-time",
        "Wall time of a run from its median step and its weight publications.",
        "run = steps x (step + sync / sync_interval)",
        (
            _in("steps", "steps", "trainer steps"),
            _in("step_s", "s", "one step without publication"),
            _in("sync_s", "s", "one publication", above_low=False, default=0.0),
            _in("sync_interval", "steps", "between two publications", default=1.0),
        ),
        {"run_s": "s"},
        forms.run_time,
        "arithmetic",
    ),
    Form(
        "scaling",
        "A step on n GPUs: a part that does not shrink, and work that is shared.",
        "step = base + work / gpus^exponent",
        (
            _in("base_s", "s", "what does not shrink with GPUs", above_low=False, default=0.0),
            _in("work_gpu_s", "GPU s", "what is shared", above_low=False),
            _in("gpus", "GPUs", "that share it"),
            _in("exponent", "", "1: ideal", low=-5.0, high=5.0, above_low=False, default=1.0),
        ),
        {"step_s": "s"},
        forms.scaling,
        "Amdahl, AFIPS 1967, with an exponent",
    ),
    Form(
        "overlap-bounds",
        "Splitting a serial job's GPUs in two overlapped halves of equal size, if both phases scale at most ideally.",
        "(G + T) / 2 <= max(G, T) <= G + T, G and T the phases on one half",
        (_in("serial_s", "s", "step of the serial job on as many GPUs as one half has"),),
        {"least_s": "s", "most_s": "s"},
        forms.overlap_bounds,
        "arithmetic",
    ),
    Form(
        "lossless-sharing",
        "GPUs that change sides: not better than if no GPU-second were lost, not worse than the better fixed split.",
        "(generator_bound x its GPUs + trainer_bound x its GPUs) / gpus <= step <= min of both",
        (
            _in("gpus", "GPUs", "of the job"),
            _in("generator_bound_s", "s", "step of the split that the generator holds up"),
            _in("generator_gpus", "GPUs", "of the generator in that split"),
            _in("trainer_bound_s", "s", "step of the split that the trainer holds up"),
            _in("trainer_gpus", "GPUs", "of the trainer in that split"),
        ),
        {"least_s": "s", "most_s": "s"},
        forms.lossless_sharing,
        OURS,
    ),
    Form(
        "async-staleness",
        "Mean staleness of a fully asynchronous job that drops the oldest beyond its queue's capacity.",
        "in_flight x tail / (batch x max(1, rho)) + (rho if rho < 1 else (2 queue + rho - 1) / (2 rho))",
        (
            _in("in_flight", "rollouts", "generated at once"),
            _in("batch", "rollouts", "per trainer step"),
            _in("queue_batches", "batches", "capacity of the queue"),
            _in("rho", "", "generator's rate over the trainer's"),
            _in("tail", "", "longest of a group over the mean", low=1.0, above_low=False),
        ),
        {"staleness": "versions", "pre_queue": "versions", "in_queue": "versions"},
        forms.async_staleness,
        APPLIED_COMPUTE,
    ),
    Form(
        "wip-step",
        "Step of a job that may have `started_batches` started and untrained, freed when a batch is trained.",
        "step = max(train, (group + last) / (started_batches - 1/2))",
        (
            _in("started_batches", "batches", "started and not yet trained", low=1.0, above_low=False),
            _in("group_s", "s", "from a group's start to its completion"),
            _in("last_s", "s", "from a batch's last group to the freed slots (streamed: its last mini-batch)"),
            _in("train_s", "s", "the trainer's own time for a batch: no step is shorter"),
        ),
        {"step_s": "s"},
        forms.wip_step,
        OURS + ": Little's law on started batches",
    ),
    Form(
        "wip-staleness",
        "Mean staleness where at most `started_batches` are started and untrained, freed at the end of training.",
        "staleness = started_batches - 1",
        (_in("started_batches", "batches", "started and not yet trained", low=1.0, above_low=False),),
        {"staleness": "versions"},
        forms.wip_staleness,
        "Little's law on started groups",
    ),
    Form(
        "queue-lag",
        "Versions between a group's completion and its training, from an empty queue on; first in, first out.",
        "rho <= 1: lag = rho; rho > 1: lag of step k = min(k (1 - 1/rho), capacity)",
        (
            _in("rho_per_unit", "1/unit", "generator's rate over the trainer's, per unit of the generator"),
            _in("units", "units", "of the generator: nodes, GPUs, engines"),
            _in("capacity_batches", "batches", "of the queue"),
            _in("steps", "steps", "that are averaged, from the first on", low=1.0, above_low=False),
        ),
        {"lag_mean": "versions", "lag_max": "versions", "lag_over_2_frac": "", "queue_batches": "batches"},
        forms.queue_lag,
        OURS + "; below 1 as " + APPLIED_COMPUTE,
    ),
    Form(
        "tail-free-step",
        "A step whose tail is gone, from one that had it; lengths exponential, cut at their maximum.",
        "(step - tail) / (1 - share of the tokens that the tail makes)",
        (
            _in("step_s", "s", "with its tail"),
            _in("tail_s", "s", "from the moment when only `tail_frac` of the rollouts are unfinished"),
            _in("tail_frac", "", "share of the rollouts that is called the tail", high=0.999),
            _in("mean_tokens", "tokens", "mean response"),
            _in("max_tokens", "tokens", "longest response allowed"),
        ),
        {"step_s": "s", "tail_work_frac": ""},
        forms.tail_free_step,
        OURS,
    ),
    Form(
        "filling-latency",
        "Latency of a rollout while a saturated generator fills: iterations lengthen with residents, and these rise as "
        "in a station that starts empty.",
        "latency = tokens x full_s_per_token x (1 - e^(-elapsed/fill))",
        (
            _in("tokens", "tokens", "of the rollout"),
            _in("full_s_per_token", "s", "at the steady state"),
            _in("elapsed_s", "s", "since the start of the run"),
            _in("fill_s", "s", "time constant of filling"),
        ),
        {"latency_s": "s"},
        forms.filling_latency,
        "transient of M/M/inf, Takacs 1962: N(t) = N (1 - e^(-t/E[S]))",
    ),
    Form(
        "saturated-latency",
        "Latency of a rollout in an engine with a fixed number of residents, whose iteration reads all their contexts.",
        "latency = tokens x (base + context x residents x tokens / 2)",
        (
            _in("tokens", "tokens", "of the rollout, generated one by one"),
            _in("base_s_per_token", "s", "iteration without contexts", above_low=False),
            _in("residents", "rollouts", "on one engine"),
            _in("context_s_per_token", "s", "time that each token of context adds to an iteration", above_low=False),
        ),
        {"latency_s": "s"},
        forms.saturated_latency,
        OURS,
    ),
    Form(
        "usable-share",
        "Share of groups whose rewards differ, solve rates over prompts a Beta(a, b) beside prompts that never vary.",
        "(1 - always - never) x (1 - E[p^S] - E[(1-p)^S])",
        (
            _in("a", "", "of the Beta distribution"),
            _in("b", "", "of the Beta distribution"),
            _in("group_size", "rollouts", "of one prompt", low=1.0, above_low=False),
            _in("always_frac", "", "prompts that every rollout solves", high=1.0, above_low=False, default=0.0),
            _in("never_frac", "", "prompts that no rollout solves", high=1.0, above_low=False, default=0.0),
        ),
        {"usable_frac": ""},
        forms.usable_share,
        "moments of the Beta distribution",
    ),
)

FORMS: Mapping[str, Form] = {form.name: form for form in _FORMS}
"""By name."""
