"""kvloupe.TraceWriter for any program: what it computes from the states, and what it refuses."""
from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kvloupe
import tiny_models as tiny

ROOT = Path(__file__).resolve().parents[2]
MODEL = kvloupe.Model(layers=3, heads=4, kv_heads=2, head_dim=8, hidden=12, vocabulary=50, rope_theta=10000.0)
T = 30


def numbers(*shape: int, seed: int = 1) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def write(path: Path, layers: list[kvloupe.Layer] | None = None, model: kvloupe.Model = MODEL, **settings: Any) -> Path:
    """A trace with random states of these layers; layer 1 has a gate if it is described."""
    with kvloupe.TraceWriter(path, model, T, store="f32", layers=layers) as trace:
        for at, own in enumerate(trace.layers):
            if not own.attends:
                continue
            states = dict(query=numbers(own.heads, T, own.key_dim, seed=at),
                          output_weight=numbers(own.heads, own.value_dim, 12, seed=20 + at))
            if own.holds:
                states["key"] = numbers(own.kv_heads, T, own.key_dim, seed=40 + at)
                if not own.value_is_key_prefix:
                    states["value"] = numbers(own.kv_heads, T, own.value_dim, seed=60 + at)
            if layers and at == 1:
                states["gate"] = np.abs(numbers(T, own.heads * own.value_dim, seed=80))
            trace.add_layer(at, **states)
        trace.finish(np.arange(T), **settings)
    return path


def check(path: Path) -> None:
    """What the writer computed is what float64 gives from the file."""
    with h5py.File(path) as file:
        for at, one in tiny.outputs_of(path).items():
            group = file[f"layers/{at}"]
            assert np.abs(group["attention_logsumexp"][:] - one["lse"]).max() < 1e-5
            assert np.abs(group["value_out_norm_l2"][:] / one["norm_l2"] - 1.0).max() < 1e-5
            assert (group["value_out_norm_l1"][:] >= group["value_out_norm_l2"][:]).all()


def test_a_plain_trace_is_of_version_1(tmp_path: Path) -> None:
    segments = {"context": (0, 9), "needle": (9, 20), "poem": (20, T)}
    path = write(tmp_path / "t.h5", texts=[f"word {at}\n" for at in range(T)], run={"prompt_length": 25}, segments=segments)
    check(path)
    version, model, layers = tiny.attributes_of(path)
    assert version == 1 and layers == [{}, {}, {}] and model["num_kv_heads"] == 2
    with kvloupe.open(path) as trace:
        assert trace.text[3] == "word 3\n" and trace.run["generated"] == 5
        assert trace.run["attention_scale"] == 8 ** -0.5
        assert len(trace.blocks) == 6 and trace.segments == segments


def test_changes_of_the_residual_stream(tmp_path: Path) -> None:
    changes = [np.abs(numbers(T, seed=at)) for at in range(3)]

    def made(given: Any) -> Path:
        path = tmp_path / "t.h5"
        with kvloupe.TraceWriter(path, MODEL, T, store="f32") as trace:
            for at in range(3):
                trace.add_layer(at, query=numbers(4, T, 8), key=numbers(2, T, 8), value=numbers(2, T, 8))
            trace.add_residual_changes(given)
            trace.finish(np.arange(T))
        return path

    with h5py.File(made(changes)) as file:
        for at in range(3):
            data = file[f"layers/{at}/residual_change"]
            assert data.dtype == np.float32 and np.allclose(data[:], changes[at], rtol=1e-6)
    with pytest.raises(kvloupe.KvloupeError, match=re.escape("instead of [30], one for each token, of each of the 3 layers")):
        made(changes[:2])
    changes[1][4] = np.nan
    with pytest.raises(kvloupe.KvloupeError, match="layer 1, token 4: the change of the residual stream is not finite"):
        made(changes)


