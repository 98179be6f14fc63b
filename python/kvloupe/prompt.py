"""Prompts: token ids with segments, and the text of each token as kvloupe shows it; files and sets of prompts (docs/studies.md,
*Sets of prompts*), read as kvloupe-capture reads them."""
import dataclasses
import hashlib
import json
import operator
import os
import re
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from .engine import ask
from .errors import KvloupeError, KvloupeWarning
from .tokenizer import Tokenizer
from .trace_format import shown

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
    if not isinstance(prompt, Iterable):
        raise KvloupeError(f"the prompt is {prompt!r}; give a text, token ids, segments, or messages"[:200])
    prompt = [word.tolist() if hasattr(word, "tolist") else word for word in prompt]
    if prompt and isinstance(prompt[0], (list, tuple)):
        if any(isinstance(word, str) for word in prompt[0]):
            if all(isinstance(row, (list, tuple)) and len(row) == 2 and all(isinstance(word, str) for word in row) for row in prompt):
                return None  # segments
            raise KvloupeError("the prompt begins with a segment, but not all of it are segments (name, text)")
        if len(prompt) > 1:
            raise KvloupeError(f"the prompt has {len(prompt)} sequences of ids; a trace has one: give prompt[0]")
        prompt = list(prompt[0])
    for token in prompt:
        if isinstance(token, bool) or not isinstance(token, int):
            raise KvloupeError(f"the prompt has {repr(token)[:80]} where a token id is expected; give whole numbers")
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


def _text_of(tokenizer: Any, prompt: Any) -> Any:
    """The text of bytes and of messages (by the tokenizer's chat template), the segments of a file; anything else as it is."""
    if isinstance(prompt, os.PathLike):
        return read_prompt(prompt)
    if isinstance(prompt, (bytes, bytearray, memoryview)):
        try:
            return bytes(prompt).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise KvloupeError(f"the prompt is bytes that are not UTF-8 ({error.reason}, byte {error.start}); give its text") from error
    if isinstance(prompt, (list, tuple)) and any(isinstance(one, dict) for one in prompt):
        if not all(isinstance(one, dict) and "role" in one and "content" in one for one in prompt):
            raise KvloupeError("the prompt has a dictionary, but is not a list of messages with role and content")
        try:
            return tokenizer.apply_chat_template(list(prompt), tokenize=False, **(
                {"continue_final_message": True} if prompt[-1]["role"] == "assistant" else {"add_generation_prompt": True}))
        except Exception as error:  # of the template's own language, too
            why = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise KvloupeError(f"the prompt is messages, but the tokenizer has no chat template for them ({why}); give the text") from error
    if isinstance(prompt, str) and not prompt.isascii():
        try:
            prompt.encode()
        except UnicodeEncodeError as error:
            raise KvloupeError(f"the prompt's character {error.start} is half of a surrogate pair; give text in Unicode") from error
    return prompt


def encoded(tokenizer: Any, prompt: Any) -> tuple[list[int], list[str]]:
    """Ids and the segment of each. `prompt`: a text or its bytes, the path of a prompt file, segments (name, text), messages, or ids
    as plain_ids() takes them."""
    prompt = _text_of(tokenizer, prompt)
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
    if not hasattr(generate, "__index__") or generate < 0:
        raise KvloupeError(f"generate {generate}: give a number of tokens, at least 0")
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


