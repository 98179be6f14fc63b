"""Prompt files: texts with lines that start segments, read as kvloupe-capture reads them."""
from __future__ import annotations

import os
import re
import warnings
from pathlib import Path

from .errors import KvloupeError, KvloupeWarning
from .writer import SEGMENTS

_MARKER = re.compile(r"(\\*)@@([A-Za-z0-9_-]+)[ \t\r]*\n?")
_SEGMENT = re.compile(r"[a-z][a-z0-9_-]*")


def read_text(path: str | os.PathLike[str]) -> str:
    """A file in UTF-8, or in UTF-16 with its byte order mark, without the mark; line ends as they are.

    Raises KvloupeError: missing, unreadable, in another encoding.
    """
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise KvloupeError(f"{path}: cannot be read ({error.strerror}); check the path and its permissions") from error
    try:
        if data[:2] in (b"\xff\xfe", b"\xfe\xff"):
            text = data.decode("utf-16")
        else:
            text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise KvloupeError(f"{path}: line {line} has the byte \\x{data[error.start]:02X}, so the file is not text in "
                           "UTF-8; save it as UTF-8") from error
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise KvloupeError(f"{path}: line {line} has the byte \\x00, so the file is not text in UTF-8; save it as UTF-8")
    return text


def read_prompt(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The segments of a prompt file as (name, text), as kvloupe-capture reads them.

    A line @@name (small letters, digits, - and _) starts a segment and is not text; a backslash before it keeps it as
    text. Names without a meaning here, and lines that only their capitals keep from being markers, are told in a
    KvloupeWarning. Raises KvloupeError as read_text() does.
    """
    text = read_text(path).removesuffix("\n").removesuffix("\r")
    name = Path(path).name
    parts: list[tuple[str, str]] = [("context", "")]
    for at, line in enumerate(re.findall(r"[^\n]*\n|[^\n]+", text)):
        mark = _MARKER.fullmatch(line)
        if mark and not mark[1] and _SEGMENT.fullmatch(mark[2]):
            if mark[2] not in SEGMENTS:
                warnings.warn(f"{name}: line {at + 1}, @@{mark[2]}, starts a segment of that name and is not text; "
                              f"write \\@@{mark[2]} if the model should read it", KvloupeWarning, stacklevel=2)
            parts.append((mark[2], ""))
            continue
        if mark and not mark[1]:
            warnings.warn(f"{name}: line {at + 1}, @@{mark[2]}, is text: names of segments have small letters",
                          KvloupeWarning, stacklevel=2)
        parts[-1] = (parts[-1][0], parts[-1][1] + (line[1:] if mark and mark[1] else line))
    return [part for part in parts if part[1]]
