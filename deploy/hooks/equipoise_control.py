"""Reads Equipoise's control file inside a training process, and says what is in force. Standard library only.

    control = ControlFile("/shared/equipoise.json")
    wanted = control.changed()                    # None: nothing new
    if wanted is not None:
        control.acknowledge(in_force={"max_in_flight": 512}, refused={}, step=17)

It never raises: a training step does not fail because a controller misbehaves.
"""

import json
import os
import stat
import sys

SCHEMA = 1
BYTES_MAX = 1 << 16


class ControlFile:
    """One control file. A new one withdraws an older process's acknowledgement: its settings died with it."""

    def __init__(self, path):
        self.path = os.fspath(path)
        self._answer_path = self.path + ".ack"
        self._sequence = 0
        self._in_force = {}
        self._write({"schema": SCHEMA, "sequence": 0, "step": None, "setpoints": {}, "refused": {}})

    @property
    def base(self):
        """GPUs of both sides when the job began, as the order states them."""
        return self._read().get("base") or {}

    def changed(self):
        """The ordered setpoints, if there is an order that was not acknowledged yet; else None."""
        order = self._read()
        if order.get("schema") != SCHEMA or not isinstance(order.get("setpoints"), dict):
            return None
        sequence = order.get("sequence")
        if not isinstance(sequence, int) or sequence == self._sequence:
            return None
        self._sequence = sequence
        return {name: value for name, value in order["setpoints"].items() if _plain(value)}

    def acknowledge(self, in_force, refused=None, step=None):
        """Says what is in force now, and why the rest of the last order is not."""
        self._in_force.update(in_force)
        document = {
            "schema": SCHEMA,
            "sequence": self._sequence,
            "step": step,
            "setpoints": self._in_force,
            "refused": refused or {},
        }
        self._write(document)

    def _read(self):
        try:
            handle = os.open(self.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except FileNotFoundError:
            return {}
        except OSError as error:
            _complain(f"{self.path} cannot be read: {error}")
            return {}
        try:
            with os.fdopen(handle, "rb") as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return {}
                document = json.loads(file.read(BYTES_MAX))
        except (OSError, ValueError, RecursionError) as error:
            _complain(f"{self.path} cannot be understood: {error}")
            return {}
        return document if isinstance(document, dict) else {}

    def _write(self, document):
        """Whole or not at all, so that nobody reads half an answer."""
        beside = f"{self._answer_path}.{os.getpid()}.new"
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
        try:
            with os.fdopen(os.open(beside, flags, 0o644), "w") as file:
                json.dump(document, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(beside, self._answer_path)
        except OSError as error:
            _complain(f"{self._answer_path} cannot be written: {error}")


def _plain(value):
    return isinstance(value, bool) or (isinstance(value, int | float) and 0 <= value < 2**53)


def _complain(text):
    print("equipoise: " + text, file=sys.stderr, flush=True)
