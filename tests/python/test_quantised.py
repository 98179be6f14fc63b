"""Quantised models and adapters: states are ordinary numbers, W_O is what the output projection makes of unit vectors."""
from __future__ import annotations

import functools
import json
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
from kvloupe.describe import cache_argument
from kvloupe.linear import weight_of
from tiny_models import llama

IDS = list(range(3, 60))
model = functools.partial(llama, hidden_size=48, head_dim=24)


class EightBits(torch.nn.Module):
    """A linear layer of int8 numbers with one scale a row: nothing of it is called weight."""

    def __init__(self, linear: Any) -> None:
        super().__init__()
        whole = linear.weight.detach().float()
        self.register_buffer("scale", whole.abs().amax(1) / 127.0)
        self.register_buffer("numbers", (whole / self.scale[:, None]).round().to(torch.int8))
        self.bias = linear.bias

    def expanded(self) -> Any:
        return self.numbers.float() * self.scale[:, None]

    def forward(self, x: Any) -> Any:
        out = (x.float() @ self.expanded().T).to(x.dtype)
        return out if self.bias is None else out + self.bias


class Adapter(torch.nn.Module):
    """A low-rank change beside a layer, as LoRA has it: with dropout while it learns."""

    def __init__(self, base: Any, inputs: int, outputs: int) -> None:
        super().__init__()
        self.base_layer = base
        self.dropout = torch.nn.Dropout(0.5)
        self.a = torch.nn.Parameter(torch.randn(3, inputs) * 0.2)
        self.b = torch.nn.Parameter(torch.randn(outputs, 3) * 0.2)

    def forward(self, x: Any) -> Any:
        return self.base_layer(x) + self.dropout(x) @ self.a.to(x.dtype).T @ self.b.to(x.dtype).T


def swap(run: Any, change: Any, *names: str) -> Any:
    for layer in run.model.layers:
        for name in names:
            setattr(layer.self_attn, name, change(getattr(layer.self_attn, name)))
    return run


