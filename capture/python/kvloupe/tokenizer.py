"""The tokenizer of a model's folder as the program kvloupe-capture reads it."""
from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from . import program
from .prompt_file import with_markers


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
            file.write_bytes(with_markers(parts).encode("utf-8"))
            listed = program.run("tokens", "--model", self.folder, "--prompt", file, "--list", name="kvloupe-capture")
        rows = [line.split(maxsplit=3) for line in listed.split("\n")]
        rows = [row for row in rows if len(row) >= 3 and row[0].isdigit() and row[1].isdigit()]
        return [int(row[1]) for row in rows], [row[2] for row in rows]

    def pieces(self, count: int) -> list[str]:
        """The text of every token id below `count`."""
        known = min(count, int(self._first["vocabulary"]))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ids.txt"
            file.write_text(" ".join(map(str, range(known))), encoding="utf-8")
            return list(self._tokens("--ids", file)["pieces"]) + [""] * (count - known)