def test_layers_of_all_kinds(tmp_path: Path) -> None:
    model = dataclasses.replace(MODEL, layers=6)
    layers = [kvloupe.Layer(kind="none", mixer="gated delta net", state_bytes=2048),
              kvloupe.Layer(heads=6, kv_heads=3, key_dim=10, value_dim=4, window=7, scale=0.2),
              kvloupe.Layer(kind="shared", shares_with=1, heads=3, chunk=8, scale=0.2, window=0),
              kvloupe.Layer(kind="latent", key_dim=9, value_dim=6, rotary_start=6, rotary_dim=3, scale=0.3),
              kvloupe.Layer(kind="shared", shares_with=3, scale=0.3, softcap=2.0,
                            sink_logits=np.array([0.5, -1.0, 2.0, 0.0])),
              kvloupe.Layer(without_output_weight="a norm over all heads stands between heads and output projection")]
    path = write(tmp_path / "t.h5", layers, model)
    check(path)
    version, attributes, found = tiny.attributes_of(path)
    assert version == 2
    assert found[0] == {"kind": "none", "mixer": "gated delta net", "state_bytes": 2048}
    assert found[1] == {"num_heads": 6, "num_kv_heads": 3, "key_dim": 10, "value_dim": 4, "sliding_window": 7}
    assert found[2]["kind"] == "shared" and found[2]["shares_with"] == 1 and found[2]["chunk_size"] == 8
    assert found[3] == {"kind": "latent", "num_kv_heads": 1, "key_dim": 9, "value_dim": 6, "value_is_key_prefix": 1,
                        "rotary_start": 6, "rotary_dim": 3, "attention_scale": 0.3}
    assert found[5]["attention_scale"] == 8 ** -0.5 and "without_output_weight" in found[5]
    with kvloupe.open(path) as trace:
        for at, own in enumerate(layers):
            read = trace.layer(at)
            for name in ("kind", "mixer", "shares_with", "chunk", "softcap", "state_bytes"):
                assert getattr(read, name) == getattr(own, name), (at, name)
        assert trace.value(4, 0).shape == (T, 6) and (trace.value(4, 0) == trace.key(3, 0)[:, :6]).all()
        assert trace.gate(1, 5).shape == (T, 4) and trace.gate(3, 0) is None


def test_blocks_give_the_same_file(tmp_path: Path) -> None:
    whole = write(tmp_path / "whole.h5")
    with kvloupe.TraceWriter(tmp_path / "blocks.h5", MODEL, T, store="f32") as trace:
        for first in range(0, T, 7):
            for at in range(3):
                for name, heads, seed in (("query", 4, at), ("key", 2, 40 + at), ("value", 2, 60 + at)):
                    trace.add(at, first, name, numbers(heads, T, 8, seed=seed)[:, first:first + 7])
        for at in range(3):
            trace.add_output_weight(at, numbers(4, 8, 12, seed=20 + at))
        trace.finish(np.arange(T))
    with h5py.File(whole) as a, h5py.File(tmp_path / "blocks.h5") as b:
        names: list[str] = []
        a.visititems(lambda name, one: names.append(name) if isinstance(one, h5py.Dataset) else None)
        assert all((a[name][()] == b[name][()]).all() for name in names) and len(names) > 15


