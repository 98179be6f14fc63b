"""Real models of three families beside transformers, from the same GGUF file: tokens, states, predictions, and what stays
while a policy acts. A model that scripts/real-model.sh NAME has not fetched is skipped."""
from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any, Iterator

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
from test_gguf import called

ROOT = Path(__file__).resolve().parents[2]
FILES = {"smollm2": "model.gguf", "gemma3": "gemma3.gguf", "qwen2.5": "qwen2.5.gguf"}
TOKENS = 600  # more than Gemma's window of 512
TEXT = "\n".join(line for line in (ROOT / "assets/prompts/real/document.txt").read_text().splitlines()
                 if not line.startswith("@@") and "<|" not in line)[:4000]


@pytest.fixture(scope="module", params=FILES)
def real(request: Any) -> Iterator[tuple[Path, Any, list[int]]]:
    """The file, transformers' model of it in float32, and the ids of a text by kvloupe-capture."""
    file = ROOT / "build" / "real-model" / FILES[request.param]
    if not file.is_file():
        pytest.skip(f"{file} is not there; scripts/real-model.sh {request.param} --fetch gets it")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = transformers.AutoModelForCausalLM.from_pretrained(file.parent, gguf_file=file.name, dtype=torch.float32).eval()
    told = called("tokens", "--model", file, "--text", TEXT, "--json", "-")
    assert told.returncode == 0, told.stderr
    yield file, model, json.loads(told.stdout)["ids"]


def run(file: Path, ids: list[int], trace: Path, *more: Any) -> Path:
    """A trace by the program, with all numbers in float32."""
    trace.with_suffix(".ids").write_text(" ".join(map(str, ids)))
    done = called("run", "--model", file, "--ids", trace.with_suffix(".ids"), "--dtype", "f32", "--store", "f32", "--block", 64,
                  "--progress", "none", *more, "-o", trace)
    assert done.returncode == 0, done.stderr
    return trace


def test_tokens(real: tuple[Path, Any, list[int]]) -> None:
    file, _, ids = real
    theirs = transformers.AutoTokenizer.from_pretrained(file.parent, gguf_file=file.name)
    # What transformers makes of SmolLM2's lists differs where digits stand (test_gguf.py).
    whole = theirs(TEXT)["input_ids"]
    assert len(ids) > TOKENS and (ids == whole or file.name == FILES["smollm2"])
    assert theirs.decode(ids, skip_special_tokens=True) == TEXT


def test_states_and_predictions(real: tuple[Path, Any, list[int]], tmp_path: Path) -> None:
    file, model, ids = real[0], real[1], real[2][:TOKENS]
    kvloupe.capture(model, None, ids, tmp_path / "python.h5", block=64, store="f32", progress=False)
    with h5py.File(run(file, ids, tmp_path / "gguf.h5")) as ours, h5py.File(tmp_path / "python.h5") as theirs:
        assert len(ours["layers"]) == len(theirs["layers"]) == model.config.num_hidden_layers
        for layer in range(len(ours["layers"])):
            for name in ("query", "key", "value", "output_weight", "attention_logsumexp"):
                x, y = (one[f"layers/{layer}/{name}"][:] for one in (ours, theirs))
                assert np.abs(x - y).max() <= 5e-5 * np.abs(y).max(), (layer, name)
        losses = [one["predictions/loss"][:-1] for one in (ours, theirs)]
        assert np.abs(losses[0] - losses[1]).max() < 2e-3
        assert (ours["predictions/token_ids"][:, 0] == theirs["predictions/token_ids"][:, 0]).mean() > 0.99
        with torch.inference_mode():
            logits = torch.log_softmax(model(torch.tensor([ids])).logits[0].double(), -1)
        expected = -logits[torch.arange(len(ids) - 1), torch.tensor(ids[1:])].numpy()
        assert np.abs(losses[0] - expected).max() < 2e-3


@pytest.mark.parametrize("policy", ["h2o+recent(25%)", "keydiff+sinks(4)"])
def test_decisions(real: tuple[Path, Any, list[int]], policy: str, tmp_path: Path) -> None:
    """A run of the program and one inside transformers evict the same tokens at the same steps, in every layer and head."""
    file, model, ids = real[0], real[1], real[2][:TOKENS]
    closed = run(file, ids, tmp_path / "c.h5", "--policy", policy, "--budget", "25%", "--generate", 4, "--attention", "none")
    kvloupe.run(model, None, ids, tmp_path / "p.h5", policy=policy, budget="25%", block=64, generate=4, store="f32", progress=False)
    with h5py.File(closed) as ours, h5py.File(tmp_path / "p.h5") as theirs:
        assert ours["tokens/ids"][:].tolist() == theirs["tokens/ids"][:].tolist()
        for layer in range(len(ours["layers"])):
            a, b = (one[f"layers/{layer}/evicted_at"][:] for one in (ours, theirs))
            assert (a >= 0).any() and np.array_equal(a, b), (layer, int((a != b).sum()))
