"""Prompts: token ids with segments, and the text of each token as kvloupe shows it."""
from __future__ import annotations

import operator
import re
from typing import Any

import numpy as np

from .errors import KvloupeError
from .tokenizer import Tokenizer
from .spelling import shown


WHOLE = (1 << 31) - 1  # tokens of a block that is the whole prompt


def block_tokens(block: Any) -> int:
    """How many tokens are read at once; WHOLE for "all". Raises KvloupeError."""
    try:
        tokens = WHOLE if block == "all" else int(block) if re.fullmatch("[0-9]{1,9}", str(block)) else operator.index(block)
    except TypeError:
        tokens = 0
    if tokens < 1:
        raise KvloupeError(f'block {block!r}: give a number of tokens from 1 on, or "all"')
    return min(tokens, WHOLE)


def plain_ids(prompt: Any) -> list[int] | None:
    """Token ids from a list, an array or a tensor, [n] or one sequence [1, n], or from what a tokenizer of transformers
    returns, without the padding that its mask hides; None where `prompt` is no ids. Raises KvloupeError for several sequences and
    for numbers that are no ids."""
    mask = None
    if hasattr(prompt, "keys") and "input_ids" in prompt:
        prompt, mask = prompt["input_ids"], prompt["attention_mask"] if "attention_mask" in prompt else None
    if isinstance(prompt, (bytes, bytearray)):
        raise KvloupeError("the prompt is bytes; give its text: prompt.decode()")
    if isinstance(prompt, str):
        return None
    if hasattr(prompt, "tolist"):
        prompt = prompt.tolist()
    prompt = [word.tolist() if hasattr(word, "tolist") else word for word in prompt]
    if prompt and isinstance(prompt[0], (list, tuple)):
        if any(isinstance(word, str) for row in prompt for word in row):
            return None  # segments
        if len(prompt) > 1:
            raise KvloupeError(f"the prompt has {len(prompt)} sequences of ids; a trace has one: give prompt[0]")
        prompt = list(prompt[0])
    for token in prompt:
        if isinstance(token, bool) or not isinstance(token, int):
            raise KvloupeError(f"the prompt has {token!r} where a token id is expected; give whole numbers")
    if mask is None:
        return prompt
    seen = np.array(mask.tolist() if hasattr(mask, "tolist") else mask)
    if seen.size != len(prompt) or seen.shape[-1:] != (len(prompt),):
        raise KvloupeError(f"the attention mask has the shape {list(seen.shape)} for {len(prompt)} ids; give a number for each id")
    text = np.flatnonzero(seen)
    if len(text) and text[-1] - text[0] >= len(text):
        raise KvloupeError("the attention mask hides tokens between others; it may hide padding before and after the text alone")
    return prompt[text[0]:text[-1] + 1] if len(text) else []


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
            pieces.append(shown(word.encode("utf-8", errors="replace")))
        elif byte_level and all(c in table for c in word):
            pieces.append(shown(bytes(table[c] for c in word)))
        elif byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", word):
            pieces.append(shown(bytes([int(byte[1], 16)])))
        else:
            pieces.append(shown(word.replace("\u2581", " ").encode("utf-8", errors="replace")))
    return pieces + [""] * (count - len(pieces))


def encoded(tokenizer: Any, prompt: Any) -> tuple[list[int], list[str]]:
    """Ids and the segment of each. `prompt`: a text, segments (name, text), or ids as plain_ids() takes them."""
    ids = plain_ids(prompt)
    if ids is not None or not prompt:
        return ids or [], ["context"] * len(ids or [])
    if tokenizer is None:
        raise KvloupeError("a text needs a tokenizer; give one, or token ids")
    parts = [("context", prompt)] if isinstance(prompt, str) else [(name, text) for name, text in prompt]
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.encode(parts)
    text = "".join(part for _, part in parts)
    found = tokenizer(text, return_offsets_mapping=tokenizer.is_fast)
    ids, special = list(found["input_ids"]), _special(tokenizer)
    start = _start_tokens(tokenizer)
    twice = len(start) if start and ids[:2 * len(start)] == start * 2 else 0  # the text of a chat template begins with them, too
    ids = ids[twice:]
    if not tokenizer.is_fast:
        if len(parts) > 1:
            raise KvloupeError("segments need a fast tokenizer (tokenizer.json); give a text or ids")
        return ids, ["special" if token in special else "context" for token in ids]
    ends, names = [], []
    for name, part in parts:
        ends.append((ends[-1] if ends else 0) + len(part))
        names.append(name)
    segments = []
    for token, (first, last) in zip(ids, found["offset_mapping"][twice:]):
        if token in special:
            segments.append("special")
        else:
            segments.append(next(name for name, end in zip(names, ends) if first < end or end == ends[-1]))
    return ids, segments


def checked_prompt(config: Any, tokenizer: Any, prompt: Any, generate: int) -> tuple[list[int], list[str], int]:
    """As encoded(), and the end of the context: the segment `question`, or the prompt's end. Raises KvloupeError for what a model of
    this (text) config cannot run."""
    if generate < 0:
        raise KvloupeError(f"generate {generate}: give at least 0 tokens")
    ids, segments = encoded(tokenizer, prompt)
    if not ids:
        raise KvloupeError("the prompt has no tokens; give some text")
    wrong = next((token for token in (max(ids), min(ids)) if not 0 <= token < config.vocab_size), None)
    if wrong is not None:
        raise KvloupeError(f"token {wrong} is outside the model's vocabulary of {config.vocab_size}")
    longest = getattr(config, "max_position_embeddings", 0) or 0
    if longest and len(ids) + generate > longest:
        raise KvloupeError(f"{len(ids) + generate} tokens, but the model has positions for {longest}; shorten the run")
    return ids, segments, segments.index("question") if "question" in segments else len(ids)


def plain_tokens(tokenizer: Any, texts: list[str]) -> list[int]:
    """How many tokens each text has alone, without those that begin or end a prompt."""
    if isinstance(tokenizer, Tokenizer):
        return [len(ids) - tokenizer.has_start_token for ids, _ in tokenizer.encode_all([[("context", text)] for text in texts])]
    return [len(tokenizer(text, add_special_tokens=False)["input_ids"]) for text in texts]


def has_start_token(tokenizer: Any) -> bool:
    """Whether a prompt begins with a token of its own."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.has_start_token
    return bool(_start_tokens(tokenizer))


def _start_tokens(tokenizer: Any) -> list[int]:
    """Those that a tokenizer of transformers puts before a text."""
    plain, whole = (list(tokenizer("a", add_special_tokens=special)["input_ids"]) for special in (False, True))
    return whole[:next((at for at in range(len(whole)) if whole[at:at + len(plain)] == plain), 0)]


def text_after(tokenizer: Any, ids: list[int], more: list[int]) -> str:
    """What `more` adds to the text of `ids`."""
    if isinstance(tokenizer, Tokenizer):
        return tokenizer.text_of(more)
    decode = lambda tokens: tokenizer.decode(tokens, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    return decode([*ids, *more])[len(decode(ids)):]
