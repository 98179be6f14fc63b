"""Prompts: files with segments, token ids, and the text of each token as kvloupe shows it."""
from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from .errors import KvloupeError
from .tokenizer import Tokenizer
from .writer import shown


def read_prompt(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The segments of a prompt file as (name, text): a line @@name starts a segment and is not text."""
    text = Path(path).read_text(encoding="utf-8-sig")
    if text.endswith("\n"):
        text = text[:-1]
    parts: list[tuple[str, str]] = [("context", "")]
    for line in text.splitlines(keepends=True):
        mark = re.fullmatch(r"@@([A-Za-z0-9_-]+)\r?\n?", line)
        if mark:
            parts.append((mark[1], ""))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + line)
    return [part for part in parts if part[1]]


def _byte_table() -> dict[str, int]:
    """What byte-level tokenizers write for each byte (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {chr(byte): byte for byte in plain}, 256
    for byte in range(256):
        if byte not in plain:
            table[chr(extra)] = byte
            extra += 1
    return table


def _special(tokenizer: Any) -> set[int]:
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return set(tokenizer.all_special_ids) | {token for token, content in added.items() if content.special}


def pieces_of(tokenizer: Any, count: int) -> list[str]:
    """The text of every token id, as kvloupe shows it."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.pieces(count)
    table = _byte_table()
    words = tokenizer.convert_ids_to_tokens(list(range(min(count, len(tokenizer)))))
    special = _special(tokenizer)
    byte_level = sum("\u0120" in word for word in words if word) > len(words) // 50
    pieces = []
    for at, word in enumerate(words):
        if word is None:
            pieces.append("")
        elif at in special:
            pieces.append(word)
        elif byte_level and all(c in table for c in word):
            pieces.append(shown(bytes(table[c] for c in word)))
        elif byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", word):
            pieces.append(shown(bytes([int(byte[1], 16)])))
        else:
            pieces.append(shown(word.replace("\u2581", " ").encode("utf-8", errors="replace")))
    return pieces + [""] * (count - len(pieces))


def encoded(tokenizer: Any, prompt: Any) -> tuple[list[int], list[str]]:
    """Ids and the segment of each. `prompt`: a text, segments (name, text), or ids."""
    if not len(prompt):
        return [], []
    if not isinstance(prompt, str) and not isinstance(prompt[0], (tuple, list)):
        return [int(token) for token in prompt], ["context"] * len(prompt)
    if tokenizer is None:
        raise KvloupeError("a text needs a tokenizer; give one, or token ids")
    parts = [("context", prompt)] if isinstance(prompt, str) else [(name, text) for name, text in prompt]
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.encode(parts)
    text = "".join(part for _, part in parts)
    found = tokenizer(text, return_offsets_mapping=tokenizer.is_fast)
    ids = list(found["input_ids"])
    special = _special(tokenizer)
    if not tokenizer.is_fast:
        if len(parts) > 1:
            raise KvloupeError("segments need a fast tokenizer (tokenizer.json); give a text or ids")
        return ids, ["special" if token in special else "context" for token in ids]
    ends, names = [], []
    for name, part in parts:
        ends.append((ends[-1] if ends else 0) + len(part))
        names.append(name)
    segments = []
    for token, (first, last) in zip(ids, found["offset_mapping"]):
        if token in special:
            segments.append("special")
        else:
            segments.append(next(name for name, end in zip(names, ends) if first < end or end == ends[-1]))
    return ids, segments
