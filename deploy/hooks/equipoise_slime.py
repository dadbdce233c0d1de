"""slime: oversampling and the cap in flight follow Equipoise's control file, from one rollout to the next.

    export EQUIPOISE_CONTROL_FILE=/shared/equipoise.json
    export PYTHONPATH=deploy/hooks:$PYTHONPATH          # on every node, or in Ray's runtime environment
    python train_async.py ... --rollout-function-path equipoise_slime.generate_rollout

slime reads `args.over_sampling_batch_size` and takes its semaphore anew in each rollout: both may change between two.
The HTTP pool is opened once for the cap of the start: above that nothing more would run, and it is refused.
`EQUIPOISE_SLIME_ROLLOUT` names another rollout function to wrap (`my_package.my_rollout.generate_rollout`); the fully
asynchronous worker copies its cap once and takes prompts one by one, so behind that one both are refused.
"""

import asyncio
import importlib
import os

from equipoise_control import ControlFile

USUAL = "slime.rollout.sglang_rollout.generate_rollout"


def generate_rollout(args, rollout_id, data_source, evaluation=False):
    """slime's rollout function, under the settings of the control file."""
    if not evaluation:
        _hook(args).before_rollout(args, rollout_id)
    return _wrapped()(args, rollout_id, data_source, evaluation=evaluation)


class Hook:
    """What one rollout process knows: the control file, and the settings it started with."""

    def __init__(self, control, args):
        self.control = control
        self.highest = args.sglang_server_concurrency
        self.engines = _engines(args)
        control.acknowledge(self._in_force(args))

    def before_rollout(self, args, rollout_id):
        wanted = self.control.changed()
        if wanted is None:
            return
        refused = {}
        for name, value in wanted.items():
            turn = {
                "oversampling_ratio": self._oversampling,
                "max_in_flight": self._in_flight,
                "max_in_flight_per_engine": self._in_flight_per_engine,
            }.get(name)
            why = "slime's hook does not turn it" if turn is None else turn(args, value)
            if why:
                refused[name] = why
        in_force = self._in_force(args)
        in_force.update((name, value) for name, value in wanted.items() if name not in refused)
        self.control.acknowledge(in_force, refused, rollout_id)

    def _in_force(self, args):
        per_engine = args.sglang_server_concurrency
        return {
            "oversampling_ratio": args.over_sampling_batch_size / args.rollout_batch_size,
            "max_in_flight": per_engine * self.engines,
            "max_in_flight_per_engine": per_engine,
        }

    def _oversampling(self, args, ratio):
        """To the nearest whole prompt."""
        if _fully_async():
            return "slime's fully asynchronous worker takes prompts one by one"
        if ratio < 1:
            return "a batch would never fill"
        args.over_sampling_batch_size = max(args.rollout_batch_size, round(ratio * args.rollout_batch_size))
        return None

    def _in_flight(self, args, total):
        per_engine, rest = divmod(int(total), self.engines)
        if rest:
            return f"{total} is not a whole number for each of {self.engines} engines"
        return self._in_flight_per_engine(args, per_engine)

    def _in_flight_per_engine(self, args, per_engine):
        per_engine = int(per_engine)
        if not 1 <= per_engine <= self.highest:
            return f"slime opened its HTTP pool for {self.highest} per engine; more needs a restart"
        if _fully_async():
            return "slime's fully asynchronous worker reads its cap once, at its start"
        if per_engine != args.sglang_server_concurrency:
            args.sglang_server_concurrency = per_engine
            _state(args).semaphore = asyncio.Semaphore(per_engine * self.engines)
        return None


_HOOKS = {}


def _hook(args):
    """One hook a process: slime calls a function, and the settings of the start must be remembered."""
    if "hook" not in _HOOKS:
        _HOOKS["hook"] = Hook(ControlFile(os.environ["EQUIPOISE_CONTROL_FILE"]), args)
    return _HOOKS["hook"]


def _path():
    return os.environ.get("EQUIPOISE_SLIME_ROLLOUT", USUAL)


def _fully_async():
    return "fully_async" in _path()


def _wrapped():
    module, _, name = _path().rpartition(".")
    return getattr(importlib.import_module(module), name)


def _state(args):
    return importlib.import_module("slime.rollout.sglang_rollout").GenerateState(args)


def _engines(args):
    return max(1, importlib.import_module("slime.utils.http_utils").get_rollout_num_engines(args))
