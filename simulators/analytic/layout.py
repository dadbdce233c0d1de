"""How a job is laid out: engines, slots, groups of a batch; the numbers behind setpoints, or what is missing."""

import math
from dataclasses import dataclass

from simulators.plant import Mode, Setpoints, Topology
from simulators.stations import Order, Plug, Stations


@dataclass(frozen=True, slots=True)
class Layout:
    serial: bool
    engines: int
    slots: int
    """Rollouts that may be resident in one engine."""
    in_flight: int
    """Rollouts dispatched and unfinished at most, whole job."""
    prefill_engines: int
    gpus_trainer: int
    group_size: int
    members: int
    """Rollouts started per group: more than group_size when members are oversampled."""
    batch_groups: int
    round_groups: int
    """Groups of one round, of which batch_groups are kept; the same without oversampling of groups."""
    sync_interval: int
    plug: Plug
    limit_groups: int | None
    freed_at_start: bool
    order: Order

    @property
    def in_flight_per_engine(self) -> float:
        return self.in_flight / self.engines


def required(name: str, value: int | None, low: int = 1) -> int:
    """The value, or an error that says what to state."""
    if value is None:
        raise ValueError(f"{name} is not known: the model needs it; state it in the job file")
    if value < low:
        raise ValueError(f"{name}={value} must be >= {low}")
    return value


def layout_of(topology: Topology, stations: Stations, setpoints: Setpoints) -> Layout:
    """Raises ValueError where a setting is missing or impossible."""
    group_size = required("setpoints.group_size", setpoints.group_size or 1)
    batch = required("setpoints.batch_rollouts", setpoints.batch_rollouts)
    if batch % group_size:
        raise ValueError(
            f"setpoints.batch_rollouts={batch} is not a multiple of group_size={group_size}: a batch is whole groups"
        )
    serial = topology.mode is Mode.SERIAL
    engines, prefill_engines, gpus_trainer = _gpus(topology, stations, setpoints)
    slots = min(required("engine.slots", stations.engine.slots), setpoints.max_in_flight_per_engine or math.inf)
    ratio = 1.0 if setpoints.oversampling_ratio is None else setpoints.oversampling_ratio
    if not 1.0 <= ratio < math.inf:
        raise ValueError(f"setpoints.oversampling_ratio={ratio} must be a finite number of at least 1")
    by_group, in_flight = stations.group_wise_oversampling, setpoints.max_in_flight
    round_groups = round(ratio * (batch // group_size)) if by_group else batch // group_size
    limit, freed_at_start = _limit(stations, setpoints, round_groups, serial)
    return Layout(
        serial=serial,
        engines=engines,
        slots=int(slots),
        in_flight=engines * int(slots) if in_flight is None else required("setpoints.max_in_flight", in_flight),
        prefill_engines=prefill_engines,
        gpus_trainer=gpus_trainer,
        group_size=group_size,
        members=group_size if by_group else max(group_size, round(ratio * group_size)),
        batch_groups=batch // group_size,
        round_groups=round_groups,
        sync_interval=required("setpoints.sync_interval", setpoints.sync_interval or 1),
        plug=Plug.WIP_CAP if serial else stations.admission.plug,
        limit_groups=limit,
        freed_at_start=freed_at_start,
        order=stations.admission.order,
    )


def _gpus(topology: Topology, stations: Stations, setpoints: Setpoints) -> tuple[int, int, int]:
    """(decoding engines, prefill engines, trainer GPUs)."""
    per_engine = required("topology.gpus_per_engine", topology.gpus_per_engine or 1)
    if topology.mode is Mode.SERIAL:
        total = required("topology.gpus_total", topology.gpus_total or setpoints.gpus_trainer)
        return _engines(setpoints, total, per_engine, "topology.gpus_total"), 0, total
    trainer = required("setpoints.gpus_trainer", setpoints.gpus_trainer)
    if stations.prefill is None:
        generator = setpoints.gpus_generator
        if setpoints.engines is None:
            generator = required("setpoints.gpus_generator", generator)
        return _engines(setpoints, generator or 0, per_engine, "setpoints.gpus_generator"), 0, trainer
    prefill = required("setpoints.gpus_prefill", setpoints.gpus_prefill) // stations.prefill.gpus_per_engine
    if prefill < 1:
        raise ValueError(
            f"setpoints.gpus_prefill={setpoints.gpus_prefill} holds no prefill engine of "
            f"{stations.prefill.gpus_per_engine} GPUs: give it one at least"
        )
    decode = required("setpoints.gpus_decode", setpoints.gpus_decode)
    return _engines(setpoints, decode, per_engine, "setpoints.gpus_decode"), prefill, trainer


def _engines(setpoints: Setpoints, gpus: int, per_engine: int, name: str) -> int:
    if setpoints.engines is not None:
        return required("setpoints.engines", setpoints.engines)
    if gpus < per_engine:
        raise ValueError(f"{name}={gpus} holds no engine of {per_engine} GPUs: give it {per_engine} at least")
    return gpus // per_engine


def _limit(stations: Stations, setpoints: Setpoints, round_groups: int, serial: bool) -> tuple[int | None, bool]:
    """(limit in groups, whether slots are free again at the start of training)."""
    admission = stations.admission
    if serial:
        return round_groups, False
    if admission.plug is Plug.NONE:
        return None, admission.freed_at_start
    if admission.limit_groups is not None:
        return required("admission.limit_groups", admission.limit_groups), admission.freed_at_start
    if admission.plug is Plug.WIP_CAP:
        return math.ceil((1.0 + (setpoints.staleness_bound or 0.0)) * round_groups), admission.freed_at_start
    if admission.plug is not Plug.DISCARD_STALE:
        raise ValueError(f"admission.limit_groups is not known, and the plug {admission.plug} needs it: state it")
    if setpoints.staleness_bound is None:
        raise ValueError(f"setpoints.staleness_bound is not known, and the plug {admission.plug} needs it: state it")
    return None, admission.freed_at_start
