"""Traces that take their output projections from the cache folder."""
from __future__ import annotations

from pathlib import Path

import h5py
import numpy as np
import pytest

import kvloupe

FINGERPRINT, FORM = "v1:" + "ab" * 32, "bf16-f16"
LAYERS, QUERY_HEADS, HEADS, WIDTH, HIDDEN, TOKENS = 2, 4, 2, 8, 16, 12


def write_trace(path: Path, fingerprint: str = FINGERPRINT, form: str = FORM) -> None:
    random = np.random.default_rng(1)
    with h5py.File(path, "w") as trace:
        trace.attrs.update(format="kvloupe-trace", format_version=1, complete=1)
        trace.create_group("model").attrs.update(
            num_layers=LAYERS, num_heads=QUERY_HEADS, num_kv_heads=HEADS, head_dim=WIDTH, hidden_size=HIDDEN,
            vocab_size=50, fingerprint=fingerprint, shared_weights=form)
        trace.create_group("run").attrs.update(block_size=4, prompt_length=TOKENS, generated=0, attention_scale=0.3)
        trace["tokens/ids"] = np.arange(TOKENS)
        for layer in range(LAYERS):
            for name, count in ("query", QUERY_HEADS), ("key", HEADS), ("value", HEADS):
                trace[f"layers/{layer}/{name}"] = random.standard_normal((count, TOKENS, WIDTH)).astype(np.float16)


def write_weights(path: Path, hidden: int = HIDDEN, fingerprint: str = FINGERPRINT) -> np.ndarray:
    path.parent.mkdir(parents=True, exist_ok=True)
    weights = np.random.default_rng(2).standard_normal((LAYERS, QUERY_HEADS, WIDTH, hidden)).astype(np.float16)
    with h5py.File(path, "w") as file:
        file.attrs.update(format="kvloupe-weights", format_version=1, complete=1)
        file.create_group("model").attrs.update(fingerprint=fingerprint, shared_weights=FORM)
        for layer in range(LAYERS):
            file[f"layers/{layer}/output_weight"] = weights[layer]
    return weights


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    write_trace(tmp_path / "t.h5")
    return tmp_path / "cache/kvloupe/weights" / f"{FINGERPRINT[3:]}-{FORM}.h5"


def test_they_are_found(tmp_path: Path, kept: Path) -> None:
    weights = write_weights(kept)
    with kvloupe.open(tmp_path / "t.h5") as trace:
        assert np.array_equal(trace.output_weight(1, 3), weights[1, 3].astype(np.float32))
        with pytest.raises(kvloupe.KvloupeError, match="query heads 0 to 3"):
            trace.output_weight(0, 4)


def test_what_is_missing_is_said(tmp_path: Path, kept: Path) -> None:
    with kvloupe.open(tmp_path / "t.h5") as trace:
        assert trace.key(0, 1).shape == (TOKENS, WIDTH)  # all else can be read
        with pytest.raises(kvloupe.KvloupeError, match="is not there; kvloupe-capture pack"):
            trace.output_weight(0, 0)
        write_weights(kept, hidden=HIDDEN + 1)
        with pytest.raises(kvloupe.KvloupeError, match="weights of another model"):
            trace.output_weight(0, 0)
        write_weights(kept, fingerprint="v1:" + "0" * 64)
        with pytest.raises(kvloupe.KvloupeError, match="does not hold the weights of"):
            trace.output_weight(0, 0)
        kept.write_bytes(kept.read_bytes()[:200])
        with pytest.raises(kvloupe.KvloupeError, match="cannot be read"):
            trace.output_weight(0, 0)


@pytest.mark.parametrize("fingerprint, form", [("v1:../../x", FORM), (FINGERPRINT, "../f16"), ("", FORM)])
def test_no_fingerprint_leads_out_of_the_folder(tmp_path: Path, kept: Path, fingerprint: str, form: str) -> None:
    write_trace(tmp_path / "t.h5", fingerprint, form)
    with kvloupe.open(tmp_path / "t.h5") as trace, pytest.raises(kvloupe.KvloupeError, match="does not say where"):
        trace.output_weight(0, 0)
