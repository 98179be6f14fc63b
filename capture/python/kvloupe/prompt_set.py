"""Sets of prompts: folders of text files, and JSON lines in the layouts of benchmarks (docs/studies.md, *Sets of prompts*)."""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import warnings
from pathlib import Path
from typing import Any

from .errors import KvloupeError, KvloupeWarning
from .prompt_file import read_prompt

_LABELS = {"_id", "dataset", "id", "index", "language", "max_new_tokens", "task", "length"}


@dataclasses.dataclass(frozen=True)
class PromptPlace:
    """Where one prompt is."""

    name: str  # notes.txt, niah.jsonl#12
    path: Path
    line: int = -1  # of a file of JSON lines, from 0; -1: the file is one text

    def identity(self) -> str:
        """SHA-256 of the file; empty if it cannot be read."""
        try:
            return hashlib.sha256(self.path.read_bytes()).hexdigest()
        except OSError:
            return ""

    def read(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Segments (name, text), and the right answers. Raises KvloupeError."""
        if self.line < 0:
            return read_prompt(self.path), []
        lines = _lines(self.path)
        if self.line >= len(lines):
            raise KvloupeError(f"{self.path}: has no line {self.line + 1} any more; start again")
        return _Line(self, lines[self.line]).parts()


def _lines(path: Path) -> list[str]:
    try:
        return path.read_bytes().decode("utf-8-sig").split("\n")
    except (OSError, UnicodeDecodeError) as error:
        raise KvloupeError(f"{path}: cannot be read ({error}); give a file of JSON lines in UTF-8") from error


def find_prompts(given: Any) -> list[PromptPlace]:
    """The prompts of files and folders, in the order of a study. Raises KvloupeError."""
    places = []
    for name in [given] if isinstance(given, (str, os.PathLike)) else given:
        path, name = Path(name), os.fspath(name)
        if path.is_dir():
            files = [file for file in path.iterdir() if file.suffix in (".txt", ".md") and file.is_file()
                     and not file.name.startswith(".")]
            if not files:
                raise KvloupeError(f"{path}: has no prompts; put text files (*.txt) into it")
            places += [PromptPlace(f"{name.removesuffix('/')}/{file.name}", file)
                       for file in sorted(files, key=lambda file: os.fsencode(file.name))]
        elif not path.is_file():
            raise KvloupeError(f"{path}: is not a file; give a prompt file, a folder or JSON lines")
        elif path.suffix == ".jsonl":
            lines = [PromptPlace(f"{name}#{at}", path, at) for at, line in enumerate(_lines(path)) if line.strip(" \t\r")]
            if not lines:
                raise KvloupeError(f"{path}: has no lines; write one JSON object per line")
            places += lines
        else:
            places.append(PromptPlace(name, path))
    return places


class _Line:
    def __init__(self, place: PromptPlace, line: str) -> None:
        self._place, self._read = place, set()
        try:
            self._fields = json.loads(line)
        except (ValueError, RecursionError):
            self._fields = None
        if not isinstance(self._fields, dict):
            self._fail("is not a JSON object; write one object per line")

    def _fail(self, why: str) -> None:
        raise KvloupeError(f"{self._place.path}: line {self._place.line + 1} {why}")

    def _has(self, field: str) -> bool:
        return self._fields.get(field) is not None

    def _text(self, field: str) -> str:
        self._read.add(field)
        value = self._fields.get(field)
        if value is not None and not isinstance(value, str):
            self._fail(f'has a "{field}" that is not a text')
        return value or ""

    def _texts(self, field: str) -> list[str]:
        self._read.add(field)
        value = self._fields.get(field)
        value = [] if value is None else [value] if isinstance(value, str) else value
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            self._fail(f'has "{field}" that are not a list of texts')
        return value

    def _answers(self) -> list[str]:
        return self._texts("answers" if self._has("answers") else "answer")

    def parts(self) -> tuple[list[tuple[str, str]], list[str]]:
        if self._has("context"):
            if self._has("input") and self._has("question"):
                self._fail('has both "input" and "question"; leave one out')
            context, prefix = self._text("context"), self._text("answer_prefix")
            question = self._text("question" if self._has("question") else "input")
            if prefix:
                question += ("\n" if question else "") + prefix
            parts = [("context", context + "\n\n" if question and context else context), ("question", question)]
            answers = self._answers()
        elif self._has("input") and self._has("outputs"):
            text = self._text("input")
            at = text.rfind("\n", 0, len(text.rstrip(" \t\r\n"))) + 1
            rest = text[at:] + self._text("answer_prefix")
            parts = [("context", text[:at]), ("question", rest)] if at else [("context", rest)]
            answers = self._texts("outputs")
        elif self._has("text") or self._has("prompt"):
            context, question = self._text("text" if self._has("text") else "prompt"), self._text("question")
            parts = [("context", context + "\n\n" if question and context else context), ("question", question)]
            answers = self._answers()
        else:
            self._fail("has no fields of a known layout: context and input or question (LongBench), input and outputs (RULER), "
                       "or text")
        parts = [part for part in parts if part[1]]
        if not parts:
            self._fail("has no text; a prompt needs some")
        needles = self._texts("needle")
        unread = sorted(name for name, value in self._fields.items()
                        if value is not None and name not in self._read and name not in _LABELS)
        if needles:
            parts, found = _with_needles(parts, needles)
            unread += [] if found else ["needle"]
        if unread:
            warnings.warn(f"{self._place.path.name}: the prompts and answers have nothing of the fields {', '.join(unread)}",
                          KvloupeWarning, stacklevel=2)
        return parts, answers


def _with_needles(parts: list[tuple[str, str]], needles: list[str]) -> tuple[list[tuple[str, str]], bool]:
    """The passages of the context that hold the answer as segments; whether there are any."""
    at = next((at for at, part in enumerate(parts) if part[0] == "context"), None)
    text = "" if at is None else parts[at][1]
    ranges = sorted((text.find(needle), text.find(needle) + len(needle)) for needle in needles if needle and needle in text)
    pieces, done = [], 0
    for begin, end in ranges:
        if begin < done:
            continue
        pieces += [("context", text[done:begin]), ("needle", text[begin:end])]
        done = end
    if not pieces:
        return parts, False
    pieces = [piece for piece in (*pieces, ("context", text[done:])) if piece[1]]
    return [*parts[:at], *pieces, *parts[at + 1:]], True
