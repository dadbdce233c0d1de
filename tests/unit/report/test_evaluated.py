"""An evaluation as text: what is noted is wrapped, never cut."""

from tuner.report.evaluated import Evaluated, render
from tuner.report.words import percent

NOTE = "2 runs, 1 s." + "".join(f" scenario-{i}: a knob that nobody can turn." for i in range(12))


def test_a_long_note_is_told_to_its_end() -> None:
    told = render(Evaluated((), (), ("static",), "static", (), (), 1, NOTE))
    assert " ".join(told.split()).endswith(NOTE)
    assert max(map(len, told.splitlines())) <= 130


def test_the_noise_of_a_float_is_no_share() -> None:
    assert (percent(3.05e-14), percent(-3.05e-14), percent(0.00412), percent(1.0)) == ("0%", "0%", "0.412%", "100%")
