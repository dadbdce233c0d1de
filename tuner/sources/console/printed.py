"""A dict that a terminal or a pretty printer broke over several lines, wherever it broke, as one text again."""

import re

OPENS = re.compile(r"\{\s*(?=(['\"])[^'\"\n]{1,200}\1\s*:)")
PAIRS_ONLY = re.compile(
    r"\s*(?:(['\"])[^'\"\n]{1,200}\1\s*:\s*(?:['\"][^'\"\n]{0,60}['\"]|[\w.+()-]{1,60})\s*(?:,\s*|$)){2,400}"
)
"""A line of such pairs alone, its brace lost: some loggers print a dict without it."""
_STARTS = re.compile(r"\s*(?:['\"}\])]|[-+]?\.?\d|nan|inf|True|False|None|np\.|tensor)")
_ENDS = (",", "{", "}", ":", "'", '"', ")")
LINES_MAX = 400
CHARS_MAX = 100_000


class PrintedDict:
    """Takes lines until the braces close, or until a line is none of it."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._depth = 0
        self._size = 0

    @property
    def open(self) -> bool:
        return bool(self._parts)

    def opens(self, text: str) -> bool:
        """True for a line that starts a dict and does not end it, or holds nothing but its pairs; then it is taken."""
        found = OPENS.search(text)
        if found is not None and "}" not in text[found.start() :]:
            self.take(text[found.start() :])
        elif "{" not in text and "}" not in text and PAIRS_ONLY.fullmatch(text):
            self.take(text)
        return self.open

    def expects(self, text: str) -> bool:
        """True for what may be the next line of an open dict."""
        bare = text.strip()
        full = len(self._parts) >= LINES_MAX or self._size + len(text) > CHARS_MAX
        told = "': " in text or '": ' in text or bare.endswith(_ENDS)
        return self.open and not full and told and _STARTS.match(text) is not None

    def take(self, text: str) -> None:
        broken = self._parts and text[:1].isspace()
        self._parts.append(f" {text.strip()}" if broken else text.rstrip())
        self._depth += text.count("{") - text.count("}")
        self._size += len(text)

    @property
    def closed(self) -> bool:
        return self.open and self._depth <= 0 and "{" in self._parts[0]

    def text(self) -> str:
        """What was taken, joined: a terminal breaks in the middle of a word, a printer indents after a space."""
        joined = "".join(self._parts)
        self._parts, self._depth, self._size = [], 0, 0
        return joined
