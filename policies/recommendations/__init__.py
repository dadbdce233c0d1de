"""From a diagnosis to ranked changes, warnings and gaps."""

from policies.recommendations.advisor import advise

__all__ = ["advise"]
