"""Reads strangers' YAML: no tag is executed, no alias bomb unpacked; duplicate keys and several documents pass."""

import re

LONGEST_CHARS = 1 << 20
"""A resolved configuration is some 30 kB. The reader does about 100 kB/s, so longer text is refused."""

DEEPEST_FLOW = 500
"""Open brackets at once. The reader's time grows with their square."""

MOST_NODES = 200_000
"""Values after every alias is written out."""

_BRACKET = re.compile(r"[\[\]{}]")
_ALIAS = re.compile(r"(?:^|[\s\[{,:-])[*]\w", re.MULTILINE)


def parse_yaml(text: str) -> tuple[list[object], str]:
    """(documents, "") or ([], why it does not read, with the line). Never raises."""
    if len(text) > LONGEST_CHARS:
        return [], f"{len(text):,} characters of YAML; at most {LONGEST_CHARS:,} are read"
    if _flow_depth(text) > DEEPEST_FLOW:
        return [], "nested too deeply"
    # ruamel.yaml takes 0.1 s to import: only for those who have a YAML file.
    from ruamel.yaml import YAML  # noqa: PLC0415
    from ruamel.yaml.constructor import SafeConstructor  # noqa: PLC0415
    from ruamel.yaml.error import MarkedYAMLError, YAMLError  # noqa: PLC0415

    class PlainConstructor(SafeConstructor):
        """Values of an unknown tag (`!!python/tuple`) are the plain list, mapping or text below it."""

        def construct_undefined(self, node):  # type: ignore[no-untyped-def]
            return _plain(self, node)  # type: ignore[no-untyped-call]

    PlainConstructor.add_constructor(None, PlainConstructor.construct_undefined)
    yaml = YAML(typ="safe", pure=True)
    yaml.Constructor = PlainConstructor
    yaml.allow_duplicate_keys = True
    try:
        if _ALIAS.search(text) and _written_out(yaml.parse(text)) is None:
            return [], f"its aliases stand for over {MOST_NODES:,} values, or for themselves"
        return list(yaml.load_all(text)), ""
    except MarkedYAMLError as wrong:
        line = wrong.problem_mark.line + 1 if wrong.problem_mark is not None else "?"
        return [], f"line {line}: {wrong.problem or 'not YAML'}"
    except RecursionError:
        return [], "nested too deeply"
    except (YAMLError, ValueError, TypeError, LookupError, AttributeError, AssertionError, OverflowError) as wrong:
        # ruamel lets these out on odd scalars (a date of month 13, a key that is a list).
        return [], f"not YAML: {type(wrong).__name__}"


def _flow_depth(text: str) -> int:
    """Most brackets that are open at once; those inside quotes count too, which errs by a few."""
    depth = deepest = 0
    for bracket in _BRACKET.findall(text):
        depth = depth + 1 if bracket in "[{" else max(0, depth - 1)
        deepest = max(deepest, depth)
    return deepest


def _plain(constructor, node):  # type: ignore[no-untyped-def]
    kind = type(node).__name__
    if kind == "MappingNode":
        return constructor.construct_mapping(node, deep=True)
    if kind == "SequenceNode":
        return constructor.construct_sequence(node, deep=True)
    return constructor.construct_scalar(node)


def _written_out(events) -> int | None:  # type: ignore[no-untyped-def]
    """Values once each alias is replaced by a copy; None when too many, or when an anchor holds itself."""
    sizes: dict[str, int] = {}
    open_: list[tuple[str | None, int]] = []
    total = 0
    for event in events:
        kind = type(event).__name__
        if kind in ("MappingStartEvent", "SequenceStartEvent"):
            open_.append((event.anchor, total))
            total += 1
        elif kind in ("MappingEndEvent", "SequenceEndEvent"):
            anchor, before = open_.pop()
            if anchor is not None:
                sizes[anchor] = total - before
        elif kind == "ScalarEvent":
            total += 1
            if event.anchor is not None:
                sizes[event.anchor] = 1
        elif kind == "AliasEvent":
            if any(anchor == event.anchor for anchor, _ in open_):
                return None
            total += sizes.get(event.anchor, 1)
        if total > MOST_NODES:
            return None
    return total
