"""Prompt files: texts with lines that start segments, read as kvloupe-capture reads them."""
from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import Any

from .engine import ask
from .errors import KvloupeWarning


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
