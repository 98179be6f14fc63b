"""Files that are there whole, or not at all."""
from __future__ import annotations

import os
import secrets
from pathlib import Path

from .errors import KvloupeError


def name_beside(path: Path) -> Path:
    """A new name beside `path`, in the form that kvloupe's programs remove when its writer is gone."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")


def place_of_file(path: Path) -> Path | None:
    """Where a file of this name is written: at the end of its symbolic links, which stay. None for what is there and
    is no regular file (a device, a pipe, standard output under its name in /dev): this is written through."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return None
    for _ in range(40):
        if not path.is_symlink():
            break
        folder = path.parent.resolve()
        if str(folder).startswith("/proc/"):  # a file that a process has open
            return None
        path = folder / os.readlink(path)
    return path


def refuse_own_input(output: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Raises KvloupeError where `output` is a file that is read."""
    for one in inputs:
        if os.path.isfile(output) and os.path.exists(one) and os.path.samefile(output, one):
            raise KvloupeError(f"{output}: is read here, and would be written over; give the output another name")


def write_whole_file(path: Path, text: str) -> None:
    """A file that is there whole, or not at all. Raises OSError."""
    place = place_of_file(path)
    if place is None:
        with open(path, "ab") as out:
            out.write(text.encode("utf-8"))
        return
    temporary = name_beside(place)
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)