def captured(run: Any, folder: Path, **settings: Any) -> list[np.ndarray]:
    """The output projection of each layer, [Hq d, D]."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", kvloupe.KvloupeWarning)
        kvloupe.capture(run, None, IDS, folder / "t.h5", block=16, generate=2, **({"store": "f32"} | settings))
    with h5py.File(folder / "t.h5") as file:
        found = [file[f"layers/{layer}/output_weight"] for layer in range(2)]
        assert all(one.shape == (4, 24, 48) for one in found)
        return [one[:].reshape(96, 48) for one in found]


@pytest.mark.parametrize("kind", ["float32", "bfloat16", "float16"])
@pytest.mark.parametrize("bias", [False, True])
def test_an_ordinary_model(kind: str, bias: bool, tmp_path: Path) -> None:
    run = model(attention_bias=bias).to(getattr(torch, kind))
    for store in ("f32", "f16"):
        for layer, found in enumerate(captured(run, tmp_path, store=store)):
            own = run.model.layers[layer].self_attn.o_proj.weight.detach().float().numpy().T
            # 16 bits where the weights have no more
            assert found.dtype == (np.float32 if store == "f32" and kind == "float32" else np.float16)
            assert (found == own.astype(found.dtype)).all()


@pytest.mark.parametrize("bias", [False, True])
def test_unit_vectors_say_what_the_weights_are(bias: bool) -> None:
    linear = torch.nn.Linear(150, 70, bias=bias).eval()
    wrapped = torch.nn.Sequential(linear)
    plain, probed = (weight_of(one, 150, torch.float32, "cpu") for one in (linear, wrapped))
    assert (plain.rows == linear.weight.detach().numpy().T).all() and plain.bits == probed.bits == 32
    assert np.abs(probed.rows - plain.rows).max() <= (1e-7 if bias else 0.0)
    if bias:  # as large as it gets: 16 bits still say what the weights are
        with torch.no_grad():
            linear.bias.fill_(2.0)
    low = weight_of(wrapped.to(torch.bfloat16), 150, torch.bfloat16, "cpu")
    assert low.bits == 16 and np.abs(low.rows - plain.rows).max() < 4e-3 * np.abs(plain.rows).max() * (4 if bias else 1)
    assert "takes 150 numbers instead of 151" in weight_of(linear, 151, torch.float32, "cpu")
    assert "does not take 151 numbers" in weight_of(wrapped, 151, torch.bfloat16, "cpu")


def test_eight_bit_projections(tmp_path: Path) -> None:
    run = swap(model(attention_bias=True), EightBits, "q_proj", "k_proj", "v_proj", "o_proj")
    run.lm_head = EightBits(run.lm_head)
    for layer, found in enumerate(captured(run, tmp_path, lm_head=True)):
        own = run.model.layers[layer].self_attn.o_proj.expanded().numpy().T
        assert found.dtype == np.float16 and np.abs(found - own).max() < 1e-3 * np.abs(own).max()
    with h5py.File(tmp_path / "t.h5") as file:
        head = file["model/lm_head"][:]
        assert head.shape == (320, 48)
        assert np.abs(head - run.lm_head.expanded().numpy()).max() < 1e-3
        # The states are those that the quantised model computes.
        with torch.no_grad():
            cache = transformers.DynamicCache(config=run.config)
            run(torch.tensor([IDS]), use_cache=True, **{cache_argument(run): cache})
        keys = file["layers/1/key"][:][:, :len(IDS)]
        assert np.abs(keys - cache.layers[1].keys[0].numpy()).max() < 1e-4 * np.abs(keys).max()


@pytest.mark.parametrize("kind", [None, EightBits])
def test_the_rows_of_the_output_head_are_those_of_the_tokens(kind: Any, tmp_path: Path) -> None:
    run = model(vocab_size=4000)
    if kind is not None:
        run.lm_head = kind(run.lm_head)
    ids = [7, 3, 7, 3999, 3, 60, 7]
    kvloupe.capture(run, None, ids, tmp_path / "t.h5", generate=3, store="f32")
    kvloupe.capture(run, None, ids, tmp_path / "whole.h5", generate=3, store="f32", lm_head=True)
    with h5py.File(tmp_path / "t.h5") as file, h5py.File(tmp_path / "whole.h5") as whole:
        assert "lm_head" not in file["model"] and "lm_head_rows" not in whole["model"]
        kept = file["model/lm_head_row_ids"]
        assert kept.dtype == np.int32 and kept[:].tolist() == sorted(set(file["tokens/ids"][:].tolist()))
        rows = file["model/lm_head_rows"][:]
        assert rows.dtype == np.float16 and (rows == whole["model/lm_head"][:][kept[:]]).all()


def test_layers_that_torch_quantises(tmp_path: Path) -> None:
    quantised = pytest.importorskip("torch.ao.quantization")
    run = model()
    before = [layer.self_attn.o_proj.weight.detach().numpy().T for layer in run.model.layers]
    engine = torch.backends.quantized.supported_engines
    if "qnnpack" not in engine and "fbgemm" not in engine and "x86" not in engine:
        pytest.skip("this torch does not quantise")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = quantised.quantize_dynamic(run, {torch.nn.Linear}, dtype=torch.qint8)
    assert not isinstance(run.model.layers[0].self_attn.o_proj, torch.nn.Linear)
    for layer, found in enumerate(captured(run, tmp_path)):
        own = run.model.layers[layer].self_attn.o_proj.weight().dequantize().numpy().T
        assert found.dtype == np.float16 and np.abs(found - own).max() < 0.01 * np.abs(own).max()
        assert 0.0 < np.abs(found - before[layer]).max() < 0.02 * np.abs(own).max()


@pytest.mark.parametrize("base", ["ordinary", "quantised"])
def test_adapters(base: str, tmp_path: Path) -> None:
    run = swap(model(), lambda linear: Adapter(linear if base == "ordinary" else EightBits(linear), 96, 48), "o_proj")
    run.train()
    found = captured(run, tmp_path)
    assert run.training and run.model.layers[0].self_attn.o_proj.dropout.training
    for layer, one in enumerate(found):
        own = run.model.layers[layer].self_attn.o_proj
        whole = (own.base_layer.weight if base == "ordinary" else own.base_layer.expanded()) + own.b @ own.a
        assert one.dtype == (np.float32 if base == "ordinary" else np.float16)
        assert np.abs(one - whole.detach().numpy().T).max() < 1e-3


def test_an_output_projection_that_is_not_linear_is_left_out(tmp_path: Path) -> None:
    run = model()
    linear = run.model.layers[1].self_attn.o_proj
    run.model.layers[1].self_attn.o_proj = torch.nn.Sequential(linear, torch.nn.Tanh())
    with pytest.warns(kvloupe.KvloupeWarning, match="layer 1: o_proj is not linear: .* the trace has no W_O there") as told:
        kvloupe.capture(run, None, IDS, tmp_path / "t.h5")
    assert len([one for one in told if one.category is kvloupe.KvloupeWarning]) == 1
    with h5py.File(tmp_path / "t.h5") as file:
        assert "output_weight" in file["layers/0"] and "output_weight" not in file["layers/1"]
        assert "value_out_norm_l1" not in file["layers/1"]


def test_the_trace_says_that_the_weights_are_quantised(tmp_path: Path) -> None:
    """And a model that is quantised while it is loaded is not the one of its folder."""
    model().save_pretrained(tmp_path / "model")
    read = lambda: transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)

    def attributes(run: Any) -> dict[str, Any]:
        captured(run, tmp_path)
        with h5py.File(tmp_path / "t.h5") as file:
            return dict(file["model"].attrs)
    plain = attributes(read())
    assert plain["fingerprint"].startswith("v1:") and "weights_format" not in plain
    assert attributes(swap(read(), EightBits, "q_proj"))["fingerprint"].startswith("weights:")
    assert attributes(swap(read(), lambda linear: Adapter(linear, 96, 48), "o_proj"))["fingerprint"].startswith("weights:")
    run = read()
    run.config.quantization_config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    told = attributes(run)
    assert told["weights_format"] == "bitsandbytes" and told["fingerprint"].startswith("weights:")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    (tmp_path / "model" / "config.json").write_text(json.dumps(config | {"quantization_config": {"quant_method": "fp8"}}))
    assert attributes(run)["fingerprint"].startswith("v1:")  # the folder itself is quantised


def test_the_output_head_is_stored_on_demand_or_where_it_is_small(tmp_path: Path) -> None:
    run = model()  # 320 · 48 · 2 bytes
    states = lambda tokens, width: 2 * 8 * 24 * tokens * width
    for tokens, store, given, expected in ((20, "f16", False, False), (20, "f32", False, False), (42, "f16", False, True),
                                           (20, "f32", True, True), (39, "f16", False, False)):
        kvloupe.capture(run, None, list(range(3, 3 + tokens)), tmp_path / "t.h5", store=store, lm_head=given)
        with h5py.File(tmp_path / "t.h5") as file:
            assert ("lm_head" in file["model"]) == expected, (tokens, store)
            assert ("lm_head_rows" in file["model"]) == (not expected), "its rows in its place"
        assert given or expected == (states(tokens, 2 if store == "f16" else 4) > 320 * 48 * 2)


@pytest.mark.parametrize("name", ["cache", "past_key_values"])
def test_both_names_of_the_cache(name: str, tmp_path: Path) -> None:
    """transformers renamed past_key_values to cache; a wrapper's own signature may say neither."""
    run = model()
    other = cache_argument(run)

    class Old:
        def forward(self, input_ids: Any, past_key_values: Any = None) -> None: ...

    class New:
        def forward(self, input_ids: Any, cache: Any = None, past_key_values: Any = None) -> None: ...

    class Wrapper:
        def __init__(self, model: Any) -> None:
            self.model = model

        def forward(self, *positional: Any, **named: Any) -> None: ...
    own = New() if name == "cache" else Old()
    assert cache_argument(own) == cache_argument(Wrapper(own)) == name
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        kvloupe.capture(run, None, IDS, tmp_path / "t.h5", probe="reread")
    assert other in ("cache", "past_key_values")
