"""The answer as one self-contained HTML file: no script, no network, readable on paper, in the dark and on a phone."""

import os
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup, escape

from tuner.answers import Answer
from tuner.errors import ConfigError
from tuner.report import words
from tuner.report.answer import Material
from tuner.report.story import pictures_of

TEMPLATES = Path(__file__).parent / "templates"


def render(answer: Answer, material: Material) -> str:
    """The page. All text is escaped; only the charts, which we draw ourselves, are markup."""
    return (
        environment()
        .get_template("report.html.jinja")
        .render(
            answer=answer,
            style=style(),
            job_line=words.job_line(answer),
            left_out=words.left_out(answer),
            cost=words.cost_line(answer),
            warnings=words.warnings(answer),
            pictures=pictures_of(material),
            findings=words.worst_first(answer.findings),
            recommendations=[(r, *words.move(r), words.takes_effect(r)) for r in answer.recommendations],
        )
    )


def environment() -> Environment:
    """Where all our pages are rendered: text is escaped, a name that is not there is an error."""
    made = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["figure"] = words.figure
    made.filters["percent"] = words.percent
    made.filters["gain"] = words.gain
    made.filters["chart"] = Markup
    made.filters["breakable"] = breakable
    return made


def style() -> Markup:
    return Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))


def breakable(key: str) -> Markup:
    """A dotted key that a browser may break after its dots and underscores."""
    return Markup(str(escape(key)).replace(".", ".<wbr>").replace("_", "_<wbr>"))


def check_target(path: Path) -> None:
    """Raises ConfigError where `path` cannot be written: before the long reading, not after it."""
    folder = path.parent
    if path.is_dir():
        raise ConfigError(f"--html {path}: is a folder; name a file, e.g. {path / 'report.html'}")
    if not folder.is_dir():
        raise ConfigError(f"--html {path}: there is no folder {folder}; make it first: mkdir -p {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise ConfigError(f"--html {path}: not writable; choose another place or change its permissions")


def write(path: Path, page: str) -> None:
    """Puts the page in place in one go: a reader sees the old file or the new one, never half of it."""
    data = page.encode("utf-8", "backslashreplace")
    try:
        if path.exists() and not path.is_file():
            path.write_bytes(data)
            return
        real = path.resolve()
        part = real.with_name(f".{real.name}.{os.getpid()}.part")
        try:
            part.write_bytes(data)
            part.replace(real)
        finally:
            part.unlink(missing_ok=True)
    except OSError as error:
        raise ConfigError(f"--html {path}: cannot write ({error.strerror}); choose another place") from None
