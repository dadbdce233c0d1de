"""verl, fully asynchronous: how much of each step the trainer's GPUs generate follows Equipoise's control file.

    export EQUIPOISE_CONTROL_FILE=/shared/equipoise.json
    export PYTHONPATH=deploy/hooks:$PYTHONPATH VERL_USE_EXTERNAL_MODULES=equipoise_verl     # on every node
    ... async_training.use_dynamic_resource_scheduling=True async_training.dynamic_schedule_policy=equipoise

verl lends the trainer's GPUs to generation until `deactivate_ratio` of a step's samples are there.
The order's split is that share of time: 16 GPUs given away by a trainer of 64 are all 64 for a quarter of the step.
    # base 64 : 192 | order 48 : 208 -> 0.25 of a step's samples | order 64 : 192 -> nothing is lent
"""

import importlib
import importlib.util
import os

from equipoise_control import ControlFile


def lent_frac(base, wanted):
    """The share of a step for which the trainer's GPUs generate; None where the order does not say it."""
    generator, trainer = base.get("gpus_generator"), base.get("gpus_trainer")
    if not generator or not trainer or "gpus_generator" not in wanted:
        return None
    lent = (wanted["gpus_generator"] - generator) / trainer
    return lent if 0.0 <= lent <= 1.0 else None


class Lending:
    """The share in force, and the control file that changes it."""

    def __init__(self, control, ratio, only_hybrid):
        self.control, self.ratio, self.only_hybrid = control, ratio, only_hybrid

    def at_boundary(self, step):
        wanted = self.control.changed()
        if wanted is None:
            return
        halves = {name: value for name, value in wanted.items() if name in ("gpus_trainer", "gpus_generator")}
        refused = {name: "verl's hook does not turn it" for name in wanted if name not in halves}
        base = self.control.base
        share = lent_frac(base, halves)
        if self.only_hybrid:
            refused.update(dict.fromkeys(halves, "there are no standalone replicas: every GPU is lent"))
        elif "gpus_generator" in halves and share is None:
            why = f"{halves} from {base} cannot be had by lending"
            refused.update(dict.fromkeys(halves, why))
        elif share is not None:
            self.ratio = share
        self.control.acknowledge({n: v for n, v in halves.items() if n not in refused}, refused, step)


def policy(schedule):
    """verl's schedule policy, made from its own module `dynamic_schedule`."""

    @schedule.register_policy("equipoise")
    class EquipoiseSchedulePolicy(schedule.DynamicSchedulePolicyBase):
        def __init__(self, deactivate_ratio=0.3, only_hybrid=False):
            control = ControlFile(os.environ["EQUIPOISE_CONTROL_FILE"])
            self.lending = Lending(control, 1.0 if only_hybrid else deactivate_ratio, only_hybrid)

        def should_deactivate(self, global_steps, is_hybrid_active, ctx):
            return is_hybrid_active

        def deactivate_wait_samples(self, ctx):
            return int(ctx.step_required_samples * self.lending.ratio)

        def update_after_step(self, global_steps, ctx):
            self.lending.at_boundary(global_steps)

        def should_activate_after_step(self, global_steps, is_hybrid_active, ctx):
            if self.lending.only_hybrid:
                return True
            ahead = ctx.total_generated_samples - ctx.expected_samples
            return self.lending.ratio > 0.0 and ahead < self.lending.ratio * ctx.step_required_samples

        def request_rebalance(self, global_steps, ctx):
            schedule.DefaultDynamicSchedulePolicy.request_rebalance(self, global_steps, ctx)

    return EquipoiseSchedulePolicy


if os.environ.get("EQUIPOISE_CONTROL_FILE") and importlib.util.find_spec("verl") is not None:
    policy(importlib.import_module("verl.experimental.fully_async_policy.dynamic_schedule"))
