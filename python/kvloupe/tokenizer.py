"""The tokenizer of a model's folder as the program kvloupe-capture reads it."""
import json
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from . import program
from .errors import KvloupeError
from .trace_format import readable, spelled_bytes


class Tokenizer:
    """For folders that transformers reads in another way or not at all, such as those with a tokenizer.model alone.

    Give it to capture() in the place of a tokenizer of transformers. It can be called, and decodes. Raises KvloupeError.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._first = self._tokens("--text", " ")
        self._all: list[str] | None = None  # pieces, once they are asked for

    def _tokens(self, *words: Any) -> Any:
        return json.loads(program.run("tokens", "--model", self.folder, *words, "--json", "-", name="kvloupe-capture"))

    def encode(self, parts: list[tuple[str, str]]) -> tuple[list[int], list[str]]:
        """Ids and the segment of each, of segments (name, text)."""
        return self.encode_all([parts])[0]

    def encode_all(self, prompts: list[list[tuple[str, str]]]) -> list[tuple[list[int], list[str]]]:
        """The same for many prompts: starting the program takes half a second."""
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "prompts.json"
            file.write_text(json.dumps([[*map(list, parts)] or [["context", ""]] for parts in prompts]), encoding="utf-8")
            return [(one["ids"], one["segments"]) for one in self._tokens("--prompts", file)]

    def __call__(self, text: str, return_tensors: str | None = None) -> dict[str, Any]:
        """input_ids and attention_mask of a text, as tokenizers of transformers give them: lists, or [1, n] where return_tensors is
        "pt" or "np"."""
        if not isinstance(text, str) or return_tensors not in (None, "pt", "np"):
            raise KvloupeError('kvloupe.Tokenizer: takes one text, and return_tensors "pt", "np" or None')
        ids = self.encode([("context", text)])[0]
        found: dict[str, Any] = {"input_ids": ids, "attention_mask": [1] * len(ids)}
        if return_tensors is None:
            return found
        arrays = {name: np.array([numbers]) for name, numbers in found.items()}
        if return_tensors == "np":
            return arrays
        import torch
        return {name: torch.from_numpy(array) for name, array in arrays.items()}

    def decode(self, ids: Any, skip_special_tokens: bool = False) -> str:
        """The text of token ids: a list, an array or a tensor, [n] or [1, n]. skip_special_tokens leaves out the start token."""
        start = {self._first["bos"]} if skip_special_tokens else set()
        return self.text_of([token for token in np.asarray(ids).reshape(-1).tolist() if token not in start])

    @property
    def has_start_token(self) -> bool:
        """Whether a prompt begins with a token of its own."""
        return self._first["bos"] is not None

    def text_of(self, ids: list[int]) -> str:
        """The text of tokens within a text, special ones as they are written."""
        if self._all is None:
            self._all = self.pieces(int(self._first["vocabulary"]))
        return readable(b"".join(spelled_bytes(self._all[token]) for token in ids))

    def pieces(self, count: int) -> list[str]:
        """The text of every token id below `count`."""
        known = min(count, int(self._first["vocabulary"]))
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "ids.txt"
            file.write_text(" ".join(map(str, range(known))), encoding="utf-8")
            return list(self._tokens("--ids", file)["pieces"]) + [""] * (count - known)
