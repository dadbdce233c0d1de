"""Whatever a case file holds, `equipoise validate` answers, or says in one sentence why it does not."""

import re
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tuner.case_files import SHIPPED
from tuner.cli import main

FILES = [path for path in sorted(SHIPPED.glob("*.toml")) if 'model = "event"' not in path.read_text(encoding="utf-8")]
ODD = ("-1", "0", "1e308", "1e-300", "nan", "inf", "true", '"x"', '"$x"', "[]", "[1, 2]", "{}", "{ a = 1 }", "9" * 40)
VALUE = re.compile(r"=\s*([^\n,}]+)")


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_a_damaged_case_file_is_answered_or_refused_in_one_sentence(
    data: st.DataObject, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = data.draw(st.sampled_from(FILES)).read_text(encoding="utf-8")
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.sampled_from(list(VALUE.finditer(text))))
        text = text[: place.start(1)] + data.draw(st.sampled_from(ODD)) + text[place.end(1) :]
    path = tmp_path / "case.toml"
    path.write_text(text, encoding="utf-8")
    code = main(["validate", "--cases", str(path), "--json"])
    out, err = capsys.readouterr()
    assert (code, out == "", len(err.splitlines())) in ((0, False, 0), (2, True, 1)), err[:500]
