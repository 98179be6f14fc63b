"""Loops in what a model writes: the rule of `kvloupe info` and of the studies' measures."""
from __future__ import annotations

from typing import Sequence

from .engine import ask


def first_loop(ids: Sequence[int]) -> int | None:
    """The place at which the first loop begins; None without one. A loop is a span of at most 1024 tokens that stands at least
    three times in a row and takes 16 tokens or more in all."""
    return ask("first_loop", list(ids))
