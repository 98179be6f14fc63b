"""Prompts, ids and masks in the forms that people have them, read as the programs read them; outputs that spare what
is there."""
from __future__ import annotations

import json
import os
import threading
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
from kvloupe import program
from kvloupe.prompt import encoded, plain_ids
from kvloupe import Model, TraceWriter
from kvloupe.trace_format import readable, shown, spelled_bytes

DEMO = Path(__file__).resolve().parents[2] / "assets" / "demo-model"


def test_a_prompt_file_has_segments_and_notes(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.txt")
    for data, note, parts in ((b"one\r\n@@question\r\nthree?\r\n", "", [("context", "one\r\n"), ("question", "three?")]),
                              ("a\n@@document-1\nb".encode("utf-16"), "line 2, @@document-1, starts a segment of that name",
                               [("context", "a\n"), ("document-1", "b")]),
                              (b"@@VERSION\n", "line 1, @@VERSION, is text", [("context", "@@VERSION")]), (b"", "", [])):
        file.write_bytes(data)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert kvloupe.read_prompt(file) == parts
        assert [str(one.message).count(note) for one in said] == [1] * bool(note)
    for data, why in ((b"a\ncaf\xe9", r"line 2 has the byte \\xE9"), (b"h\0e\0", r"line 1 has the byte \\x00")):
        file.write_bytes(data)
        with pytest.raises(kvloupe.KvloupeError, match=why):
            kvloupe.read_prompt(file)


def test_any_lines_can_be_given_as_segments() -> None:
    parts = [("context", "--- a\n@@VERSION\n@@question\n\\@@x\n"), ("question", "end\r\n")]
    text = "".join(part for _, part in parts)
    ids, segments = kvloupe.Tokenizer(DEMO).encode(parts)
    plain, _ = kvloupe.Tokenizer(DEMO).encode([("context", text)])
    assert ids == plain
    assert segments.count("question") > 0
    bytes_of = lambda token: spelled_bytes(kvloupe.Tokenizer(DEMO).pieces(token + 1)[token])
    pieces = kvloupe.Tokenizer(DEMO).pieces(max(ids) + 1)
    assert b"".join(spelled_bytes(pieces[token]) for token in ids[1:]).decode().lstrip() == text


def test_ids_have_many_forms() -> None:
    want = [69, 7, 8]
    for form in (want, tuple(want), np.array(want), torch.tensor(want), [want], np.array([want]), torch.tensor([want]),
                 [torch.tensor(7), 8] and [torch.tensor(i) for i in want], {"input_ids": torch.tensor([want])},
                 transformers.BatchEncoding({"input_ids": [want], "attention_mask": [[1, 1, 1]]}),
                 {"input_ids": torch.tensor([[0, 0, *want]]), "attention_mask": torch.tensor([[0, 0, 1, 1, 1]])},
                 {"input_ids": [*want, 0], "attention_mask": np.array([True, True, True, False])}):
        assert plain_ids(form) == want
        assert encoded(None, form) == (want, ["context"] * 3)
    assert plain_ids("text") is None and plain_ids([("context", "text")]) is None
    with pytest.raises(kvloupe.KvloupeError, match="has 2 sequences of ids"):
        plain_ids(torch.tensor([want, want]))
    for mask, why in (([[1, 0, 1]], "hides tokens between others"), ([[1, 1]], r"the shape \[1, 2\] for 3 ids"),
                      (torch.ones(1, 1, 3, 3), r"the shape \[1, 1, 3, 3\]")):
        with pytest.raises(kvloupe.KvloupeError, match=why):
            plain_ids({"input_ids": [want], "attention_mask": mask})
    assert plain_ids({"input_ids": [want], "attention_mask": [[0, 0, 0]]}) == []
    with pytest.raises(kvloupe.KvloupeError, match="the prompt is bytes"):
        plain_ids(b"text")
    for wrong in ([1.5], [True, False], np.ones((1, 3), bool)):
        with pytest.raises(kvloupe.KvloupeError, match="where a token id is expected"):
            plain_ids(wrong)


def test_a_prompt_has_many_forms(tmp_path: Path) -> None:
    from test_package import tokenizer as folders

    own, text = folders(tmp_path), "The grey owl."
    own.chat_template = "{% for one in messages %}<{{ one.role }}>{{ one.content }}{% endfor %}{% if add_generation_prompt %}<a>{% endif %}"
    (tmp_path / "p.txt").write_text(f"{text}\n@@question\nWhere?\n")
    for form in (text.encode(), bytearray(text.encode()), memoryview(text.encode()), b"\xef\xbb\xbf" + text.encode()):
        assert encoded(own, form) == encoded(own, text)
    assert encoded(own, tmp_path / "p.txt") == encoded(own, [("context", text + "\n"), ("question", "Where?")])
    turn, answer = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes"}
    assert encoded(own, [turn]) == encoded(own, "<user>Hi<a>") and encoded(own, [turn, answer]) == encoded(own, "<user>Hi<assistant>Yes")
    for wrong, said in ((None, "the prompt is None"), (7, "the prompt is 7"), (b"caf\xe9", "not UTF-8"), ("a\ud800", "surrogate"),
                        ([("context", "a"), 3], "not all of it are segments"), ([1, "a"], "where a token id"), ([[1, 2], "a"], "2 sequences"),
                        ([turn, "a"], "not a list of messages"), ([{"text": "a"}], "not a list of messages"), ({"text": "a"}, "where a token id")):
        with pytest.raises(kvloupe.KvloupeError, match=said) as caught:
            encoded(own, wrong)
        assert "\n" not in str(caught.value)
    with pytest.raises(kvloupe.KvloupeError, match="no chat template"):
        encoded(kvloupe.Tokenizer(DEMO), [turn])


def small_trace(path: Path, texts: list[str] | None = None, count: int = 24) -> Path:
    random = np.random.default_rng(1)
    with TraceWriter(path, Model(layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32, vocabulary=100,
                                 rope_theta=10000.0), count) as writer:
        for layer in range(2):
            for name, heads in (("query", 4), ("key", 2), ("value", 2)):
                writer.add(layer, 0, name, random.standard_normal((heads, count, 8)))
            writer.add(layer, 0, "attention_logsumexp", np.zeros((4, count)))
        writer.finish(np.arange(count), texts, None, [(0, 8), (8, 16), (16, count)],
                      {"block_size": 8, "prompt_length": count, "generated": 0, "attention_scale": 8 ** -0.5},
                      spelled=True)
    return path


def test_a_mask_says_which_tokens_stay(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.h5")
    kept = np.zeros((2, 2, 24), bool)
    kept[:, :, ::3] = True
    for form in (kept, kept.tolist(), torch.from_numpy(kept)):
        kvloupe.external(trace, form, tmp_path / "s.json")
        sets = json.loads((tmp_path / "s.json").read_text())["heads"]
        assert all(head["steps"][-1]["retained"] == list(range(0, 24, 3)) for head in sets)
    with pytest.raises(kvloupe.KvloupeError, match="mask of layer 0, head 0 has 23 entries"):
        kvloupe.external(trace, kept[:, :, 1:], tmp_path / "s.json")
    with pytest.raises(kvloupe.KvloupeError, match="has no token"):
        kvloupe.external(trace, kept & False, tmp_path / "s.json")
    with pytest.raises(kvloupe.KvloupeError, match="whole numbers or a mask"):
        kvloupe.external(trace, [[[0.5], [1]], [[1], [1]]], tmp_path / "s.json")


def test_what_is_there_is_spared(tmp_path: Path) -> None:
    trace = small_trace(tmp_path / "t.h5")
    with pytest.raises(kvloupe.KvloupeError, match="would be written over"):
        kvloupe.external(trace, [[[1], [1]], [[1], [1]]], trace)
    assert len(kvloupe.open(trace)) == 24
    os.symlink("t.h5", tmp_path / "link.h5")
    small_trace(tmp_path / "link.h5", count=16)
    assert (tmp_path / "link.h5").is_symlink() and len(kvloupe.open(trace)) == 16
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (lambda: kvloupe.external(trace, [[[1], [1]], [[1], [1]]], pipe, step=1), lambda: small_trace(pipe)):
        read: list[bytes] = []
        reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
        reader.start()
        write()
        reader.join()
        assert pipe.is_fifo() and (read[0].startswith(b"{") or read[0].startswith(b"\x89HDF"))


def test_every_byte_of_a_token_can_be_told(tmp_path: Path) -> None:
    pieces = [b"\n", b"\\n", b"{\n", b"<0x0A>", b"\xe2", b"\\xE2", "é".encode(), b"a\tb"] + [b"x"] * 16
    assert [spelled_bytes(shown(piece)) for piece in pieces] == pieces
    trace = small_trace(tmp_path / "t.h5", [shown(piece) for piece in pieces])
    with kvloupe.open(trace) as opened:
        assert opened.text == [readable(piece) for piece in pieces]
        assert opened.text[:3] == ["\n", "\\n", "{\n"]
    # The program tells them apart, too: a row of this table for each token.
    table = program.run("export", trace, "--figure", "tokens", "--policy", "full", "--budget", "100%",
                        "-o", tmp_path / "t.csv") or (tmp_path / "t.csv").read_text(encoding="utf-8")
    for text in ("0,↵,", "1,\\n,", "2,{↵,", "3,<0x0A>,"):
        assert f"\n{text}" in table
    with h5py.File(trace, "r+") as file:  # as older versions wrote traces
        del file["tokens/text"].attrs["spelled"]
    with kvloupe.open(trace) as opened:
        assert opened.text[:3] == ["\n", "\\\\n", "{\\n"]


def test_a_family_that_cannot_be_captured_is_told_as_one(tmp_path: Path) -> None:
    config = transformers.AutoConfig.for_model("mpt", d_model=16, n_layers=2, n_heads=2, vocab_size=50, max_seq_len=64)
    run = transformers.AutoModelForCausalLM.from_config(config).eval()
    with pytest.raises(kvloupe.KvloupeError, match="MptForCausalLM: .*this family cannot be captured; take a model"):
        kvloupe.capture(run, None, [5, 6, 7], tmp_path / "t.h5", progress=False)
    encoder = transformers.BertModel(transformers.BertConfig(hidden_size=16, num_hidden_layers=1, num_attention_heads=2,
                                                             intermediate_size=16, vocab_size=50))
    with pytest.raises(kvloupe.KvloupeError, match="give a decoder such as"):
        kvloupe.capture(encoder.eval(), None, [5, 6, 7], tmp_path / "t.h5", progress=False)
