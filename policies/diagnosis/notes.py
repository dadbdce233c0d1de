"""What the reader of the sources may notice: each note's code with its severity, its title and its meaning."""

from collections.abc import Mapping
from dataclasses import dataclass

from policies.base import Severity

INFO, WARNING = Severity.INFO, Severity.WARNING
"""A note never outranks what the job itself shows, so none is critical."""


@dataclass(frozen=True, slots=True)
class NoteSpec:
    severity: Severity
    title: str
    meaning: str


NOTES: Mapping[str, NoteSpec] = {
    "interleaved-writers": NoteSpec(WARNING, "Several writers share one file", "only the longest run is used"),
    "conflicting-sources": NoteSpec(INFO, "Conflicting sources", "a source that tells of another run is left out"),
    "step-restart": NoteSpec(
        INFO, "The run was restarted", "the step counter went back; redone steps replace lost ones"
    ),
    "impossible-value": NoteSpec(WARNING, "A value is impossible", "outside its signal's range (above); not used"),
    "truncated-record": NoteSpec(INFO, "A record is cut", "it starts or ends in the middle; what is whole is used"),
    "unnumbered-records": NoteSpec(INFO, "Unnumbered records", "records without a step could not be joined to steps"),
    "unplaced-records": NoteSpec(
        INFO, "Records that --since cannot place", "no step or no time in them, as was asked by; they are kept"
    ),
    "broken-lines": NoteSpec(INFO, "Broken lines", "lines that are no record of the file's kind are skipped"),
    "damaged-record": NoteSpec(INFO, "Damaged record", "a record of a binary file fails its check and is left out"),
    "large-record": NoteSpec(INFO, "Large record", "a record beyond the size of any scalar is passed over"),
    "line-cut": NoteSpec(INFO, "Line cut", "a line beyond the size limit is read up to it"),
    "format-failed": NoteSpec(
        INFO, "Format failed", "lines that look like a framework's break its format; please report"
    ),
    "nothing-recognised": NoteSpec(INFO, "Nothing recognised", "no line of a console log has a known form"),
    "not-a-number": NoteSpec(INFO, "Not a number", "cells of a number column that are no numbers are left out"),
    "odd-value": NoteSpec(INFO, "Odd value", "a cell that is no value of the fact it states is left out"),
    "ragged-rows": NoteSpec(INFO, "Ragged rows", "rows with more or fewer cells than the header"),
    "unknown-columns": NoteSpec(INFO, "Unknown columns", "columns under names that are no signals are not used"),
    "varying-setup": NoteSpec(INFO, "Varying setup", "a fact of the job differs from row to row, so it is none"),
    "too-many-series": NoteSpec(INFO, "Too many series", "only the first series of a scrape are kept"),
    "unfinished-run": NoteSpec(INFO, "Unfinished run", "no exit is recorded: killed, or still going"),
    "unknown-version": NoteSpec(INFO, "Unknown version", "a file format of another version is read as the known one"),
    "config-cut": NoteSpec(INFO, "Config cut", "a printed configuration does not end and is left out"),
    "config-odd": NoteSpec(INFO, "Config odd", "a printed configuration does not read as one and is left out"),
    "unreadable-configuration": NoteSpec(INFO, "Unreadable configuration", "no setting found; the file is left out"),
    "foreign-configuration": NoteSpec(
        INFO, "Configuration of another framework", "there is no data of that framework, so it is not used"
    ),
    "unresolved-variable": NoteSpec(
        INFO, "Unresolved variable", "a launch script's settings that hang on shell variables are left out"
    ),
    "empty-file": NoteSpec(INFO, "Empty file", "its writer wrote nothing yet"),
    "empty-folder": NoteSpec(INFO, "Empty folder", "it holds no file that may hold metrics"),
    "large-file": NoteSpec(INFO, "Large file", "beyond the size of any file of its kind; left out"),
    "skipped-file": NoteSpec(INFO, "Skipped file", "no source of metrics that is known"),
    "skipped-files": NoteSpec(
        INFO, "Skipped files", "files of a folder that hold no metrics, or older copies of others"
    ),
    "too-many-files": NoteSpec(INFO, "Too many files", "only the first files of a folder are read"),
    "feed-failed": NoteSpec(WARNING, "A live source failed", "nothing new of it is known: its signals age"),
    "partial-coverage": NoteSpec(WARNING, "Not all targets answer", "figures speak for those that do"),
    "silent-targets": NoteSpec(INFO, "Silent targets", "engines or servers that did not answer, and why"),
    "partial-answer": NoteSpec(WARNING, "A partial answer", "a Prometheus server answered some questions only"),
    "server-warning": NoteSpec(INFO, "The server warns", "what a Prometheus server says of its own answer"),
    "clock-skew": NoteSpec(INFO, "Clocks differ", "a server's clock is not ours; ages are by its clock"),
    "log-truncated": NoteSpec(INFO, "A log was truncated", "it is read anew from its start, as after a restart"),
    "sandbox-limit": NoteSpec(WARNING, "Sandboxes meet a limit", "a provider refuses or delays further starts"),
    "sandbox-undeleted": NoteSpec(WARNING, "Sandboxes stay", "ending one failed: it lives on, against the quota"),
    "sandbox-leak": NoteSpec(WARNING, "Sandboxes leak", "more live than rollouts are in flight, by a quarter"),
    "actuator-silent": NoteSpec(WARNING, "An actuator is silent", "what is in force is not known from it"),
    "no-observation": NoteSpec(INFO, "No observation", "the plant failed as it was observed; nothing is decided on it"),
    "unreadable": NoteSpec(INFO, "Unreadable", "a path cannot be opened, unpacked or listed"),
    "unreadable-file": NoteSpec(INFO, "Unreadable file", "a small file (summary, metadata) does not read; left out"),
    "unreadable-source": NoteSpec(INFO, "Unreadable source", "a source broke off with an error; the others are used"),
}
"""Codes are added to, never renamed."""


def note_spec(code: str) -> NoteSpec:
    """What is said of a note; of one that is not in the table, its code in words."""
    return NOTES.get(code) or NoteSpec(INFO, code.replace("-", " ").capitalize(), "")
