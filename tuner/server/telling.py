"""What the API answers: plain data from the board and the journal's pages. Pure: the same face, the same answer."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from policies.control import Decision
from policies.guardrails.case import Freeze, Pause
from policies.moves import Move
from policies.scorecard import PastShadow, bias, conformal_scale, coverage, demoted, unlocked
from policies.settings import ACTED, values
from policies.state import State
from simulators.plant import Setpoints
from tuner.report.decided import when
from tuner.server.board import Board, Face
from tuner.server.metrics import target_of
from tuner.version import VERSION

SCHEMA_VERSION = 1

Answer = dict[str, Any]


def status(board: Board, now_s: float) -> Answer:
    """All of now in one document."""
    about, face = board.about, board.face
    head: Answer = {
        "schema_version": SCHEMA_VERSION,
        "product_version": VERSION,
        "job": about.job,
        "now": when(now_s),
        "started": when(about.started_s),
        "period_s": about.period_s,
        "fencing_token": about.fencing_token,
        "commands": about.acts,
        "alive": board.is_alive(now_s),
        "ready": not board.troubles(now_s),
        "troubles": list(board.troubles(now_s)),
    }
    return head | (_of_face(face, now_s) if face is not None else {"last_tick": None})


def _of_face(face: Face, now_s: float) -> Answer:
    entry, state = face.last.entry, face.last.state
    diagnosis = face.material.advice.diagnosis
    return {
        "last_tick": when(entry.at_s),
        "age_s": max(0.0, round(now_s - entry.at_s, 3)),
        "tick": state.tick,
        "tick_seconds": round(face.last.seconds, 4),
        "last_success": when(face.success_s),
        "journal_failures": face.failures,
        "mode": state.mode.value,
        "pauses": [_pause(p) for p in state.pauses],
        "freezes": [_freeze(f) for f in state.freezes if f.until_s > entry.at_s],
        "alarm": state.alarm or None,
        "verdict": str(diagnosis.verdict),
        "headline": diagnosis.headline,
        "in_force": values(entry.seen.in_force),
        "target": _settings(target_of(state)),
        "desired": _settings(entry.decision.proposed or entry.decision.changes),
        "decision": decision_told(entry.decision),
        "asked": _asked(state),
        "move": None if state.move is None else _move(state.move),
        "inventory": asdict(entry.seen.inventory),
        "notes": [asdict(n) for n in entry.seen.snapshot.notes],
    }


def decision_told(decision: Decision) -> Answer:
    return {
        "id": decision.decision_id,
        "at": when(decision.at_s),
        "action": decision.action.value,
        "code": None if decision.code is None else decision.code.value,
        "reason": decision.reason,
        "order": _settings(decision.order),
        "changes": _settings(decision.changes),
        "gain_frac": None if decision.gain_frac is None else asdict(decision.gain_frac),
        "notes": list(decision.notes),
    }


def signals(board: Board) -> Answer:
    """Every signal in view with its age and trust."""
    face = board.face
    found = {} if face is None else face.last.entry.seen.snapshot.signals
    return {
        "schema_version": SCHEMA_VERSION,
        "at": None if face is None else when(face.last.entry.at_s),
        "signals": {
            name: {
                "value": s.value,
                "unit": s.unit,
                "age_s": s.age_s,
                "n": s.n,
                "trust": s.trust,
                "derived_from": list(s.derived_from),
            }
            for name, s in sorted(found.items())
        },
    }


def predictions(board: Board) -> Answer:
    """How good our own forecasts are, and what follows from it."""
    face = board.face
    if face is None:
        return {"schema_version": SCHEMA_VERSION, "at": None}
    card = face.last.state.scorecard
    return {
        "schema_version": SCHEMA_VERSION,
        "at": when(face.last.entry.at_s),
        "scored": len(card.held),
        "coverage_frac": coverage(card),
        "bias_halfwidths": bias(card),
        "scale": conformal_scale(card),
        "errors_halfwidths": list(card.errors),
        "demoted": demoted(card),
        "open": [
            {"made": when(f.made_s), "due": when(f.due_s), "rate_per_s": asdict(f.rate), "scale": f.scale}
            for f in card.open
        ],
        "shadows": {
            knob: {
                "good": sum(good for name, good in card.good if name == knob),
                "settled": sum(name == knob for name, _ in card.good),
                "unlocked": unlocked(card, knob),
                "last": [_past(past) for past in card.past if past.shadow.knob == knob],
            }
            for knob in ACTED
        },
    }


def _past(past: PastShadow) -> Answer:
    """A move that was not made: what it promised, on which rate, and what came without it."""
    shadow = past.shadow
    return {
        "decision": shadow.decision_id,
        "direction": shadow.direction,
        "made": None if shadow.made_s is None else when(shadow.made_s),
        "due": when(shadow.due_s),
        "promised_gain_frac": None if shadow.promised is None else asdict(shadow.promised),
        "rate_then_per_s": shadow.rate_then,
        "rate_since_per_s": past.rate_since,
        "promised_rate_per_s": past.promised_rate,
        "good": past.good,
    }


def page_of(records: list[dict[str, Any]], limit: int) -> Answer:
    """A page of decisions; `next_before` leads to the older ones."""
    more = len(records) > limit
    shown = records[:limit]
    return {
        "schema_version": SCHEMA_VERSION,
        "decisions": [stamped(r) for r in shown],
        "next_before": shown[-1]["id"] if more and shown else None,
    }


def stamped(record: Mapping[str, Any]) -> Answer:
    """A journal's record with its time in words."""
    return {"at": when(record["at_s"]), **record}


def _settings(settings: Setpoints | None) -> Answer | None:
    return None if settings is None else values(settings)


def _pause(pause: Pause) -> Answer:
    way = None if pause.direction is None else pause.direction.value
    return {"knob": pause.knob, "direction": way, "author": pause.author}


def _freeze(freeze: Freeze) -> Answer:
    return {"knob": freeze.knob, "until": when(freeze.until_s), "reason": freeze.reason}


def _asked(state: State) -> Answer | None:
    asked = state.asked
    if asked is None:
        return None
    return {
        "id": asked.decision_id,
        "changes": values(asked.changes),
        "reason": asked.reason,
        "expires": when(asked.expires_s),
        "approved": asked.approved,
        "gain_frac": None if asked.gain_frac is None else asdict(asked.gain_frac),
    }


def _move(move: Move) -> Answer:
    return {
        "id": move.decision_id,
        "stage": move.stage.value,
        "leg": move.at,
        "legs": len(move.path) - 1,
        "begun": when(move.begun_s),
        "origin": values(move.origin),
        "goal": values(move.goal),
        "reason": move.why_back or move.reason,
    }
