"""An evaluation as text: what is noted is wrapped, never cut."""

from tuner.report.evaluated import Evaluated, render

NOTE = "2 runs, 1 s." + "".join(f" scenario-{i}: a knob that nobody can turn." for i in range(12))


def test_a_long_note_is_told_to_its_end() -> None:
    told = render(Evaluated((), (), ("static",), "static", (), (), 1, NOTE))
    assert " ".join(told.split()).endswith(NOTE)
    assert max(map(len, told.splitlines())) <= 130
