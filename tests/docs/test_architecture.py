"""docs/architecture.md lists the rooms that exist, each once, and the README every framework that is read."""

import re
from pathlib import Path

from tuner.frameworks.registry import FRAMEWORKS

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
STOREYS = ("simulators", "policies", "tuner")


def rooms_listed() -> list[str]:
    tree = PAGE.partition("## The rooms\n```\n")[2].partition("```")[0]
    rooms, storey = [], ""
    for line in tree.splitlines():
        name = line.split()[0]
        if line.startswith(" "):
            rooms.append(f"{storey}{name}")
        else:
            storey = name
    return rooms


def rooms_standing() -> list[str]:
    inside = [path for storey in STOREYS for path in (ROOT / storey).iterdir() if not path.name.startswith(("_", "."))]
    return [
        f"{path.parent.name}/{path.name}" + "/" * path.is_dir()
        for path in inside
        if path.is_dir() or path.suffix == ".py"
    ]


def test_the_list_of_rooms_is_the_house() -> None:
    assert sorted(rooms_listed()) == sorted(rooms_standing())


def test_the_reading_order_leads_to_files() -> None:
    order = PAGE.partition("## Reading order\n")[2].partition("##")[0]
    files = re.findall(r"`([\w/]+\.py)`", order)
    assert len(files) >= 5
    assert [name for name in files if not (ROOT / name).is_file()] == []


def test_the_readme_has_a_word_on_every_framework() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8").casefold()
    assert [f.name for f in FRAMEWORKS if f.name.casefold() not in readme] == []
