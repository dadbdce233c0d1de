"""What a Prometheus server is asked: PromQL built from known names only, every label value escaped."""

import re
from collections.abc import Iterable, Mapping, Sequence

from tuner.errors import ConfigError
from tuner.frameworks.base import Framework

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
NAMES_MAX = 40
"""Names asked for at once: some 2 kB of an address; servers and proxies take 8."""
VALUE_CHARS_MAX = 1_000

_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


def metric_names(framework: Framework) -> tuple[str, ...]:
    """Every metric of a framework that means something to us: those of its aliases, and those it reads itself."""
    prefixes = tuple(name for name in framework.serves if name.endswith((":", "_")))
    bases = (re.split(r"[{/]", alias.key)[0] for alias in framework.aliases)
    aliased = (base for base in bases if prefixes and base.startswith(prefixes) and NAME.fullmatch(base))
    full = (name for name in framework.serves if name not in prefixes)
    return tuple(dict.fromkeys((*aliased, *full)))


def checked_match(match: Mapping[str, str]) -> Mapping[str, str]:
    """Labels that a user selects a job's series by; raises ConfigError for what is no label."""
    for label, value in match.items():
        if not LABEL.fullmatch(label) or label == "__name__":
            raise ConfigError(
                f"match.{label[:60]}: not a Prometheus label; write letters, digits and _ (job, namespace)"
            )
        if len(value) > VALUE_CHARS_MAX or "\0" in value:
            raise ConfigError(f"match.{label}: its value is no label value: over {VALUE_CHARS_MAX} characters, or NUL")
    return dict(match)


def selector(names: Sequence[str], match: Mapping[str, str]) -> str:
    r"""The series of these names and labels.

    >>> selector(["up"], {"job": 'a"} or vector(1) #'})
    '{__name__="up",job="a\\"} or vector(1) #"}'
    """
    unknown = [name for name in names if not NAME.fullmatch(name)]
    if unknown or not names:
        raise ValueError(f"{unknown or names!r}: no metric names")
    first = f'__name__="{names[0]}"' if len(names) == 1 else f'__name__=~"{"|".join(names)}"'
    return "{" + ",".join([first, *matchers(match)]) + "}"


def matchers(match: Mapping[str, str]) -> list[str]:
    """Labels and their values, as they stand between braces."""
    return [f'{label}="{escaped(value)}"' for label, value in match.items()]


def escaped(value: str) -> str:
    """A label value as it stands between double quotes."""
    return "".join(_ESCAPES.get(char, char) for char in value)


def since(series: str, seconds: float) -> str:
    """Their samples of the last `seconds`, as they were scraped."""
    return f"{series}[{max(1, round(seconds * 1000))}ms]"


def groups(names: Iterable[str]) -> list[tuple[str, ...]]:
    """Names in the portions of one query."""
    wanted = list(names)
    return [tuple(wanted[at : at + NAMES_MAX]) for at in range(0, len(wanted), NAMES_MAX)]
