"""Ctrl-C while a trace is written waits until the writer asks for it.

KeyboardInterrupt does harm there: HDF5 does not pass it on when it comes inside the file object that HDF5 writes to;
h5py's clean-up swallows it; and between the making of a file and the note of its name it leaves the file behind.
"""
from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any


class Interrupts:
    """Between take() and give_back(), Ctrl-C within the functions of `modules` waits for deliver(); elsewhere it acts
    at once, as it did before."""

    def __init__(self, *modules: str) -> None:
        self._modules = modules
        self._before: Any = None  # what Ctrl-C calls outside; None: not taken
        self._waits = False

    def take(self) -> None:
        if threading.current_thread() is not threading.main_thread():
            return  # no other gets Ctrl-C
        before = signal.getsignal(signal.SIGINT)
        if callable(before):
            self._before = before
            signal.signal(signal.SIGINT, self._on_interrupt)

    def deliver(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C came, or does what the program has set for this."""
        if self._waits:
            self._waits = False
            self._before(signal.SIGINT, None)

    def give_back(self) -> None:
        """Ends the waiting, and delivers."""
        if self._before is not None:
            if signal.getsignal(signal.SIGINT) == self._on_interrupt:  # else somebody else has it now
                signal.signal(signal.SIGINT, self._before)
            self.deliver()

    def _on_interrupt(self, number: int, frame: FrameType | None) -> None:
        at = frame
        while at is not None:
            if at.f_globals.get("__name__") in self._modules:
                self._waits = True
                return
            at = at.f_back
        self._before(number, frame)
