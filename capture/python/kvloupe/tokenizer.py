"""The tokenizer of a model's folder as the program kvloupe-capture reads it."""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from . import program
from .errors import KvloupeError


class Tokenizer:
    """For folders that transformers reads in another way or not at all, such as those with a tokenizer.model alone.

    Give it to capture() in the place of a tokenizer of transformers.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._first = self._tokens("--text", " ")

    def _tokens(self, *words: Any) -> dict[str, Any]:
        return json.loads(program.run("tokens", "--model", self.folder, *words, "--json", "-", name="kvloupe-capture"))

    def encode(self, parts: list[tuple[str, str]]) -> tuple[list[int], list[str]]:
        """Ids and the segment of each, of segments (name, text)."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompt.txt"
            marked = []
            for at, (name, text) in enumerate(parts):
                if at and not parts[at - 1][1].endswith("\n"):
                    raise KvloupeError(f"segment {name}: the text before it must end with a line end")
                if any(line.startswith("@@") for line in text.splitlines()):
                    raise KvloupeError(f"segment {name}: has a line that starts with @@, which would start a segment")
                marked.append(f"@@{name}\n{text}")
            file.write_text("".join(marked) + "\n", encoding="utf-8")
            listed = program.run("tokens", "--model", self.folder, "--prompt", file, "--list", name="kvloupe-capture")
        rows = [line.split(maxsplit=3) for line in listed.splitlines()]
        rows = [row for row in rows if len(row) >= 3 and row[0].isdigit() and row[1].isdigit()]
        return [int(row[1]) for row in rows], [row[2] for row in rows]

    def pieces(self, count: int) -> list[str]:
        """The text of every token id below `count`."""
        known = min(count, int(self._first["vocabulary"]))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ids.txt"
            file.write_text(" ".join(map(str, range(known))), encoding="utf-8")
            return list(self._tokens("--ids", file)["pieces"]) + [""] * (count - known)
