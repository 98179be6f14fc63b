"""Prompt files, texts with lines that start segments, and sets of them: folders of text files, and JSON lines in the layouts of
benchmarks (docs/studies.md, *Sets of prompts*); read as kvloupe-capture reads them."""
from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import warnings
from pathlib import Path
from typing import Any

from .engine import ask
from .errors import KvloupeError, KvloupeWarning


def read_text(path: str | os.PathLike[str]) -> str:
    """A file in UTF-8, or in UTF-16 with its byte order mark, without the mark; line ends as they are.

    Raises KvloupeError: missing, unreadable, in another encoding.
    """
    return ask("read_text", None, path)


def read_prompt(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The segments of a prompt file as (name, text), as kvloupe-capture reads them.

    A line @@name (small letters, digits, - and _) starts a segment and is not text; a backslash before it keeps it as
    text. Names without a meaning here, and lines that only their capitals keep from being markers, are told in a
    KvloupeWarning. Raises KvloupeError as read_text() does.
    """
    return parts_of(path, "read_prompt", [-1, 0])[0]


def parts_of(path: str | os.PathLike[str], function: str, given: Any) -> tuple[list[tuple[str, str]], list[str]]:
    """Segments (name, text) and right answers, from a function of the engine; what it notes are warnings."""
    found = ask(function, given, path)
    unread = [f"the prompts and answers have nothing of the fields {', '.join(found['unread'])}"] if found["unread"] else []
    for note in found.get("notes", unread):
        warnings.warn(f"{Path(path).name}: {note}", KvloupeWarning, stacklevel=3)
    return [(name, text) for name, text in found["segments"]], found["answers"]


@dataclasses.dataclass(frozen=True)
class PromptPlace:
    """Where one prompt is."""

    name: str  # notes.txt, niah.jsonl#12
    path: Path
    identity: str  # SHA-256 of the file; empty if it cannot be read
    line: int = -1  # of a file of JSON lines, from 0; -1: the file is one text
    at: int = 0  # bytes of the file before the line
    changed: int = 0  # when the file of the line was, in ns
    content: str = ""  # of a prompt that was given as a text or dictionary: its line

    def read(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Segments (name, text), and the right answers. Raises KvloupeError."""
        if self.content:
            return parts_of(self.path, "parse_prompt", [self.line, self.content])
        if self.line >= 0 and _changed(self.path) != self.changed:
            raise KvloupeError(f"{self.path}: has changed since the runs began; start again")
        return parts_of(self.path, "read_prompt", [self.line, self.at])


def _changed(path: str | os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _is_text(name: str) -> bool:
    """Whether it is a prompt itself: words that are not the path of a file."""
    return "\n" in name or bool(re.search(r"\s", name.strip())) and not os.path.exists(name) and not name.endswith((".txt", ".md", ".jsonl"))


def _given(at: int, fields: Any) -> PromptPlace:
    """A prompt that is a text, or a dictionary with the fields of a line of JSON."""
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    fields = {"text": fields} if isinstance(fields, str) else {name: value for name, value in fields.items() if not (isinstance(value, float) and value != value)}
    line = json.dumps(fields, ensure_ascii=False, default=plain)
    content = json.dumps(json.loads(line, parse_constant=lambda _: 0))  # NaN and Infinity are not JSON, which the engine reads
    return PromptPlace(f"prompts#{at}", Path("prompts"), hashlib.sha256(line.encode()).hexdigest(), at, content=content)


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
        changed = _changed(name)
        places += [PromptPlace(one["name"], Path(one["path"]), one["identity"], one["line"], one["at"], changed)
                   for one in ask("find_prompts", os.fsencode(name).decode(errors="replace"), name)]
    return places
