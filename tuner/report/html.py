"""The answer as one self-contained HTML file: no script, no network, readable on paper, in the dark and on a phone."""

import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from tuner.answers.advise import Answer
from tuner.errors import ConfigError
from tuner.report import words
from tuner.report.answer import Material
from tuner.report.story import pictures_of

TEMPLATES = Path(__file__).parent / "templates"


Filter = Callable[..., object]


def page(template: str, filters: Mapping[str, Filter], **content: object) -> str:
    """A filled template. All text is escaped; only the charts, which we draw ourselves, are markup."""
    return _template(template, tuple(filters.items())).render(style=_style(), **content)


@lru_cache(maxsize=8)
def _template(template: str, filters: tuple[tuple[str, Filter], ...]) -> Template:
    """Compiled; remembered, since a daemon or a fuzzer writes the same page again and again."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"chart": Markup, **dict(filters)}
    return environment.get_template(template)


@lru_cache(maxsize=1)
def _style() -> Markup:
    return Markup((TEMPLATES / "report.css").read_text(encoding="utf-8"))


def render(answer: Answer, material: Material) -> str:
    """The report of `equipoise advise`."""
    return page(
        "report.html.jinja",
        {"figure": words.figure, "percent": words.percent, "gain": words.gain, "breakable": breakable},
        answer=answer,
        job_line=words.job_line(answer),
        left_out=words.left_out(answer),
        cost=words.cost_line(answer),
        warnings=words.warnings(answer),
        pictures=pictures_of(material),
        findings=words.worst_first(answer.findings),
        recommendations=[(r, *words.move(r), words.takes_effect(r)) for r in answer.recommendations],
    )


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