def test_tensors_and_large_numbers(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    states = {name: torch.randn(heads, T, 8, dtype=torch.bfloat16)
              for name, heads in (("query", 4), ("key", 2), ("value", 2))}
    states["value"][0, 3, 1] = 1e6
    with kvloupe.TraceWriter(tmp_path / "t.h5", dataclasses.replace(MODEL, layers=1), T) as trace:
        trace.add_layer(0, **states)
        trace.finish(range(T))
        assert trace.notes == ["layers/0/value: a number overflows float16; the dataset is float32"]
    with h5py.File(tmp_path / "t.h5") as file:
        assert (file["layers/0/query"][:] == states["query"].half().numpy()).all()


def refused(why: str, folder: Path, act: Any, layers: list[kvloupe.Layer] | None = None) -> None:
    """One line, and no file is left."""
    with pytest.raises(kvloupe.KvloupeError, match=why) as caught:
        with kvloupe.TraceWriter(folder / "t.h5", MODEL, T, layers=layers) as trace:
            act(trace)
    assert "\n" not in str(caught.value) and not list(folder.iterdir())


def test_what_is_refused(tmp_path: Path) -> None:
    query, key = numbers(4, T, 8), numbers(2, T, 8)
    bad = key.copy()
    bad[1, 17, 3] = np.nan
    gate = np.ones((T, 32))
    gate[4, 20] = np.inf
    def full(trace: kvloupe.TraceWriter) -> None:
        for at, own in enumerate(trace.layers):
            more = {} if own.value_is_key_prefix else {"value": key}
            trace.add_layer(at, query=query, key=key[:own.kv_heads], **more)

    for why, act in {
        r"layer 1: query has the shape \[30, 4, 8\] instead of \[4, tokens, 8\]; look at the order of its axes":
            lambda trace: trace.add(1, 0, "query", query.transpose(1, 0, 2)),
        "layer 2, head 1, token 17: key is not finite":
            lambda trace: trace.add_layer(2, query=query, key=bad, value=key),
        "layer 0, head 2, token 4: gate is not finite": lambda trace: trace.add(0, 0, "gate", gate),
        "layer 0: key of the tokens 8 to 9 comes after 4 of 30 tokens; give blocks in order": lambda trace: [
            trace.add(0, 0, "key", key[:, :4]), trace.add(0, 8, "key", key[:, 8:10])],
        "layer 3: the model has layers 0 to 2": lambda trace: trace.add(3, 0, "key", key),
        "layer 0: has no value; give one": lambda trace: trace.add_layer(0, query=query, key=key),
        "layer 1: has key of 20 tokens, but the trace has 30": lambda trace: [
            trace.add_layer(0, query=query, key=key, value=key), trace.add(1, 0, "query", query),
            trace.add(1, 0, "key", key[:, :20]), trace.finish(range(T))],
        "layer 0: output_weight comes before the values of all tokens": lambda trace: trace.add_output_weight(
            0, numbers(4, 8, 12)),
        r"layer 0: output_weight has the shape \[12, 4, 8\] instead of \[4, 8, 12\]": lambda trace: trace.add_layer(
            0, query=query, key=key, value=key, output_weight=numbers(12, 4, 8)),
        "the states are complex": lambda trace: trace.add(0, 0, "query", query * 1j),
        "29 ids for 30 tokens": lambda trace: [full(trace), trace.finish(range(29))],
        "token 70 is outside the model's vocabulary of 50": lambda trace: [full(trace), trace.finish([70] * T)],
        "3 texts for 30 tokens": lambda trace: [full(trace), trace.finish(range(T), texts=["a"] * 3)],
        "prompt_length 31: the trace has 30 tokens": lambda trace: [full(trace), trace.finish(
            range(T), run={"prompt_length": 31})],
        "given 6: 5 tokens follow the prompt": lambda trace: [full(trace), trace.finish(
            range(T), run={"prompt_length": 25, "given": 6})],
    }.items():
        refused(why, tmp_path, act)
    plain = kvloupe.Layer
    for why, layers in {
        "2 layers are described, but the model has 3": [plain(), plain()],
        "layer 1: kind 'linear' is not one of attention, none, shared, latent": [
            plain(), plain(kind="linear"), plain()],
        "layer 0: shares_with is 1; give an earlier layer that has keys of its own": [
            plain(kind="shared", shares_with=1), plain(), plain()],
        "layer 2: shares_with is 1; give an earlier": [
            plain(), plain(kind="none"), plain(kind="shared", shares_with=1)],
        "layer 1: shares_with is for layers of kind shared": [plain(), plain(shares_with=0), plain()],
        "layer 0: 4 query heads, 3 key-value heads": [plain(kv_heads=3), plain(), plain()],
        "layer 0: values of 9 numbers are no part of keys of 8": [
            plain(value_dim=9, value_is_key_prefix=True), plain(), plain()],
        "layer 1: has a window of 4 and chunks of 8": [plain(), plain(window=4, chunk=8), plain()],
        "layer 2: reads latents, whose width says nothing about the scale": [
            plain(), plain(), plain(kind="latent", value_dim=6)],
        "layer 1: a layer of kind none has no query of its own": [plain(), plain(kind="none"), plain()],
    }.items():
        refused(why, tmp_path, lambda trace: [full(trace), trace.finish(range(T))], layers)
    with pytest.raises(kvloupe.KvloupeError, match="0 tokens: a trace has at least one"):
        kvloupe.TraceWriter(tmp_path / "t.h5", MODEL, 0)
    with pytest.raises(kvloupe.KvloupeError, match="is not open; write it in a block"):
        kvloupe.TraceWriter(tmp_path / "t.h5", MODEL, T).add(0, 0, "query", query)


def test_a_reader_refuses_what_cannot_be(tmp_path: Path) -> None:
    path = write(tmp_path / "t.h5", [kvloupe.Layer(), kvloupe.Layer(), kvloupe.Layer(kind="shared", shares_with=0)])
    for at, name, value, why in (
            (0, "num_kv_heads", 0, "0 key-value heads"), (0, "num_kv_heads", 3, "3 key-value heads.* cannot be"),
            (1, "num_heads", -4, "-4 query heads"), (0, "kind", "linear", "of the kind 'linear', which this version"),
            (0, "key_dim", "wide", "an attribute of layers/0 is missing or is none that the format knows"),
            (0, "chunk_size", -1, "chunks of -1"), (2, "shares_with", 2, "shares the keys of layer 2, which has none"),
            (2, "shares_with", 7, "shares the keys of layer 7"), (1, "rope_scaling", "{", "an attribute of layers/1"),
            (0, "value_dim", 2 ** 40, None)):
        with h5py.File(path, "r+") as file:
            before = dict(file[f"layers/{at}"].attrs)
            file[f"layers/{at}"].attrs[name] = value
        with kvloupe.open(path) as trace:
            if why is None:  # more than the file holds: nothing is allocated for it
                assert trace.value(0, 0).shape == (T, 8)
            else:
                with pytest.raises(kvloupe.KvloupeError, match=why):
                    trace.layer(at)
        with h5py.File(path, "r+") as file:
            del file[f"layers/{at}"].attrs[name]
            file[f"layers/{at}"].attrs.update(before)


def example() -> str:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if block.startswith("# turn a dump into a trace"))


