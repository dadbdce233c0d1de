"""Reads what Python prints of a configuration: nested dicts by pprint, Namespace(...), GRPOConfig(...), odd values."""

import re
from dataclasses import dataclass

DEEPEST = 60
"""Levels of brackets that are followed; what is nested deeper is kept as text."""

LONGEST_CHARS = 1 << 20
"""A printed configuration is far shorter; longer text is not read."""

LONGEST_ANGLE_CHARS = 300
"""`<...>` is followed this far."""

Plain = object
"""None, bool, int, float, str, list or dict of such."""

_SPACE = re.compile(r"\s*")
_STRING = re.compile(r"[bBrRuU]{0,2}('''.*?'''|\"\"\".*?\"\"\"|'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\")", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:\d[\d_]*(?:\.[\d_]*)?|\.\d[\d_]*)(?:[eE][+-]?\d+)?")
_ANGLE = re.compile(r"[<>]")
_MARKS = re.compile(r"[,:()\[\]{}]")
_NAME = re.compile(r"[+-]?[A-Za-z_][\w.]*")
_KEYWORD = re.compile(r"([A-Za-z_]\w*)\s*=(?!=)")
_CALL = re.compile(r"(?<![\w.])[A-Za-z_][\w.]*\(")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4}|\n|.)", re.DOTALL)
_SHORT_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\n": ""}
_WORDS: dict[str, Plain] = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_FLOATS = {"nan", "inf", "infinity"}
_CLOSERS = {"{": "}", "[": "]", "(": ")"}


class OddTextError(ValueError):
    """The text at this place is no Python value."""


class CutTextError(ValueError):
    """The text ends inside brackets: no outer bracket can be whole either."""


def parse_python_repr(text: str) -> Plain:
    """The printed dict, list or call as plain values; None where the text is not one whole such value.

    >>> parse_python_repr("{'a': np.float64(0.5), 'p': PosixPath('/x'), 'm': <Mode.A: 1>}")
    {'a': 0.5, 'p': '/x', 'm': 1}
    """
    if not isinstance(text, str) or len(text) > LONGEST_CHARS:
        return None
    scan = _Scan(text)
    scan.skip_space()
    try:
        value = scan.value(0)
    except (OddTextError, CutTextError):
        return None
    scan.skip_space()
    return value if scan.at == len(text) else None


def parse_call(text: str) -> dict[str, Plain]:
    """Keyword arguments of the first `Name(...)` in a text, not yet flat; empty where there is none."""
    if not isinstance(text, str) or len(text) > LONGEST_CHARS:
        return {}
    found = _CALL.search(text)
    if found is None:
        return {}
    scan = _Scan(text, found.end())
    try:
        _, named = scan.arguments(0)
    except (OddTextError, CutTextError):
        return {}
    return named


def parse_atom(text: str) -> Plain:
    """A printed value whatever it is: a number, list or dict where it reads as one, otherwise its own text."""
    value = parse_python_repr(text)
    return text.strip() if value is None and text.strip() not in ("None", "null") else value


