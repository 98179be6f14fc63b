"""How an answer is judged: as kvloupe-capture eval and study judge it."""
from __future__ import annotations

import re
import string
from collections import Counter
from typing import Sequence

_NO_MARKS = str.maketrans("", "", string.punctuation)


def first_number(text: str) -> str:
    """The digits of the first number; empty without one."""
    found = re.search("[0-9]+", text)
    return found[0] if found else ""


def has_answer(text: str, answers: Sequence[str]) -> bool:
    """Whether one of the answers stands in the text, in capital or small letters: RULER's string_match_part (Hsieh et al.
    2024)."""
    said = _small(text)
    return any(answer and _small(answer) in said for answer in answers)


def answer_f1(text: str, answers: Sequence[str]) -> float:
    """The largest F1 of the words of the text and those of an answer: LongBench's qa_f1_score (Bai et al. 2024)."""
    said, best = _words(text), 0.0
    for answer in answers:
        wanted = _words(answer)
        common = sum((said & wanted).values())
        if common:
            best = max(best, 2.0 * common / (sum(said.values()) + sum(wanted.values())))
    return best


def _small(text: str) -> str:
    return text.lower().replace("ς", "σ")  # lower() writes Σ as ς at a word's end


def _words(text: str) -> Counter[str]:
    words = re.split("[ \t-\r]+", _small(text).translate(_NO_MARKS))
    return Counter(word for word in words if word not in ("", "a", "an", "the"))
