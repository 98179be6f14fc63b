"""Files of the corpus: prompts with their segments, seeded sets of prompts, and the tokenizer."""
from __future__ import annotations

import json
import struct
from pathlib import Path

from .corpus import BOS, EOS, UNKNOWN, Corpus, Mix, NeedlePrompt, Vocabulary, splitmix

_SET_STREAMS = 1 << 61  # apart from those of training


def prompt_file(prompt: NeedlePrompt, vocabulary: Vocabulary) -> str:
    """A prompt file of kvloupe: segments @@context, @@needle and @@question."""
    out = ""

    def segment(name: str, begin: int, end: int) -> None:
        nonlocal out
        text = vocabulary.text(prompt.ids[begin:end]).rstrip("\n")
        while text.startswith("\n"):  # the line end and the space after it
            text = text[2:]
        if text:
            out += f"@@{name}\n {text}\n"
    at = 1  # BOS is the tokenizer's
    for begin, end in prompt.spans:
        segment("context", at, begin)
        segment("needle", begin, end)
        at = end
    segment("context", at, prompt.question_begin)
    segment("question", prompt.question_begin, len(prompt.ids))
    return out


def _only(recall: float = 0.0, **kinds: float) -> Mix:
    nothing = dict.fromkeys(("repetition", "cipher", "ledger", "story", "tale", "dice", "fact", "needle"), 0.0)
    return Mix(**(nothing | kinds), recall=recall, paragraph=0.1)


# How a kind of prompts is generated: a line about it, then the number of needles or a mix of passages.
KINDS: dict[str, tuple[str, int | Mix]] = {
    "needle": ("a number hidden in passages of all kinds, and its question", 1),
    "needles": ("four numbers, and a question about one", 4),
    "story": ("stories of fixed patterns, and facts somebody asks about", _only(0.1, story=1.0, fact=0.3)),
    "tale": ("tales in which each word follows from the previous one", _only(tale=1.0)),
    "ledger": ("lists and ledgers, quoted again", _only(0.3, ledger=1.0)),
    "cipher": ("runs of random words, quoted again", _only(0.3, cipher=1.0)),
    "repetition": ("random segments that repeat", _only(repetition=1.0)),
    "mixed": ("passages of all kinds",
              _only(0.2, cipher=0.6, ledger=0.6, dice=0.6, story=1.0, tale=1.0, fact=0.3))}


def write_prompt_set(folder: str | Path, kinds: list[str], lengths: list[int], count: int, seed: int,
                     json_lines: bool) -> None:
    """Writes KIND-LENGTH-NUMBER.txt for each prompt, a prompt file with its segments, and prompts.csv: file, kind,
    tokens, answer (of a question). As JSON lines: KIND-LENGTH.jsonl, a prompt in each line, in RULER's layout where it
    has a question, else its text; and no table. Lengths are in tokens with BOS; prompts with needles are at most so
    long. A prompt follows from seed, kind, length and number, so that a larger set begins with the smaller one; none
    was in the training. Raises ValueError for a length without room."""
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    vocabulary, table = Vocabulary(), ["file,kind,tokens,answer"]
    for kind in kinds:
        recipe = KINDS[kind][1]
        for length in lengths:
            # A stream of its own for each kind and length.
            corpus, lines = Corpus(vocabulary, splitmix(seed * 64 + list(KINDS).index(kind)) + length & (1 << 64) - 1), []
            for number in range(count):
                answer = ""
                if isinstance(recipe, Mix):
                    ids = corpus.sequence(_SET_STREAMS + number, length, recipe)[0]
                    prompt = NeedlePrompt(ids=ids, question_begin=len(ids))
                else:
                    prompt = corpus.needle_prompt(number, length, recipe)
                    answer = vocabulary.text([prompt.answers[prompt.asked]])
                text = prompt_file(prompt, vocabulary)
                if json_lines:
                    bare = "".join(line for line in text.splitlines(True) if not line.startswith("@@")).removesuffix("\n")
                    line = {"input": bare, "outputs": [answer]} if answer else {"text": bare}
                    lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n")
                    continue
                name = f"{kind}-{length:05}-{number:04}.txt"
                (folder / name).write_text(text)
                table.append(f"{name},{kind},{len(prompt.ids)},{answer}")
            if json_lines:
                (folder / f"{kind}-{length:05}.jsonl").write_text("".join(lines))
    if not json_lines:
        (folder / "prompts.csv").write_text("\n".join(table) + "\n")


def tokenizer_model(vocabulary: Vocabulary) -> bytes:
    """The file of a unigram tokenizer of SentencePiece (sentencepiece_model.proto)."""
    def varint(value: int) -> bytes:
        value &= (1 << 64) - 1
        out = b""
        while value >= 0x80:
            out += bytes([value & 0x7F | 0x80])
            value >>= 7
        return out + bytes([value])

    def field(number: int, value: int | float | bytes | str) -> bytes:
        if isinstance(value, float):
            return varint(number << 3 | 5) + struct.pack("<f", value)
        if isinstance(value, int):
            return varint(number << 3) + varint(value)
        value = value.encode() if isinstance(value, str) else value
        return varint(number << 3 | 2) + varint(len(value)) + value

    pieces = b"".join(field(1, field(1, text) + field(2, score) + field(3, kind)) for text, kind, score in vocabulary.pieces)
    # model_type: unigram, vocab_size, byte_fallback, unk_id, bos_id, eos_id, pad_id
    trainer = {3: 1, 4: len(vocabulary), 35: 1, 40: UNKNOWN, 41: BOS, 42: EOS, 43: -1}
    # name, add_dummy_prefix, remove_extra_whitespaces, escape_whitespaces
    normalizer = {1: "identity", 3: 1, 4: 1, 5: 1}
    return pieces + b"".join(field(number, b"".join(field(*one) for one in part.items()))
                             for number, part in ((2, trainer), (3, normalizer)))
