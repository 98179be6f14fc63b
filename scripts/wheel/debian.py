"""Which Debian package a file is from, its version and its licences."""
from __future__ import annotations

import functools
import os
import re
from pathlib import Path

from elf import tool


@functools.cache
def package_of(path: Path) -> str:
    """The package that owns a file of the system. Libraries that Debian's alternatives choose are links."""
    real = os.path.realpath(path)
    # On a system with one /usr, packages may know a file by its old name in /lib.
    for name in (real, real.removeprefix("/usr")):
        try:
            return tool("dpkg-query", "--search", name).split(": ")[0].split(",")[0].split(":")[0]
        except SystemExit:
            continue
    raise SystemExit(f"wheel: no Debian package owns {path}: its licence is not known, so it cannot be in the wheel")


@functools.cache
def version_of(package: str) -> tuple[str, str, str]:
    """A package's version, its source package and that one's version."""
    fields = tool("dpkg-query", "--show", "--showformat", "${Version}\t${source:Package}\t${source:Version}\n", package)
    version, source, source_version = fields.splitlines()[0].split("\t")
    return version, source, source_version


def copyright_of(package: str) -> Path:
    path = Path("/usr/share/doc") / package / "copyright"
    if not path.is_file():
        raise SystemExit(f"wheel: {path} is missing; install {package} again (some containers leave such files out)")
    return path


def licences_in(text: str) -> list[str]:
    """The licences' short names, as far as a copyright file is written for machines."""
    if "Format:" not in text[:500]:
        return []
    names = re.findall(r"^License:[ \t]*(\S[^\n]*)$", text, re.M)
    return sorted({name.strip() for name in names})


def common_licences_in(text: str) -> set[str]:
    """The texts that Debian has once for all packages and a copyright file only names."""
    return {name for name in re.findall(r"/usr/share/common-licenses/([A-Za-z0-9.+-]*[A-Za-z0-9+])", text)
            if (Path("/usr/share/common-licenses") / name).is_file()}
