"""`equipoise replay`, `explain` and `journal export` on journals that a person may well hand them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.unit.daemon.test_start import House
from tuner.cli import main
from tuner.errors import ConfigError
from tuner.soundness import damage_of, soundly_opened
from tuner.wiring import before_us

Captured = pytest.CaptureFixture[str]
READERS = (["replay"], ["explain", "d2", "--journal"], ["journal", "export"])


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


@pytest.fixture
def path(house: House) -> Path:
    """A journal of two starts, the second with another law and other bounds."""
    house.begin(run_s=600.0)
    house.begin('[policy]\nname = "static"\n[bounds]\ngpus_trainer_max = 40', run_s=600.0)
    return house.folder / "journal.db"


def change(path: Path, statement: str, *values: object) -> None:
    with closing(sqlite3.connect(path)) as file, file:
        file.execute(statement, values)


def test_each_start_is_replayed_by_what_it_went_by(path: Path, capsys: Captured) -> None:
    assert main(["replay", str(path)]) == 0
    said = capsys.readouterr().out
    assert said == (
        "rate_balance, then static decides all 20 ticks as they were decided under rate_balance, then static, "
        "byte for byte.\n"
    )


def test_a_decision_is_explained_by_the_law_of_its_moment(path: Path, capsys: Captured) -> None:
    laws = []
    for ident in ("d2", "d12"):
        assert main(["explain", ident, "--journal", str(path)]) == 0
        laws.append(capsys.readouterr().out.partition("The law\n")[2].splitlines()[0])
    assert "static" not in laws[0]
    assert laws[0] != laws[1]


def test_a_law_s_own_parameters_are_not_another_law_s(house: House, capsys: Captured) -> None:
    house.begin("[policy]\nparameters = {deadband_frac = 0.3}")
    assert main(["replay", str(house.folder / "journal.db"), "--policy", "static"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("column", ["seen", "state", "decision"])
@pytest.mark.parametrize("reader", READERS)
def test_a_damaged_tick_is_named(path: Path, column: str, reader: list[str], capsys: Captured) -> None:
    change(
        path,
        f"UPDATE tick SET {column} = CAST(x'7bff00fe' AS {'TEXT' if column == 'decision' else 'BLOB'}) WHERE id = 3",
    )
    code, told = main([*reader, str(path)]), capsys.readouterr()
    if reader == ["journal", "export"] and column != "decision":
        assert code == 0
        return
    assert code == 2
    assert f"{path}: the journal is damaged: " in told.err
    assert "tick" in told.err
    assert "put a backup in its place" in told.err


@pytest.mark.parametrize("column", ["seen", "state"])
def test_a_start_does_not_go_on_from_a_damaged_tick(path: Path, column: str) -> None:
    """A sound database with a row that cannot be unpacked: refused and copied, as any damage is."""
    change(path, f"UPDATE tick SET {column} = x'00' WHERE id = (SELECT MAX(id) FROM tick)")
    assert "cannot be read" in damage_of(path)
    assert before_us(path) is None
    with pytest.raises(ConfigError, match="a copy is kept at"):
        soundly_opened(path)


def test_the_copy_of_a_damaged_journal_has_its_newest_ticks(path: Path) -> None:
    """After a kill they are beside the file, in what SQLite writes ahead."""
    with closing(sqlite3.connect(path)) as file:
        file.execute("UPDATE tick SET state = x'00' WHERE id = (SELECT MAX(id) FROM tick)")
        file.commit()
        with pytest.raises(ConfigError, match="a copy is kept at"):
            soundly_opened(path)
    (copy,) = path.parent.glob("journal.db.damaged-*Z")
    with closing(sqlite3.connect(copy)) as file:
        assert file.execute("SELECT state FROM tick ORDER BY id DESC LIMIT 1").fetchone() == (b"\0",)


def test_reading_a_journal_leaves_it_as_it_was(path: Path) -> None:
    """Of an older product too: only its own daemon brings a journal to a newer schema."""
    change(path, "DROP TABLE writer")
    change(path, "DROP TABLE charter")
    change(path, "PRAGMA user_version = 1")
    before = path.read_bytes()
    assert main(["explain", "d2", "--journal", str(path)]) == 0
    assert main(["replay", str(path)]) == 2
    assert path.read_bytes() == before
    assert before_us(path) is None


def test_a_journal_of_a_newer_product_is_not_read_as_ours(path: Path, capsys: Captured) -> None:
    change(path, "PRAGMA user_version = 99")
    for reader in READERS:
        assert main([*reader, str(path)]) == 2
        assert "use the newer product" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["run#3.db", "run?3.db", "run%413.db"])
def test_a_journal_of_any_name_is_looked_at_itself(house: House, name: str) -> None:
    house.begin()
    path = (house.folder / "journal.db").rename(house.folder / name)
    assert damage_of(path) == ""
    path.write_bytes(path.read_bytes()[:5000])
    assert damage_of(path) != ""


def test_another_law_s_first_difference_is_named_by_its_fields(house: House, capsys: Captured) -> None:
    house.begin()
    assert main(["replay", str(house.folder / "journal.db"), "--policy", "static"]) == 0
    told = capsys.readouterr().out
    assert "The first tick that differs is d2 at " in told
    assert "  decision.reason: " in told


def test_without_a_stated_job_the_diagnosis_says_what_limits(path: Path, capsys: Captured) -> None:
    assert main(["explain", "d9", "--journal", str(path)]) == 0
    assert capsys.readouterr().out.partition("\nWhat limits\n")[2].partition("\n\n")[0].strip()
