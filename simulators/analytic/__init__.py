"""The analytic model of a job: closed forms for engines, cycle, admission, staleness and waste."""

from simulators.analytic.model import AnalyticModel

__all__ = ["AnalyticModel"]