@dataclass(slots=True)
class _Scan:
    text: str
    at: int = 0
    again: int = 0

    def skip_space(self) -> None:
        found = _SPACE.match(self.text, self.at)
        self.at = found.end() if found else self.at

    def peek(self) -> str:
        return self.text[self.at : self.at + 1]

    def take(self, char: str) -> bool:
        self.skip_space()
        if self.peek() != char:
            return False
        self.at += 1
        return True

    def value(self, depth: int) -> Plain:
        """One value from here; raises where there is none."""
        char = self.peek()
        if not char:
            raise CutTextError
        if depth > DEEPEST:
            raise OddTextError
        if char in _CLOSERS:
            return self.bracket(depth)
        if char == "<":
            return self.angle(depth)
        if _STRING.match(self.text, self.at):
            return self.strings()
        number = _NUMBER.match(self.text, self.at)
        if number is not None:
            self.at = number.end()
            return _number(number.group())
        return self.name(depth)

    def strings(self) -> str:
        """Adjacent literals are one text: pprint breaks long ones."""
        parts = []
        while (found := _STRING.match(self.text, self.at)) is not None:
            parts.append(_literal(found.group(1)))
            self.at = found.end()
            self.skip_space()
        return "".join(parts)

    def name(self, depth: int) -> Plain:
        found = _NAME.match(self.text, self.at)
        if found is None:
            raise OddTextError
        self.at = found.end()
        word = found.group()
        if self.peek() == "(":
            self.at += 1
            return _called(word, *self.arguments(depth + 1))
        if word.lstrip("+-").lower() in _FLOATS:
            return float(word)
        return _WORDS.get(word, word)

    def angle(self, depth: int) -> Plain:
        """`<Mode.A: 'a'>` is its value; any other `<...>` is its text."""
        start, open_ = self.at, 0
        for bracket in _ANGLE.finditer(self.text, start, start + LONGEST_ANGLE_CHARS):
            open_ += 1 if bracket.group() == "<" else -1
            if open_ == 0:
                self.at = bracket.end()
                inside = self.text[start + 1 : bracket.start()]
                _, colon, value = inside.partition(": ")
                read = parse_python_repr(value) if colon and depth < DEEPEST and "<" not in value else None
                return inside if read is None else read
        self.spend(LONGEST_ANGLE_CHARS)
        raise OddTextError

    def bracket(self, depth: int) -> Plain:
        opener = self.peek()
        self.at += 1
        if opener == "{":
            return self.braces(depth + 1)
        items: list[Plain] = []
        comma = False
        while not self.take(_CLOSERS[opener]):
            items.append(self.item(depth + 1))
            comma = self.separated(_CLOSERS[opener]) or comma
        return items[0] if opener == "(" and len(items) == 1 and not comma else items

    def braces(self, depth: int) -> Plain:
        """A dict, or a set as a list."""
        pairs: dict[str, Plain] = {}
        items = []
        while not self.take("}"):
            key = self.item(depth, ":")
            if self.take(":"):
                pairs[str(key)] = self.item(depth)
            else:
                items.append(key)
            self.separated("}")
        return items if items and not pairs else pairs

    def arguments(self, depth: int) -> tuple[list[Plain], dict[str, Plain]]:
        """What stands between the brackets of a call, up to and with the closing one."""
        plain, named = [], {}
        while not self.take(")"):
            keyword = _KEYWORD.match(self.text, self.at)
            if keyword is not None:
                self.at = keyword.end()
                named[keyword.group(1)] = self.item(depth)
            else:
                plain.append(self.item(depth))
            self.separated(")")
        return plain, named

    def separated(self, closer: str) -> bool:
        """True after a comma, False before the closing bracket; anything else is the wrong bracket."""
        if self.take(","):
            return True
        if self.peek() != closer:
            raise OddTextError
        return False

    def item(self, depth: int, also: str = "") -> Plain:
        """A value inside brackets. What does not read as one (`output_dir=./out`) is its text up to the next comma."""
        self.skip_space()
        start = self.at
        ends = ",)]}" + also
        try:
            value = self.value(depth)
            self.skip_space()
            if self.at == len(self.text):
                raise CutTextError
            if self.peek() in ends:
                return value
        except OddTextError:
            pass
        self.spend(self.at - start)
        self.at = start
        return self.raw(ends)

    def raw(self, ends: str) -> str:
        start, depth = self.at, 0
        for mark in _MARKS.finditer(self.text, start):
            char = mark.group()
            if depth == 0 and char in ends:
                self.at = mark.start()
                self.spend(self.at - start)
                return self.text[start : self.at].strip()
            depth += (char in "([{") - (char in ")]}")
        raise CutTextError

    def spend(self, chars: int) -> None:
        """Counts what is read again: text made to be read over and over is given up."""
        self.again += chars
        if self.again > 10 * len(self.text) + LONGEST_ANGLE_CHARS:
            raise CutTextError


def _called(name: str, plain: list[Plain], named: dict[str, Plain]) -> Plain:
    """np.float64(0.5) is 0.5, PosixPath('x') is 'x', OrderedDict([...]) a dict, Namespace(a=1) a dict."""
    if named and not plain:
        return named
    if not plain:
        return {} if name.rpartition(".")[2] in ("dict", "OrderedDict", "Namespace", "DictConfig") else name
    value = plain[-1] if name.endswith("defaultdict") else plain[0]
    if name.endswith("OrderedDict") and isinstance(value, list):
        return {str(pair[0]): pair[1] for pair in value if isinstance(pair, list) and len(pair) == 2}
    return value


def _number(text: str) -> int | float:
    plain = text.replace("_", "")
    try:
        return int(plain)
    except ValueError:
        pass
    try:
        return float(plain)
    except ValueError as wrong:
        raise OddTextError from wrong


def _literal(quoted: str) -> str:
    inside = quoted[3:-3] if quoted[:3] in ("'''", '"""') else quoted[1:-1]
    return _ESCAPE.sub(_unescaped, inside) if "\\" in inside else inside


def _unescaped(found: re.Match[str]) -> str:
    code = found.group(1)
    if len(code) > 1:
        number = int(code[1:], 16)
        return chr(number) if not 0xD800 <= number < 0xE000 else "\ufffd"
    return _SHORT_ESCAPES.get(code, code if code in "\\'\"" else "\\" + code)
