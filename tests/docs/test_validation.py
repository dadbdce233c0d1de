"""docs/validation.md, docs/case-files.md and the pictures say what the code says now."""

from tools import case_language
from tools.validation import PICTURES, answer, rendered


def test_the_page_and_its_pictures_are_what_the_code_says() -> None:
    """When they are not: `make docs` writes them anew; read the difference before you keep it."""
    files = rendered(answer())
    assert [path.name for path, text in files.items() if path.read_text(encoding="utf-8") != text] == []
    assert {path for path in files if path.suffix == ".svg"} == set(PICTURES.glob("*.svg"))


def test_the_case_language_is_told_as_it_is() -> None:
    assert case_language.PAGE.read_text(encoding="utf-8") == case_language.rendered()
