"""Prompts with a hidden needle, and texts of filler, as kvloupe-capture eval and study generate them (docs/evaluation.md)."""
from __future__ import annotations

import bisect
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from .engine import ask
from .errors import KvloupeError
from .prompt import encoded, has_start_token, plain_tokens

_STEP, _ALL = 0x9E3779B97F4A7C15, (1 << 64) - 1


def needle_template(folder: Path | None) -> SimpleNamespace:
    """What needle prompts are made of (analysis/study/needle_template.h): needle.json of a model's folder, or without one the general
    template. Raises KvloupeError."""
    return SimpleNamespace(**ask("needle_template", None, folder))


def _splitmix(state: int) -> int:
    """splitmix64 (Steele, Lea, Flood 2014)."""
    state = (state + _STEP) & _ALL
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & _ALL
    return state ^ (state >> 31)


class Haystack:
    """Makes the prompts. A prompt follows from seed, length and sample; the depth only moves the needles."""

    def __init__(self, template: Any, tokenizer: Any) -> None:
        self._template, self._tokenizer = template, tokenizer
        self._counts: list[int] | None = None  # tokens of each sentence of the filler

    def _sentence(self, at: int) -> tuple[str, int]:
        """A sentence of the filler, which begins anew at its end, and its tokens."""
        if self._counts is None:
            self._counts = plain_tokens(self._tokenizer, self._template.filler)
        at %= len(self._template.filler)
        return self._template.filler[at], max(self._counts[at], 1)

    @staticmethod
    def _random(seed: int, length: int, sample: int, draw: int) -> int:
        for part in (length, sample, draw):
            seed = _splitmix((seed + part) & _ALL)
        return seed

    def needle(self, seed: int, length: int, depth: float, sample: int, needles: int) -> tuple[list[int], list[str], str]:
        """Ids, their segments, and the right number. Raises KvloupeError where the length has no room for the needles."""
        of = self._template
        if needles > len(of.words):
            raise KvloupeError(f"{needles} needles: the template has only {len(of.words)} words")
        first = self._random(seed, length, sample, 1)
        room, hidden, question, answer = length - has_start_token(self._tokenizer), [], "", ""
        for at in range(needles):
            word = of.words[((first + at) & _ALL) % len(of.words)]
            number = str(of.lowest + self._random(seed, length, sample, 100 + at) % (of.highest - of.lowest + 1))
            hidden.append(of.needle.replace("{word}", word).replace("{number}", number))
            if at == 0:
                question, answer = of.question.replace("{word}", word), number
        room -= sum(plain_tokens(self._tokenizer, [*hidden, question]))
        start = self._random(seed, length, sample, 0) % len(of.filler)
        ends: list[int] = []  # tokens of the filler up to and with each sentence
        while (total := (ends[-1] if ends else 0) + self._sentence(start + len(ends))[1]) <= room:
            ends.append(total)
        if not ends:
            raise KvloupeError(f"length {length}: no room for {needles} needles, a question and filler; ask for more tokens")

        def place_of(wanted: float) -> int:
            before = wanted / 100.0 * ends[-1]
            return bisect.bisect_left(ends, before) + (before > 0.0)
        places = sorted((place_of(depth if at == 0 else (depth + 100.0 * at / needles) % 100.0), at) for at in range(needles))
        parts: list[tuple[str, str]] = []
        for at in range(len(ends) + 1):
            parts += [("needle" if which == 0 else "distractor", hidden[which]) for place, which in places if place == at]
            if at < len(ends):
                parts.append(("context", self._sentence(start + at)[0]))
        joined = [(name, "".join(text for _, text in group)) for name, group in itertools.groupby(parts, lambda part: part[0])]
        ids, segments = encoded(self._tokenizer, [*joined, ("question", question)])
        return ids, segments, answer

    def text(self, seed: int, length: int, sample: int) -> tuple[list[int], list[str]]:
        """Filler alone, `length` tokens with the start token."""
        start, total, text, at = self._random(seed, length, sample, 0) % len(self._template.filler), 0, "", 0
        while total < length + 8:
            sentence, tokens = self._sentence(start + at)
            text, total, at = text + sentence, total + tokens, at + 1
        ids, segments = encoded(self._tokenizer, [("context", text)])
        return ids[:length], segments[:length]
