"""Jobs that cannot make progress, with the reason; known from the settings alone."""

from simulators.analytic.case import Case
from simulators.analytic.sandbox import quota_of
from simulators.stations import Plug


def stopped_reason(case: Case) -> str | None:
    return _starved(case) or _locked(case)


def _starved(case: Case) -> str | None:
    """Nothing ever reaches the trainer."""
    if case.yield_frac <= 0.0:
        return "starved: no group has rewards that differ, and filter_zero_adv drops all others"
    if case.failure_frac >= 1.0:
        return "starved: every rollout fails (failure_frac = 1)"
    kv = case.stations.engine.kv_tokens
    if kv is not None and case.rollout.context_end > kv:
        return f"stuck: a mean context of {case.rollout.context_end:,.0f} tokens does not fit into {kv:,} KV tokens"
    quota = quota_of(case)
    if quota is not None and quota < 1:
        return "starved: the sandbox quota is 0"
    sandboxes = case.stations.sandboxes
    if sandboxes is None:
        return None
    if sandboxes.failure_frac >= 1.0:
        return "starved: every sandbox fails to start"
    timeout = sandboxes.start_timeout_s
    if timeout is not None and sandboxes.start_s > timeout:
        return f"starved: a sandbox takes {sandboxes.start_s:g} s to start and is given up after {timeout:g} s"
    return None


def _locked(case: Case) -> str | None:
    """Admission holds back what the trainer waits for."""
    layout = case.layout
    limit, plug = layout.limit_groups, layout.plug
    needed = layout.batch_groups * (layout.sync_interval if plug is Plug.PER_SYNC else 1)
    if limit is None or limit >= needed:
        return None
    if plug in (Plug.WIP_CAP, Plug.PER_SYNC):
        return f"deadlock: {limit} groups may be started and untrained, {needed} are needed for a training"
    if plug is Plug.DROP_OLDEST:
        return f"starved: the buffer keeps {limit} groups, a batch has {needed}"
    if plug is Plug.BUFFER_CAP and limit - 1 + layout.in_flight / layout.members < needed:
        return f"deadlock: with {limit} groups in the buffer no other starts, and a batch has {needed}"
    return None