def read_prompt(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The segments of a prompt file as (name, text), as kvloupe-capture reads them.

    A line @@name (small letters, digits, - and _) starts a segment and is not text; a backslash before it keeps it as
    text. Names without a meaning here, and lines that only their capitals keep from being markers, are told in a
    KvloupeWarning. Raises KvloupeError: missing, unreadable, in another encoding than UTF-8, or UTF-16 with its byte order mark.
    """
    return parts_of(path, "read_prompt", [-1, 0])["segments"]


def parts_of(path: str | os.PathLike[str], function: str, given: Any) -> dict[str, Any]:
    """The segments (name, text), answers and rules of a prompt, from a function of the engine; what it notes are warnings."""
    found = ask(function, given, path)
    unread = [f"the prompts and answers have nothing of the fields {', '.join(found['unread'])}"] if found["unread"] else []
    for note in found.get("notes", unread) + ([found["doubt"]] if found["doubt"] else []):
        warnings.warn(f"{Path(path).name}: {note}", KvloupeWarning, stacklevel=3)
    return found | {"segments": [(name, text) for name, text in found["segments"]]}


@dataclasses.dataclass(frozen=True)
class PromptPlace:
    """Where one prompt is."""

    name: str  # notes.txt, niah.jsonl#12
    path: Path
    identity: str  # SHA-256 of the file; empty if it cannot be read
    line: int = -1  # of a file of JSON lines, from 0; -1: the file is one text
    at: int = 0  # bytes of the file before the line
    changed: int = 0  # when the file of the line was, in ns
    content: str = ""  # of a prompt that was given as a text or dictionary: its line
    question: int = -1  # of a line with several, from 0; -1: the line is one prompt

    def read(self) -> tuple[list[tuple[str, str]], list[str]]:
        """Segments (name, text), and the right answers. Raises KvloupeError."""
        found = self.parts()
        return found["segments"], found["answers"]

    def parts(self) -> dict[str, Any]:
        """As parts_of(). Raises KvloupeError."""
        if self.content:
            return parts_of(self.path, "parse_prompt", [self.line, self.content, self.question])
        if self.line >= 0 and _changed(self.path) != self.changed:
            raise KvloupeError(f"{self.path}: has changed since the runs began; start again")
        return parts_of(self.path, "read_prompt", [self.line, self.at, self.question])


def _changed(path: str | os.PathLike[str]) -> int:
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return 0


def _is_text(name: str) -> bool:
    """Whether it is a prompt itself: words that are not the path of a file."""
    return "\n" in name or bool(re.search(r"\s", name.strip())) and not os.path.exists(name) and not name.endswith((".txt", ".md", ".jsonl"))


def _given(at: int, fields: Any) -> list[PromptPlace]:
    """The prompt that is a text, or the prompts of a dictionary with the fields of a line of JSON."""
    plain = lambda value: value.tolist() if hasattr(value, "tolist") else str(value)
    fields = {"text": fields} if isinstance(fields, str) else {name: value for name, value in fields.items() if not (isinstance(value, float) and value != value)}
    line = json.dumps(fields, ensure_ascii=False, default=plain)
    content = json.dumps(json.loads(line, parse_constant=lambda _: 0))  # NaN and Infinity are not JSON, which the engine reads
    whole = PromptPlace(f"prompts#{at}", Path("prompts"), hashlib.sha256(line.encode()).hexdigest(), at, content=content)
    if not {"questions", "multi_turns"} & fields.keys() or {"question", "input", "text", "prompt"} & fields.keys():
        return [whole]
    count = ask("parse_prompt", [at, content, 0], "prompts")["questions"]
    return [dataclasses.replace(whole, name=f"prompts#{at}.q{one}", question=one) for one in range(count)] or [whole]


def find_prompts(given: Any) -> list[PromptPlace]:
    """The prompts of files and folders, in the order of a study, and those that are texts, dictionaries with the fields of a line of
    JSON, or rows of a DataFrame. Raises KvloupeError."""
    places: list[PromptPlace] = []
    if hasattr(given, "to_dict"):
        given = given.to_dict("records")
    for at, name in enumerate([given] if isinstance(given, (str, dict, os.PathLike)) else given):
        if isinstance(name, dict) or isinstance(name, str) and _is_text(name):
            places += _given(at, name)
            continue
        if not isinstance(name, (str, os.PathLike)):
            raise KvloupeError(f"prompts: {repr(name)[:60]} is not a file, a text or a dictionary")
        changed = _changed(name)
        places += [PromptPlace(one["name"], Path(one["path"]), one["identity"], one["line"], one["at"], changed,
                               question=one["question"]) for one in ask("find_prompts", os.fsencode(name).decode(errors="replace"), name)]
    return places
