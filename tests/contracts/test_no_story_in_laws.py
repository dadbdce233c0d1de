"""No law knows the story that it is judged by: no shipped scenario is named in the sources that control."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
STORIES = sorted(path.stem for path in (ROOT / "simulators" / "scenarios").glob("*.toml"))
EXAMPLES = ROOT / "tuner" / "config"
"""What a user may write, with examples of it: no code that decides."""
SOURCES = [
    path
    for room in ("policies", "tuner")
    for path in sorted((ROOT / room).rglob("*.py"))
    if not path.is_relative_to(EXAMPLES)
]


@pytest.mark.parametrize("story", STORIES)
def test_no_scenario_is_named_in_the_sources(story: str) -> None:
    names = (story, story.replace("-", "_"))
    told = [str(path.relative_to(ROOT)) for path in SOURCES if any(n in path.read_text("utf-8") for n in names)]
    assert told == []
