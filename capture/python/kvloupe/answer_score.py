"""How an answer is judged: as kvloupe-capture eval and study judge it."""
from __future__ import annotations

from typing import Sequence

from .engine import ask


def first_number(text: str) -> str:
    """The digits of the first number; empty without one."""
    return ask("first_number", text)


def has_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in the text, in capital or small letters: RULER's string_match_part (Hsieh et al.
    2024)."""
    return ask("has_answer", [text, list(answers)])


def answer_f1(text: str, answers: Sequence[str]) -> float:
    """The largest F1 of the words of the text and those of an answer: LongBench's qa_f1_score (Bai et al. 2024)."""
    return ask("answer_f1", [text, list(answers)])
