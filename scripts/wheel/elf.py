"""What ELF files need and define, and changes of them by patchelf."""
from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path


def tool(*words: object) -> str:
    """The output of a program; ends this one with its last line where it fails."""
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"wheel: {words[0]} failed: {(done.stderr.strip() or done.stdout.strip())[-500:]}")
    return done.stdout


def is_elf(path: Path) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def needed(path: Path) -> list[str]:
    return re.findall(r"\(NEEDED\).*\[(.*)\]", tool("readelf", "--dynamic", "--wide", path))


def symbols(path: Path) -> tuple[set[str], set[str]]:
    """The names with versions that a file takes from others, and those that it defines."""
    taken, defined = set(), set()
    for line in tool("nm", "--dynamic", "--with-symbol-versions", path).splitlines():
        kind, name = line[16:].split()
        (taken if not line[:16].strip() else defined).add(name.replace("@@", "@"))
    return taken, defined


@functools.cache
def _known_libraries() -> dict[str, Path]:
    found: dict[str, Path] = {}
    for name, path in re.findall(r"^\s+(\S+) \(libc6,x86-64[^)]*\) => (\S+)$", tool("ldconfig", "--print-cache"), re.M):
        found.setdefault(name, Path(path))
    # Also by the names of the files that they are links to.
    return {os.path.basename(os.path.realpath(path)): path for path in found.values()} | found


def library(name: str) -> Path:
    """Where the system has a library."""
    path = _known_libraries().get(name)
    if path is None:
        raise SystemExit(f"wheel: the library {name} is not installed; scripts/setup.sh installs what kvloupe needs")
    return path
