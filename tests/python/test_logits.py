"""From the residual stream to the logits: what traces say of the last norm, and the effect of a change on the logits,
beside transformers."""
from __future__ import annotations

import csv
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
from test_witness import EVERY, SHAPE, made


def captured(family: str, tmp_path: Path) -> tuple[Any, Path, list[str]]:
    """The model, a trace of it with its output head, and what the capture warned of."""
    model = made(family, tmp_path / "model")
    ids = np.random.default_rng(5).integers(3, SHAPE["vocab_size"], 50)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", kvloupe.KvloupeWarning)
        kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=16, store="f32", lm_head=True)
    return model, tmp_path / "t.h5", [str(one.message) for one in told]


class Ends:
    """What enters the last norm, and the logits of any other such input, in double precision."""

    def __init__(self, model: Any, ids: Any) -> None:
        self.model = model.double()
        self.norm = next(part for name in ("norm", "final_layernorm") if (part := getattr(model.model, name, None)))
        kept: list[Any] = []
        hook = self.norm.register_forward_pre_hook(lambda _, args: kept.append(args[0][0]))
        with torch.no_grad():
            model(torch.tensor([list(map(int, ids))]))
        hook.remove()
        self.residual = kept[0]  # [T, D]

    def logits(self, x: Any) -> Any:
        with torch.no_grad():
            return self.model.lm_head(self.norm(x[None, None]))[0, 0]

    def change(self, token: int, delta: Any) -> np.ndarray:
        """How the logits change with the residual stream at a token, to first order. The models' norms compute in
        float32: the step is a hundredth of the stream."""
        x = self.residual[token]
        step = 0.01 * float(x.norm() / delta.norm())
        return ((self.logits(x + step * delta) - self.logits(x - step * delta)) / (2 * step)).numpy()


@pytest.mark.parametrize("family", ["llama", "qwen3", "gemma", "phi3", "stablelm"])
def test_the_last_norm_is_the_models(family: str, tmp_path: Path) -> None:
    model, trace, told = captured(family, tmp_path)
    assert told == []
    with h5py.File(trace) as file:
        ids = file["tokens/ids"][:]
        weight, rms = file["model/final_norm"][:].astype(float), file["predictions/final_rms"][:].astype(float)
        bias = file["model/final_norm_bias"][:].astype(float) if "final_norm_bias" in file["model"] else 0.0
        centred, hidden = file["model/final_norm"].attrs.get("centred", 0), file["predictions/hidden"][:].astype(float)
        head = file["model/lm_head"][:].astype(float)
    assert (centred == 1) == (family == "stablelm")
    ends = Ends(model, ids)
    x = ends.residual.numpy()
    x = x - centred * x.mean(-1, keepdims=True)
    assert np.abs(rms / np.sqrt((x ** 2).mean(-1)) - 1.0).max() < 1e-3
    assert np.abs(weight * x / rms[:, None] + bias - hidden).max() < 1e-3 * np.abs(hidden).max()
    # The derivative that analysis/math/logit_path.h writes down.
    delta = np.random.default_rng(1).standard_normal(len(weight))
    for token in (0, 20, 49):
        normed, own = (hidden[token] - bias) / weight, delta - centred * delta.mean()
        formula = head @ (weight * (own - normed * (normed @ own) / len(own))) / rms[token]
        expected = ends.change(token, torch.tensor(delta))
        assert np.abs(formula - expected).max() < 2e-3 * np.abs(expected).max()


EVERY["granite factor"] = ("Granite", dict(residual_multiplier=0.4))
EVERY["granite scaled"] = ("Granite", dict(logits_scaling=3.0))
OTHERS = {"olmo2": "residual stream", "granite factor": "residual stream", "gemma 2": "residual stream",
          "cohere": "after the output head", "granite scaled": "after the output head"}


@pytest.mark.parametrize("family", list(OTHERS))
def test_a_model_that_does_something_else_says_so(family: str, tmp_path: Path) -> None:
    _, trace, told = captured(family, tmp_path)
    assert len(told) == 1 and OTHERS[family] in told[0], told
    with h5py.File(trace) as file:
        assert "final_norm" not in file["model"] and "final_rms" not in file["predictions"]
    with pytest.raises(kvloupe.KvloupeError, match="does not say what the last norm does"):
        kvloupe.figure(trace, "logit-effect", policy="h2o", budget="50%").save(tmp_path / "x.csv")
