"""What can go wrong, as a user meets it. Each message carries the offending value, where it was and the remedy."""


class TunerError(Exception):
    """Base of all errors that a command turns into one sentence and an exit code."""

    exit_code = 2


class ConfigError(TunerError):
    """Bad usage, or a bad job file: exit 2."""

    exit_code = 2


class SourceError(TunerError):
    """Nothing could be read from the sources: exit 3."""

    exit_code = 3


class ActuationError(TunerError):
    """The plant or an actuator refused: exit 4."""

    exit_code = 4


class LedgerError(TunerError):
    """The journal cannot be written now: the loop holds, and tries again at its next tick."""

    exit_code = 2


class DamageError(ConfigError):
    """A journal that does not hold what was written into it."""

    def __init__(self, place: object, what: str) -> None:
        super().__init__(f"{place}: the journal is damaged: {what}; put a backup in its place")
        self.what = what


class ContractError(TunerError):
    """A bug of ours: stop."""

    exit_code = 70
