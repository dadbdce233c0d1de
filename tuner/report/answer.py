"""From what was read and decided to the answer: every number checked, every knob under the framework's own key."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from math import isfinite

from policies.base import Advice, Recommendation
from simulators.cost import Spending
from simulators.plant import Change, Setpoints, Topology
from simulators.snapshot import Snapshot
from tuner.answers import advise as answers
from tuner.frameworks.base import KnobKey
from tuner.version import VERSION


@dataclass(frozen=True, slots=True)
class Material:
    """All that an answer is made of."""

    topology: Topology
    setpoints: Setpoints
    snapshot: Snapshot
    """With its derived signals."""
    advice: Advice
    sources: tuple[answers.Source, ...] = ()
    knobs: Mapping[str, KnobKey] = field(default_factory=dict)
    spending: Spending | None = None


def build(material: Material) -> answers.Answer:
    """The answer. A number that is not finite becomes null, or is left out where null has no place."""
    diagnosis, window = material.advice.diagnosis, material.snapshot.window
    return answers.Answer(
        schema_version=1,
        product_version=VERSION,
        source=list(material.sources),
        job=_job(material.topology, material.setpoints),
        window=answers.Window(
            steps=window.steps,
            from_step=window.from_step,
            to_step=window.to_step,
            seconds=finite(window.seconds),
            dropped_steps=[answers.DroppedStep(step=d.step, why=d.why) for d in window.dropped],
        ),
        signals=_signals(material.snapshot),
        rates=answers.Rates(**{name: finite(value) for name, value in asdict(diagnosis.rates).items()}),
        verdict=diagnosis.verdict,
        verdict_confidence=min(1.0, max(0.0, finite(diagnosis.confidence) or 0.0)),
        headline=diagnosis.headline,
        findings=[
            answers.Finding(
                code=f.code, severity=f.severity, title=f.title, detail=f.detail, evidence=_evidence(f.evidence)
            )
            for f in diagnosis.findings
        ],
        recommendations=[
            _recommendation(rank, r, _key_of(r, material.knobs.get(r.knob)), material.topology.restart_s)
            for rank, r in enumerate(material.advice.recommendations, start=1)
        ],
        do_not=[answers.DoNot(knob=d.knob, direction=d.direction, reason=d.reason) for d in material.advice.do_not],
        missing=[
            answers.Missing(signal=m.signal, why_it_matters=m.why_it_matters, how_to_get_it=m.how_to_get_it)
            for m in material.advice.missing
        ],
        cost=_cost(material.spending),
    )


def finite(value: float | None) -> float | None:
    return value if value is not None and isfinite(value) else None


def _plain(value: answers.Value) -> answers.Value:
    """A current or proposed value of a knob; whole numbers lose their `.0`."""
    if isinstance(value, float):
        if not isfinite(value):
            return None
        return int(value) if value.is_integer() and abs(value) < 1e15 else value
    return value


def _evidence(evidence: Mapping[str, float | str]) -> dict[str, answers.Scalar]:
    return {name: value for name, value in evidence.items() if isinstance(value, str) or isfinite(value)}


def _job(topology: Topology, setpoints: Setpoints) -> answers.Job:
    return answers.Job(**(asdict(topology) | asdict(setpoints)))


def _signals(snapshot: Snapshot) -> dict[str, answers.Signal]:
    return {
        name: answers.Signal(
            value=s.value,
            unit=s.unit,
            age_s=finite(s.age_s),
            n=s.n,
            trust=min(1.0, max(0.0, s.trust)),
            derived_from=list(s.derived_from),
        )
        for name, s in snapshot.signals.items()
        if isfinite(s.value)
    }


TOPICS = {"graphs": ("eager", "graph"), "prefill": ("batched-tokens", "batched_tokens", "prefill")}
"""A framework's key of the engine settings names one of many: a proposal about another must not carry it."""


def _key_of(r: Recommendation, key: KnobKey | None) -> KnobKey | None:
    """The framework's key where it is about what is proposed; an engine setting without one still needs a restart."""
    if key is None or r.knob != "engine_settings":
        return key
    parts = next((parts for topic, parts in TOPICS.items() if topic in str(r.proposed).lower()), ())
    return key if any(part in key.key for part in parts) else replace(key, key="", note="")


def _recommendation(
    rank: int, r: Recommendation, key: KnobKey | None, restart_s: float | None
) -> answers.Recommendation:
    gain = None if r.gain_frac is None else (r.gain_frac.low, r.gain_frac.mean, r.gain_frac.high)
    change = r.change if r.change is not None or key is None else key.change
    restarts = change is Change.RESTART and r.cost_s is None
    note = "a restart from checkpoint" if restarts and not r.cost_note else r.cost_note
    notes = (note, "" if key is None else key.note)
    return answers.Recommendation(
        rank=rank,
        knob=r.knob,
        direction=r.direction,
        current=_plain(r.current),
        proposed=_plain(r.proposed),
        unit=r.unit,
        key=(key.key or None) if key is not None else None,
        change=change,
        data_changing=r.data_changing or (key is not None and key.data_changing),
        gain_frac=None
        if gain is None or not all(isfinite(g) for g in gain)
        else answers.Interval(low=gain[0], mean=gain[1], high=gain[2]),
        cost=answers.ChangeCost(
            seconds=finite(restart_s if restarts else r.cost_s), note="; ".join(n for n in notes if n)
        ),
        reason=r.reason,
        risks=list(r.risks),
    )


def _cost(spending: Spending | None) -> answers.Cost | None:
    if spending is None or not isfinite(spending.usd_per_gpu_hour):
        return None
    return answers.Cost(
        usd_per_gpu_hour=spending.usd_per_gpu_hour,
        usd_per_mtok=finite(spending.usd_per_mtok),
        idle_usd_per_hour=finite(spending.idle_usd_per_hour),
        wasted_usd_per_hour=finite(spending.wasted_usd_per_hour),
    )
