"""How a daemon begins: mode, token, horizon, journal; what is refused, and in which words."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from policies.commands import Command, CommandKind, ControlMode
from policies.rules import Foreign
from policies.state import State
from simulators.clock import VirtualClock
from tests.plants import TOPOLOGY, FluidPlant
from tests.unit.control.conftest import CAPABILITIES
from tuner.charter import decoded, rules_of
from tuner.config import load
from tuner.errors import ConfigError, LedgerError
from tuner.journal import Journal, viewed
from tuner.lease import remote_kind, taken
from tuner.loop import Parts, run
from tuner.soundness import soundly_opened
from tuner.wiring import Setup, World, refuse_auto_on_remote, setup_of, started

MOUNTS = """\
overlay / overlay rw 0 0
proc /proc proc rw 0 0
server:/homes /homes nfs4 rw 0 0
/dev/sda1 /homes/ann/local\\040disk ext4 rw 0 0
lustre@tcp:/fs /scratch lustre rw 0 0
"""


class Clock(VirtualClock):
    def wake(self) -> None:
        return None


@dataclass
class House:
    """One job's folder; each call of `begin` is one start of its daemon."""

    folder: Path
    clock: Clock = field(default_factory=lambda: Clock(1000.0))

    def setup(self, text: str = "", mode: ControlMode | None = None) -> Setup:
        job = self.folder / "job.toml"
        job.write_text(f'{text}\n[journal]\npath = "{self.folder}/journal.db"\n')
        return setup_of(load(job), mode)

    def begin(self, text: str = "", mode: ControlMode | None = None, run_s: float = 300.0) -> State:
        setup = self.setup(text, mode)
        world = World(FluidPlant(now_s=self.clock.now_s()), TOPOLOGY, CAPABILITIES, self.clock)
        start = started(setup, world, "")
        with closing(start.journal):
            parts = Parts(world.plant, rules_of(start.charter), self.clock, start.journal, start.inbox, 60.0)
            return run(parts, start.state, self.clock.now_s() + run_s)


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path)


def test_a_new_job_is_advised_unless_its_file_says_otherwise(house: House) -> None:
    assert house.begin().mode is ControlMode.ADVISE


def test_the_file_s_mode_holds_and_the_command_line_wins_over_it(tmp_path: Path) -> None:
    assert House(tmp_path).begin('[policy]\nmode = "observe"').mode is ControlMode.OBSERVE
    (tmp_path / "b").mkdir()
    assert House(tmp_path / "b").begin('[policy]\nmode = "observe"', ControlMode.AUTO).mode is ControlMode.AUTO


def test_what_a_person_set_meanwhile_outlives_a_restart_until_the_file_changes(house: House) -> None:
    auto = '[policy]\nmode = "auto"\nearn_auto = false'
    house.begin(auto)
    with closing(Journal(house.folder / "journal.db")) as journal:
        parts = Parts(
            FluidPlant(now_s=1500.0), rules_of(decoded(journal.charter() or "")), house.clock, journal, Said()
        )
        run(parts, journal.last() or State(), house.clock.now_s() + 60.0)
    assert house.begin(auto).mode is ControlMode.OBSERVE
    assert house.begin('[policy]\nmode = "approve"').mode is ControlMode.APPROVE


class Said:
    """A person sets the mode once."""

    def drain(self) -> tuple[Command, ...]:
        return (Command(CommandKind.MODE, mode=ControlMode.OBSERVE),)

    def put_back(self, commands: tuple[Command, ...]) -> None:
        raise AssertionError("this journal can be written")


def test_every_start_has_a_larger_token_and_says_who_writes(house: House) -> None:
    tokens = []
    for _ in range(3):
        start = started(house.setup(), World(FluidPlant(), TOPOLOGY, CAPABILITIES, house.clock), "http://here")
        start.journal.close()
        tokens.append(start.token)
    assert tokens == sorted(set(tokens))
    with closing(viewed(house.folder / "journal.db")) as journal:
        assert journal.writer()["url"] == "http://here"


def test_the_job_s_horizon_runs_from_its_first_start(house: House) -> None:
    house.begin("[job]\nhorizon_s = 5000")
    house.begin("[job]\nhorizon_s = 5000")
    with closing(viewed(house.folder / "journal.db")) as journal:
        assert decoded(journal.charter() or "").ends_s == 6000.0


def test_all_that_a_file_says_of_deciding_reaches_the_rules(house: House) -> None:
    house.begin(
        '[policy]\nforeign = "pause"\napproval_s = 60\nfreeze_s = 70\ndrift_s = 80\nearn_auto = false\n'
        "[guardrails]\ndeadband_frac = 0.1\n[gate]\nprobability_min = 0.8\n"
        "[objective]\nstaleness_discount_frac = 0.05\n"
        "[bounds]\ngpus_trainer_min = 32\n[cost]\nusd_per_gpu_hour = 2.0"
    )
    with closing(viewed(house.folder / "journal.db")) as journal:
        charter = decoded(journal.charter() or "")
    rules = rules_of(charter)
    assert (rules.foreign, rules.approval_s, rules.freeze_s, rules.horizon_s) == (Foreign.PAUSE, 60.0, 70.0, 80.0)
    assert (rules.earn_auto, rules.limits.deadband_frac, charter.gate.probability_min) == (False, 0.1, 0.8)
    assert (rules.objective.staleness_discount_frac, rules.objective.usd_per_gpu_hour) == (0.05, 2.0)
    assert rules.bounds.gpus_trainer_min == 32


def test_a_law_that_looks_ahead_needs_a_model_and_gets_a_gate_with_it(house: House) -> None:
    with pytest.raises(ConfigError, match=r"\[policy\] model is missing"):
        house.begin('[policy]\nname = "predictive"')
    house.begin('[policy]\nmodel = "glm-5-tool-use"')
    with closing(viewed(house.folder / "journal.db")) as journal:
        rules = rules_of(decoded(journal.charter() or ""))
    assert rules.gate is not None
    assert rules.modeller is not None