@pytest.mark.parametrize("ending", [".npz", ".safetensors"])
def test_the_example_of_the_manual(ending: str, tmp_path: Path) -> None:
    dump = {"ids": np.arange(T)}
    for at in range(3):
        dump |= {f"query.{at}": numbers(4, T, 8, seed=at).astype(np.float32),
                 f"key.{at}": numbers(2, T, 8, seed=40 + at).astype(np.float32),
                 f"value.{at}": numbers(2, T, 8, seed=60 + at).astype(np.float32)}
    if ending == ".npz":
        np.savez(tmp_path / "dump.npz", **dump)
    else:
        pytest.importorskip("safetensors.numpy").save_file(dump, str(tmp_path / "dump.safetensors"))
    (tmp_path / "example.py").write_text(example(), encoding="utf-8")
    done = subprocess.run([sys.executable, str(tmp_path / "example.py"), str(tmp_path / f"dump{ending}"),
                           str(tmp_path / "t.h5")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with kvloupe.open(tmp_path / "t.h5") as trace, h5py.File(tmp_path / "t.h5") as file:
        assert len(trace) == T and file.attrs["format_version"] == 1
        assert np.abs(trace.key(2, 1) - dump["key.2"][1]).max() < 2e-3
        rows = trace.attention(1, 3)
        logits = trace.query(1, 3).astype(np.float64) @ trace.key(1, 1).T * 8 ** -0.5
        mine = np.exp(logits - file["layers/1/attention_logsumexp"][3][:, None])
        assert np.abs(np.tril(mine) - rows).max() < 1e-5
