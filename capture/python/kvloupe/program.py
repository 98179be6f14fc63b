"""The program `kvloupe`: found in $KVLOUPE, in $PATH, or in a build folder above this package."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from .errors import KvloupeError


def find() -> str:
    """The program's path. Raises KvloupeError."""
    named = os.environ.get("KVLOUPE")
    if named:
        return named
    beside = [folder / "build" / "bin" / "kvloupe" for folder in Path(__file__).resolve().parents]
    found = shutil.which("kvloupe") or next((str(path) for path in beside if path.is_file()), None)
    if found is None:
        raise KvloupeError("the program kvloupe was not found; put it in $PATH, or its path in $KVLOUPE")
    return found


def run(*words: Any) -> str:
    """Runs it; its standard output. Raises KvloupeError with its own line where it fails."""
    done = subprocess.run([find(), *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        lines = done.stderr.strip().splitlines()
        raise KvloupeError(lines[-1].removeprefix("kvloupe: ") if lines else f"kvloupe ended with {done.returncode}")
    return done.stdout


def _options(settings: dict[str, Any]) -> list[str]:
    """policy_b="h2o" becomes --policy-b h2o; `set`, a dictionary, one --set for each; a list is joined by commas."""
    words: list[str] = []
    for name, value in settings.items():
        if value is None or value is False:
            continue
        if name == "set":
            for choice, of in value.items():
                words += ["--set", f"{choice}={of}"]
        elif value is True:
            words.append("--" + name.replace("_", "-"))
        else:
            text = ",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value)
            words += ["--" + name.replace("_", "-"), text]
    return words


def replay(path: str | os.PathLike[str], policy: str, budget: str | int, **settings: Any) -> dict[str, Any]:
    """What `kvloupe replay --json` writes: the sets kept in every layer and head, and the measures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "replay.json"
        run("replay", path, "--policy", policy, "--budget", budget, "--json", file, *_options(settings))
        return json.loads(file.read_text(encoding="utf-8"))


def follow(path: str | os.PathLike[str], policy: str, budget: str | int, **settings: Any) -> dict[str, Any]:
    """What `kvloupe follow --json` writes; give `tokens` or `segment`."""
    return json.loads(run("follow", path, "--policy", policy, "--budget", budget, "--json", "-", *_options(settings)))


class Figure:
    """A figure of one or more traces or results, drawn by the program."""

    def __init__(self, paths: Any, name: str, **settings: Any) -> None:
        self.paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.name = name
        self.settings = settings

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes .svg, .pdf, .png, .csv or .html, by its ending."""
        run("export", *self.paths, "--figure", self.name, *_options(self.settings), "-o", path)
        return Path(path)

    def _repr_svg_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return self.save(Path(folder) / "figure.svg").read_text(encoding="utf-8")


def figure(paths: Any, name: str, **settings: Any) -> Figure:
    """A figure that a notebook shows; settings are the options of `kvloupe export`: policy="keydiff", budget="25%"."""
    return Figure(paths, name, **settings)
