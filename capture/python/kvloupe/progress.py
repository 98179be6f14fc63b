"""One line of progress on the terminal."""
from __future__ import annotations

import sys
import time
from typing import Any, Callable

Report = Callable[[str, int, int], None]


class _Bar:
    """Rewrites one line of stderr a few times a second, and clears it at the end."""

    def __init__(self) -> None:
        self._next = 0.0
        self._start = time.monotonic()

    def __call__(self, stage: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < self._next and done < total:
            return
        self._next = now + 0.2
        full = 24 * done // max(total, 1)
        text = f"{stage} [{'#' * full}{'.' * (24 - full)}] {done}/{total}, {now - self._start:.0f} s"
        sys.stderr.write("\r" + text.ljust(78)[:78])
        sys.stderr.flush()

    def clear(self) -> None:
        sys.stderr.write("\r" + " " * 78 + "\r")
        sys.stderr.flush()


def reporter(progress: Any) -> tuple[Report, Callable[[], None]]:
    """Returns a function to call with (stage, done, total), and one to call at the end.

    `progress`: True: a line on stderr if that is a terminal; False: nothing; a function: that function.
    """
    if callable(progress):
        return progress, lambda: None
    if progress and sys.stderr is not None and sys.stderr.isatty():
        bar = _Bar()
        return bar, bar.clear
    return lambda stage, done, total: None, lambda: None
