"""Progress: tqdm's bar where it is installed, in notebooks too, else one line on the terminal."""
import sys
import time
import warnings
from typing import Any, Callable

Report = Callable[[str, int, int], None]


class _Bar:
    """tqdm's bar for each stage; it is gone at the end."""

    def __init__(self, kind: Any) -> None:
        self._kind, self._now = kind, None
        self._bar: Any = None

    def __call__(self, stage: str, done: int, total: int) -> None:
        if self._now != (stage, total):
            self.clear()
            self._now, self._bar = (stage, total), self._kind(total=total, desc=stage, leave=False)
        self._bar.update(done - self._bar.n)

    def clear(self) -> None:
        if self._bar is not None:
            self._bar.close()


class _Line:
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


def in_notebook() -> bool:
    """Whether a cell of Jupyter or Colab runs this."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return hasattr(shell, "kernel")


def reporter(progress: Any) -> tuple[Report, Callable[[], None]]:
    """Returns a function to call with (stage, done, total), and one to call at the end.

    `progress`: True: a bar in a notebook, or on stderr if that is a terminal; False: nothing; a function: that function.
    """
    if callable(progress):
        return progress, lambda: None
    if not progress or sys.stderr is None or not (in_notebook() or sys.stderr.isatty()):
        return lambda stage, done, total: None, lambda: None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a notebook without ipywidgets, where tqdm writes a line
            from tqdm.auto import tqdm
        bar: Any = _Bar(tqdm)
    except ImportError:
        bar = _Line()
    return bar, bar.clear
