"""From a job's own history to a model of it: parameters with standard errors, possible jobs, answers to "what if"."""

from simulators.calibration.draws import Draw
from simulators.calibration.posterior import Calibration, calibrate
from simulators.calibration.what_if import Answer, Change, Spread, ask, spread

__all__ = ["Answer", "Calibration", "Change", "Draw", "Spread", "ask", "calibrate", "spread"]
