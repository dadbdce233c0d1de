"""What adapters share: printed dicts read fast, quotients of counted things, settings however they are spelled."""

import json
import re
from collections.abc import Mapping

from tuner.lookup import number_of
from tuner.parsing.lines import NUMBER, Pairs, dict_numbers, flat_numbers, number_in

_QUOTED_NUMBER = re.compile(rf"(': )'({NUMBER})'")


def printed_numbers(text: str) -> Pairs:
    """The numbers of the first printed dict of a text, also where each is printed as a text (`'loss': '0.1'`).

    Nearly every such dict is JSON but for its quotes, and JSON is read ten times faster than Python is.
    """
    start, end = text.find("{"), text.rfind("}")
    if 0 <= start < end:
        try:
            whole = json.loads(text[start : end + 1].replace("'", '"'))
        except (ValueError, RecursionError):
            pass
        else:
            texts = {k: number for k, v in whole.items() if isinstance(v, str) and (number := number_in(v)) is not None}
            return Pairs(flat_numbers(whole) | texts)
    return dict_numbers(_QUOTED_NUMBER.sub(r"\1\2", text))


def quotient(values: Mapping[str, float], above: str, below: str) -> float | None:
    """`values[above] / values[below]`; None where nothing was counted yet: the mean of no event is unknown."""
    count = values.get(below, 0.0)
    return values[above] / count if above in values and count > 0.0 else None


def plain_value(text: str) -> object:
    """The truth value, whole number, number or text that a printed setting is."""
    if text in ("True", "False"):
        return text == "True"
    number = number_in(text)
    if number is None:
        return text
    return int(number) if number.is_integer() else number


def spelled(config: Mapping[str, object]) -> dict[str, object]:
    """The configuration under underscores: `--max-num-seqs` and `max_num_seqs` are one setting."""
    return {str(key).lstrip("-").replace("-", "_"): value for key, value in config.items()}


def setting(config: Mapping[str, object], *names: str) -> object | None:
    """The first of `names` that is set, as a whole key or as the end of a dotted one. The longest way in comes last."""
    for name in names:
        if config.get(name) is not None:
            return config[name]
    for name in names:
        found = sorted((key for key in config if key.endswith(f".{name}")), key=len)
        if found and config[found[0]] is not None:
            return config[found[0]]
    return None


def count_setting(config: Mapping[str, object], *names: str) -> int | None:
    """A setting that counts something: a whole number above 0, else None (0 and -1 mean `off` or `automatic`)."""
    number = number_setting(config, *names)
    return int(number) if number is not None and number >= 1.0 and number.is_integer() else None


def number_setting(config: Mapping[str, object], *names: str) -> float | None:
    value = setting(config, *names)
    return number_of(number_in(value) if isinstance(value, str) else value)


def flag_setting(config: Mapping[str, object], *names: str) -> bool | None:
    value = setting(config, *names)
    if isinstance(value, str):
        return {"true": True, "false": False}.get(value.lower())
    return value if isinstance(value, bool) else None
