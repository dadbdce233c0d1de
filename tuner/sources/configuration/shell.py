"""Reads a launch script's words as bash would, as far as the script alone tells: no command is ever run.

Known: plain assignments, `${VAR}`, `${VAR:-default}`, `$((1024 * 2))`, arrays and `"${ARRAY[@]}"`, quotes,
continuations, comments; here-documents are left out. Unknown, and marked so: `$1`, `$(command)`, the environment,
a variable set to different values on different branches, what an array gets on one branch only.
"""

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from tuner.parsing.configuration import UNKNOWN
from tuner.sources.configuration.sums import whole_number

MOST_CHARS = 4 << 20
"""What a script may come to when its variables are written out; the rest of a longer one is not read."""

LONGEST_TEXT = 1 << 16
"""A variable that holds more characters is not followed."""

LONGEST_NUMBER = 20
"""Digits of a 64-bit number and its sign."""

_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(\+?)=")
_SIMPLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)\}|([A-Za-z_]\w*))")
_DEFAULT = re.compile(r"\{([A-Za-z_]\w*)(:?[-=])(.*)\}\Z", re.DOTALL)
_ARRAY = re.compile(r"\{([A-Za-z_]\w*)\[[@*]\]\}\Z")
_HEREDOC = re.compile(r"<<-?[ \t]*(['\"]?)([A-Za-z_]\w*)\1")
_OPENERS = frozenset({"if", "case", "for", "while", "until", "select"})
_CLOSERS = frozenset({"fi", "esac", "done"})
_HEADS = frozenset({"then", "do", "else", "elif", "{", "!", "time", "exec", "nohup", "sudo"})
"""Words before the command proper."""

_DECLARERS = frozenset({"export", "local", "declare", "readonly", "typeset"})


@dataclass(slots=True)
class Script:
    """What is known of the script's variables so far."""

    texts: dict[str, str] = field(default_factory=dict)
    arrays: dict[str, list[str]] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)
    """Arrays that some command took."""
    branches: int = 0
    budget: int = MOST_CHARS

    def spend(self, words: list[str]) -> list[str]:
        """The words, paid for; none where the budget is gone."""
        self.budget -= sum(map(len, words)) + len(words)
        return words if self.budget > 0 else []


def commands(text: str, script: Script) -> Iterator[list[str]]:
    """Each command's words in the script's order, assignments applied on the way."""
    joined = re.sub(r"\\\r?\n", " ", text.replace("\r\n", "\n"))
    lexer = _Lexer(_without_heredocs(joined), script)
    while not lexer.ended:
        words = lexer.command()
        while words and words[0] in _HEADS:
            words = words[1:]
        if not words:
            continue
        script.branches += (words[0] in _OPENERS) - (words[0] in _CLOSERS)
        if words[0] not in _DECLARERS:
            yield words


