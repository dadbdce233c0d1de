"""Progress: on a terminal only, not for short work, gone before the answer."""

from io import StringIO

from tuner.report.progress import Progress, sentence


class Terminal(StringIO):
    def isatty(self) -> bool:
        return True


def played(stream: StringIO, seconds: list[float]) -> str:
    times = iter([0.0, *seconds])
    progress = Progress(stream, lambda: next(times))
    for done in range(1, len(seconds) + 1):
        progress(done * 1_000_000, 10_000_000)
    progress.clear()
    return stream.getvalue()


def test_long_work_shows_bytes_and_the_time_left_and_cleans_up() -> None:
    shown = played(Terminal(), [0.5, 1.5, 3.0])
    assert "reading: 2 of 10 MB, about 6 s left" in shown
    assert shown.endswith("\r\x1b[K")


def test_short_work_shows_nothing() -> None:
    assert played(Terminal(), [0.1, 0.2, 0.9]) == ""


def test_nothing_is_shown_in_a_pipe() -> None:
    assert played(StringIO(), [1.5, 3.0]) == ""


def test_without_a_known_size_only_what_was_read_is_shown() -> None:
    assert sentence(12_000_000, None, 2.0) == "reading: 12 MB"