def test_an_unknown_law_is_refused_with_those_there_are(house: House) -> None:
    with pytest.raises(ConfigError, match="rate_balance"):
        house.begin('[policy]\nname = "magic"')


def test_a_law_s_whole_numbers_are_whole(house: House) -> None:
    """A job file's parameters are one type of number; GPUs and rollouts are counts."""
    state = house.begin('[policy]\nname = "static"\nparameters = {gpus_trainer = 72.0, gain_frac = 0.3}')
    assert state.tick > 0
    with closing(viewed(house.folder / "journal.db")) as journal:
        rules = rules_of(decoded(journal.charter() or ""))
        wishes = [e.decision.proposed for e in journal.entries() if e.decision.proposed is not None]
    assert "gpus_trainer=72," in repr(rules.policy)
    assert {type(wish.gpus_trainer) for wish in wishes} <= {int}
    with pytest.raises(ConfigError, match=r"policy static: max_in_flight=0.5 must be a whole number"):
        house.begin('[policy]\nname = "static"\nparameters = {max_in_flight = 0.5}')


def test_two_daemons_on_one_journal_are_one_too_many(tmp_path: Path) -> None:
    with closing(taken(tmp_path / "journal.db")), pytest.raises(ConfigError, match="one job has one writer"):
        taken(tmp_path / "journal.db")
    taken(tmp_path / "journal.db").close()


def test_a_link_to_a_journal_is_that_journal(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "link.db").symlink_to(tmp_path / "journal.db")
    with closing(taken(tmp_path / "journal.db")), pytest.raises(ConfigError, match="one job has one writer"):
        taken(tmp_path / "elsewhere" / "link.db")


def test_where_the_lock_was_removed_only_the_newest_daemon_writes(house: House) -> None:
    house.begin()
    with (
        closing(Journal(house.folder / "journal.db")) as first,
        closing(Journal(house.folder / "journal.db")) as second,
    ):
        entry = next(first.entries())
        first.begin(1.0, {})
        first.commit(entry)
        second.begin(2.0, {})
        with pytest.raises(LedgerError, match=r"a newer daemon, token 3, .* ours is 2\); stop one"):
            first.commit(entry)
        second.commit(entry)
        assert second.size() == 7


@pytest.mark.parametrize("replaced", [False, True])
def test_a_journal_that_is_no_longer_at_its_path_is_not_written(house: House, replaced: bool) -> None:
    """A restart would find another file, or none, and not what was done meanwhile."""
    house.begin()
    path, aside = house.folder / "journal.db", house.folder / "aside.db"
    with closing(Journal(path)) as journal:
        entry = next(journal.entries())
        path.rename(aside)
        if replaced:
            path.write_bytes(aside.read_bytes())
        with pytest.raises(LedgerError, match="moved, removed or replaced"):
            journal.commit(entry)
        aside.rename(path)
        journal.commit(entry)


def test_a_journal_of_another_job_is_refused_and_left_as_it_is(house: House) -> None:
    house.begin('[job]\nname = "one"')
    with pytest.raises(
        ConfigError, match=r"job.name='two': .*journal.db is the journal of the job 'one'; name another"
    ):
        house.begin('[job]\nname = "two"')
    house.begin()
    house.begin('[job]\nname = "one"')


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/var/lib/journal.db", None),
        ("/homes/ann/journal.db", "nfs4"),
        ("/homes/ann/local disk/journal.db", None),
        ("/scratch/run/journal.db", "lustre"),
        ("/scratchy/journal.db", None),
    ],
)
def test_the_longest_mount_point_tells_whether_a_path_is_remote(path: str, kind: str | None) -> None:
    assert remote_kind(Path(path), MOUNTS) == kind


def test_auto_is_refused_where_locks_do_not_hold_and_other_modes_are_not() -> None:
    with pytest.raises(ConfigError, match=r"lustre.*auto is refused"):
        refuse_auto_on_remote(Path("/scratch/journal.db"), ControlMode.AUTO, MOUNTS)
    refuse_auto_on_remote(Path("/scratch/journal.db"), ControlMode.APPROVE, MOUNTS)
    refuse_auto_on_remote(Path("/var/journal.db"), ControlMode.AUTO, MOUNTS)


@pytest.fixture
def damaged(house: House) -> Iterator[Path]:
    house.begin(run_s=2000.0)
    path = house.folder / "journal.db"
    content = bytearray(path.read_bytes())
    content[4096 * 3 : 4096 * 6] = b"\xa5" * (4096 * 3)
    path.write_bytes(content)
    return path


def test_a_damaged_journal_is_refused_kept_and_copied_once(damaged: Path) -> None:
    before = damaged.read_bytes()
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"damaged \(.*a copy is kept at"):
            soundly_opened(damaged)
    copies = list(damaged.parent.glob("journal.db.damaged-*"))
    assert [copy.read_bytes() for copy in copies] == [before]
    assert damaged.read_bytes() == before


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text("dear diary " * 1000)
    with pytest.raises(ConfigError, match="not a database"):
        soundly_opened(tmp_path / "journal.db")


@pytest.mark.slow
def test_a_journal_that_another_program_holds_is_refused_as_locked(house: House) -> None:
    house.begin()
    other = sqlite3.connect(house.folder / "journal.db")
    other.execute("PRAGMA locking_mode = EXCLUSIVE")
    other.execute("BEGIN EXCLUSIVE")
    try:
        with pytest.raises(ConfigError, match="locked"):
            soundly_opened(house.folder / "journal.db")
    finally:
        other.close()
