"""Sets of prompts: folders of text files, and JSON lines in the layouts of benchmarks (docs/studies.md, *Sets of prompts*)."""
from __future__ import annotations

import codecs
import dataclasses
import hashlib
import json
import os
import re
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
    identity: str  # SHA-256 of the file; empty if it cannot be read
    line: int = -1  # of a file of JSON lines, from 0; -1: the file is one text
    bytes: tuple[int, int] = (0, 0)  # first and one past the last of the line
    changed: int = 0  # when the file was, in ns
    content: str = ""  # of a prompt that was given as a text or dictionary: its line

    def read(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Segments (name, text), and the right answers. Raises KvloupeError."""
        if self.content:
            return _Line(self, self.content).parts()
        if self.line < 0:
            return read_prompt(self.path), []
        try:
            with self.path.open("rb") as file:
                file.seek(self.bytes[0])
                line = file.read(self.bytes[1] - self.bytes[0])
            changed = self.path.stat().st_mtime_ns
        except OSError as error:
            raise KvloupeError(f"{self.path}: cannot be read any more ({error})") from error
        if changed != self.changed:
            raise KvloupeError(f"{self.path}: has changed since the runs began; start again")
        return _Line(self, line.decode()).parts()


def _lines(path: Path, name: str) -> list[PromptPlace]:
    """The prompts of a file of JSON lines, which is read once."""
    try:
        changed, data = path.stat().st_mtime_ns, path.read_bytes()
        data.decode()
    except (OSError, UnicodeDecodeError) as error:
        raise KvloupeError(f"{path}: cannot be read ({error}); give a file of JSON lines in UTF-8") from error
    places, begin = [], len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0
    identity = hashlib.sha256(data).hexdigest()
    for at, line in enumerate(data[begin:].split(b"\n")):
        if line.strip(b" \t\r"):
            places.append(PromptPlace(f"{name}#{at}", path, identity, at, (begin, begin + len(line)), changed))
        begin += len(line) + 1
    return places


def _text(name: str, path: Path) -> PromptPlace:
    try:
        return PromptPlace(name, path, hashlib.sha256(path.read_bytes()).hexdigest())
    except OSError:
        return PromptPlace(name, path, "")


def _is_text(name: str) -> bool:
    """Whether it is a prompt itself: words that are not the path of a file."""
    return "\n" in name or bool(re.search(r"\s", name.strip())) and not os.path.exists(name) and not name.endswith((".txt", ".md", ".jsonl"))


def _given(at: int, fields: Any) -> PromptPlace:
    """A prompt that is a text, or a dictionary with the fields of a line of JSON."""
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    fields = {"text": fields} if isinstance(fields, str) else {name: value for name, value in fields.items() if not (isinstance(value, float) and value != value)}
    line = json.dumps(fields, ensure_ascii=False, default=plain)
    return PromptPlace(f"prompts#{at}", Path("prompts"), hashlib.sha256(line.encode()).hexdigest(), at, content=line)


def find_prompts(given: Any) -> list[PromptPlace]:
    """The prompts of files and folders, in the order of a study, and those that are texts, dictionaries with the fields of a line of
    JSON, or rows of a DataFrame. Raises KvloupeError."""
    places: list[PromptPlace] = []
    if hasattr(given, "to_dict"):
        given = given.to_dict("records")
    for at, name in enumerate([given] if isinstance(given, (str, dict, os.PathLike)) else given):
        if isinstance(name, dict) or isinstance(name, str) and _is_text(name):
            places.append(_given(at, name))
            continue
        if not isinstance(name, (str, os.PathLike)):
            raise KvloupeError(f"prompts: {repr(name)[:60]} is not a file, a text or a dictionary")
        path, name = Path(name), os.fspath(name)
        if path.is_dir():
            files = [file for file in path.iterdir() if file.suffix in (".txt", ".md") and file.is_file()
                     and not file.name.startswith(".")]
            if not files:
                raise KvloupeError(f"{path}: has no prompts; put text files (*.txt) into it")
            places += [_text(f"{name.removesuffix('/')}/{file.name}", file)
                       for file in sorted(files, key=lambda file: os.fsencode(file.name))]
        elif not path.is_file():
            raise KvloupeError(f"{path}: is not a file; give a prompt file, a folder or JSON lines")
        elif path.suffix == ".jsonl":
            lines = _lines(path, name)
            if not lines:
                raise KvloupeError(f"{path}: has no lines; write one JSON object per line")
            places += lines
        else:
            places.append(_text(name, path))
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