@dataclass(slots=True)
class _Lexer:
    text: str
    script: Script
    at: int = 0

    @property
    def ended(self) -> bool:
        return self.at >= len(self.text) or self.script.budget <= 0

    def command(self) -> list[str]:
        """Words up to the end of the command. Leading assignments are applied and left out."""
        words: list[str] = []
        while not self.ended:
            char = self.text[self.at]
            if char in " \t":
                self.at += 1
            elif char == "#":
                self.comment()
            elif char in "\n;&|()":
                self.at += 1
                return words
            elif char in "<>":
                if words and words[-1].isdigit() and self.text[self.at - 1].isdigit():
                    words.pop()  # The 2 of `2>&1`.
                self.redirection()
            elif not self.assignment(words):
                words.extend(self.word())
        return words

    def comment(self) -> None:
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def redirection(self) -> None:
        while not self.ended and self.text[self.at] in "<>&":
            self.at += 1
        while not self.ended and self.text[self.at] in " \t":
            self.at += 1
        if not self.ended and self.text[self.at] not in "\n;|()":
            self.word()

    def assignment(self, words: list[str]) -> bool:
        """`A=1`, `A+=(...)` at the head of a command, or after `export` and its like."""
        found = _ASSIGNMENT.match(self.text, self.at)
        if found is None or not (_HEADS.issuperset(words) or words[0] in _DECLARERS):
            return False
        name, append = found.group(1), bool(found.group(2))
        self.at = found.end()
        if self.text[self.at : self.at + 1] == "(":
            self.at += 1
            items = self.array()
            if self.script.branches > 0:
                items = doubtful(items)
            self.script.arrays[name] = [*self.script.arrays.get(name, []), *items] if append else items
            return True
        value = " ".join(self.word(whole=True))
        if append:
            value = self.script.texts.get(name, "") + value
        before = self.script.texts.get(name)
        differs = before is not None and before != value and self.script.branches > 0
        known = len(value) <= LONGEST_TEXT and not (differs and not append)
        self.script.texts[name] = value if known else UNKNOWN
        return True

    def array(self) -> list[str]:
        """Words up to the closing bracket; comments and line ends between them."""
        words: list[str] = []
        while not self.ended:
            char = self.text[self.at]
            if char in " \t\n":
                self.at += 1
            elif char == "#":
                self.comment()
            elif char == ")":
                self.at += 1
                return words
            elif char in ";&|<>(":
                self.at += 1
            else:
                words.extend(self.word())
        return words

    def word(self, whole: bool = False) -> list[str]:
        """One word, or several where an unquoted variable or an array is written out (never with `whole`)."""
        parts: list[str] = []
        fields: list[str] = []
        quoted = False
        while not self.ended and self.text[self.at] not in " \t\n;&|()<>":
            char = self.text[self.at]
            if char == "'":
                parts.append(self.single())
                quoted = True
            elif char == '"':
                parts.extend(self.double(fields, parts))
                quoted = True
            elif char == "\\":
                parts.append(self.text[self.at + 1 : self.at + 2])
                self.at += 2
            elif char in "$`":
                expanded = self.expansion()
                pieces = [" ".join(expanded)] if whole else [part for item in expanded for part in item.split()]
                fields_before = pieces[:-1]
                if fields_before:
                    fields.append("".join(parts) + fields_before[0])
                    fields.extend(fields_before[1:])
                    parts = []
                parts.extend(pieces[-1:])
            else:
                parts.append(char)
                self.at += 1
        last = "".join(parts)
        return [*fields, last] if last or quoted else fields

    def single(self) -> str:
        end = self.text.find("'", self.at + 1)
        end = len(self.text) if end < 0 else end
        inside = self.text[self.at + 1 : end]
        self.at = end + 1
        return inside

    def double(self, fields: list[str], before: list[str]) -> list[str]:
        """The text in double quotes. `"${ARRAY[@]}"` becomes several words: all but the last go to `fields`."""
        parts: list[str] = []
        self.at += 1
        while not self.ended and self.text[self.at] != '"':
            char = self.text[self.at]
            if char == "\\" and self.text[self.at + 1 : self.at + 2] in ('"', "\\", "$", "`"):
                parts.append(self.text[self.at + 1])
                self.at += 2
            elif char in "$`":
                expanded = self.expansion()
                for item in expanded[:-1]:
                    fields.append("".join([*before, *parts, item]))
                    before.clear()
                    parts = []
                parts.extend(expanded[-1:])
            else:
                parts.append(char)
                self.at += 1
        self.at += 1
        return parts

    def expansion(self) -> list[str]:
        """What a `$` or backtick stands for: one text, an array's words, or UNKNOWN."""
        if self.text[self.at] == "`":
            end = self.text.find("`", self.at + 1)
            self.at = len(self.text) if end < 0 else end + 1
            return [UNKNOWN]
        simple = _SIMPLE.match(self.text, self.at)
        if simple is not None:
            self.at = simple.end()
            return self.variable(simple.group(1) or simple.group(2))
        start = self.at + 1
        opener = self.text[start : start + 1]
        if opener in ("{", "("):
            self.at = _closing(self.text, start)
            inside = self.text[start : self.at]
            return self.braces(inside) if opener == "{" else self.sum(inside)
        self.at = start + 1
        if opener in ("@", "*"):
            return []  # What the user adds on the command line: not known, and usually nothing.
        return [UNKNOWN] if opener and opener in "0123456789?#$!-" else ["$" + opener]

    def variable(self, name: str) -> list[str]:
        if name in self.script.arrays and name not in self.script.texts:
            self.script.used.add(name)
            return self.script.spend(self.script.arrays[name][:1])
        return self.script.spend([self.script.texts.get(name, UNKNOWN)])

    def braces(self, inside: str) -> list[str]:
        array = _ARRAY.match(inside)
        if array is not None:
            self.script.used.add(array.group(1))
            return self.script.spend(self.script.arrays.get(array.group(1), []))
        default = _DEFAULT.match(inside)
        if default is None:
            return [UNKNOWN]
        name, _, fallback = default.groups()
        if self.script.texts.get(name):
            return self.script.spend([self.script.texts[name]])
        if len(fallback) >= len(self.text) or fallback.count("${") > 20:
            return [UNKNOWN]
        return [" ".join(_Lexer(fallback, self.script).word(whole=True))]

    def sum(self, inside: str) -> list[str]:
        """`$((2 * A))`; a command's output is unknown."""
        if not inside.startswith("((") or not inside.endswith("))"):
            return [UNKNOWN]
        plain = inside[2:-2].replace("${", "").replace("}", "").replace("$", "")
        written = _NAME.sub(lambda found: self.script.texts.get(found.group(), UNKNOWN)[:LONGEST_NUMBER], plain)
        result = whole_number(written)
        return [UNKNOWN if result is None else str(result)]


def doubtful(words: list[str]) -> list[str]:
    """Settings that only one branch of the script makes: their values are unknown."""
    flags = [word.partition("=")[0] for word in words if word.startswith("-") or "=" in word]
    return [f"{flag}={UNKNOWN}" for flag in flags]


def _closing(text: str, start: int) -> int:
    """The place after the bracket that closes the one at `start`; the end of the text where none does."""
    opener = text[start]
    closer = "}" if opener == "{" else ")"
    depth = 0
    for place in range(start, len(text)):
        depth += (text[place] == opener) - (text[place] == closer)
        if depth == 0:
            return place + 1
    return len(text)


def _without_heredocs(text: str) -> str:
    """The script without the texts that it feeds to commands (`cat <<EOF`)."""
    lines = text.split("\n")
    ends: dict[str, list[int]] = {}
    for number, line in enumerate(lines):
        ends.setdefault(line.strip(), []).append(number)
    kept, number = [], 0
    while number < len(lines):
        kept.append(lines[number])
        opened = _HEREDOC.search(lines[number])
        stops = ends.get(opened.group(2), []) if opened else []
        after = bisect_right(stops, number)
        number = (stops[after] if after < len(stops) else number) + 1
    return "\n".join(kept)
