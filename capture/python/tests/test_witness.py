"""Two programs that share no line, transformers and kvloupe-capture, agree on every number."""
from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

import kvloupe  # noqa: E402


def program() -> str:
    beside = [folder / "build" / "bin" / "kvloupe-capture" for folder in Path(__file__).resolve().parents]
    found = os.environ.get("KVLOUPE_CAPTURE") or shutil.which("kvloupe-capture") or next(
        (str(path) for path in beside if path.is_file()), "")
    if not found:
        pytest.skip("kvloupe-capture is not built")
    return found


SHAPE = dict(vocab_size=211, hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=512, initializer_range=0.3,
             bos_token_id=1, eos_token_id=2)
YARN = dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64, rope_theta=10000.0)
LLAMA3 = dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64, rope_theta=500000.0)
LINEAR = dict(rope_type="linear", factor=2.0, rope_theta=10000.0)
FAMILIES = {
    "llama": ("Llama", {}),
    "llama tied": ("Llama", dict(tie_word_embeddings=True)),
    "llama biases": ("Llama", dict(attention_bias=True)),
    "llama one kv head": ("Llama", dict(num_key_value_heads=1)),
    "llama all kv heads": ("Llama", dict(num_key_value_heads=6)),
    "llama linear": ("Llama", dict(rope_parameters=LINEAR)),
    "llama yarn": ("Llama", dict(rope_parameters=YARN)),
    "llama llama3": ("Llama", dict(rope_parameters=LLAMA3)),
    "mistral": ("Mistral", dict(sliding_window=None)),
    "mistral window": ("Mistral", dict(sliding_window=24)),
    "qwen2": ("Qwen2", dict(use_sliding_window=False)),
    "qwen3": ("Qwen3", dict(use_sliding_window=False)),
}

EVERY = dict(FAMILIES)


def made(family: str | tuple, folder: Path, shard: str = "5GB"):
    name, change = EVERY[family]
    torch.manual_seed(7)
    config = getattr(transformers, f"{name}Config")(**(SHAPE | change))
    model = getattr(transformers, f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # norms and biases are ones and zeros: give them values
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder, max_shard_size=shard)
    return type(model).from_pretrained(folder, dtype=torch.float32).eval()


def difference(a: h5py.File, b: h5py.File, path: str) -> float:
    """The largest one, of numbers with a size of about 1."""
    x, y = a[path][:].astype(np.float64), b[path][:].astype(np.float64)
    assert x.shape == y.shape, path
    return float(np.nanmax(np.abs(x - y) / np.maximum(1.0, np.abs(y))))


@pytest.mark.parametrize("block", [1, 7, 64, 90])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_states_and_predictions_agree(family: str, block: int, tmp_path: Path) -> None:
    model = made(family, tmp_path / "model", "60KB" if block == 7 else "5GB")
    ids = np.random.default_rng(3).integers(3, SHAPE["vocab_size"], 90)
    kvloupe.capture(model, None, ids, tmp_path / "python.h5", block=block, generate=6, store="f32")
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
    done = subprocess.run(
        [program(), "run", "--model", str(tmp_path / "model"), "--ids", str(tmp_path / "ids.txt"), "--block",
         str(block), "--generate", "6", "--dtype", "f32", "--store", "f32", "--attention", "none", "--progress",
         "none", "-o", str(tmp_path / "cpp.h5")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "python.h5") as ours, h5py.File(tmp_path / "cpp.h5") as theirs:
        assert ours["tokens/ids"][:].tolist() == theirs["tokens/ids"][:].tolist(), "greedy texts differ"
        assert ours["run/blocks"][:].tolist() == theirs["run/blocks"][:].tolist()
        for name in ("num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "vocab_size",
                     "rope_theta", "sliding_window", "fingerprint"):
            assert ours["model"].attrs[name] == theirs["model"].attrs[name], name
        assert np.isclose(ours["run"].attrs["attention_scale"], theirs["run"].attrs["attention_scale"])
        for layer in range(SHAPE["num_hidden_layers"]):
            for name in ("query", "key", "value", "attention_logsumexp", "output_weight", "value_out_norm_l1",
                         "value_out_norm_l2"):
                assert difference(ours, theirs, f"layers/{layer}/{name}") < 1e-4, (layer, name)
        for name in ("logprob", "hidden", "loss"):
            assert difference(ours, theirs, f"predictions/{name}") < 1e-4, name
        # Of equal probabilities either order will do.
        same = ours["predictions/token_ids"][:] == theirs["predictions/token_ids"][:]
        assert same.mean() > 0.99


OTHERS = {
    "olmo2": ("Olmo2", {}),
    "phi3": ("Phi3", dict(pad_token_id=0)),
    "gemma": ("Gemma", {}),
    "granite": ("Granite", dict(attention_multiplier=0.2)),
    "mixtral": ("Mixtral", dict(num_local_experts=4)),
    "qwen2 moe": ("Qwen2Moe", dict(num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16)),
    "qwen3 moe": ("Qwen3Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "cohere": ("Cohere", {}),
    "stablelm": ("StableLm", dict(partial_rotary_factor=0.5)),
}
EVERY.update(OTHERS)


@pytest.mark.parametrize("family", list(EVERY))
def test_attention_computed_from_a_trace_is_the_models_own(family: str, tmp_path: Path) -> None:
    model = made(family, tmp_path / "model")
    ids = np.random.default_rng(5).integers(3, SHAPE["vocab_size"], 60)
    kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=16, store="f32")
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        out = model(torch.tensor(ids)[None], output_attentions=True, output_hidden_states=True)
    with kvloupe.open(tmp_path / "t.h5") as trace, h5py.File(tmp_path / "t.h5") as file:
        for layer in range(3):
            for head in range(trace.model["num_heads"]):
                mine = trace.attention(layer, head)
                assert np.abs(mine - out.attentions[layer][0, head].numpy()).max() < 2e-5, (layer, head)
                logits = (trace.query(layer, head).astype(np.float64) @ trace.key(layer, trace.head_of(head)).T
                          * trace.run["attention_scale"])
                seen = out.attentions[layer][0, head].numpy() > 0.0
                summed = np.log(np.where(seen, np.exp(logits), 0.0).sum(-1))
                assert np.abs(file[f"layers/{layer}/attention_logsumexp"][head] - summed).max() < 1e-4
        assert np.abs(trace.attention(1, 2, [5, 59]) - trace.attention(1, 2)[[5, 59]]).max() == 0.0
        expected = torch.log_softmax(out.logits[0].float(), -1).topk(5).values.numpy()
        assert np.abs(file["predictions/logprob"][:] - expected).max() < 1e-4


REFUSED = {
    "gemma 2": ("Gemma2", dict(query_pre_attn_scalar=8), "sliding window"),
    "gpt-oss": ("GptOss", dict(num_local_experts=4), "sliding window"),
}


@pytest.mark.parametrize("family", REFUSED)
def test_what_a_trace_cannot_say_is_refused(family: str, tmp_path: Path) -> None:
    name, change, why = REFUSED[family]
    EVERY[family] = (name, change)
    with pytest.raises(kvloupe.KvloupeError, match=why):
        kvloupe.capture(made(family, tmp_path / "model"), None, [5, 6, 7], tmp_path / "t.h5")
    assert not (tmp_path / "t.h5").exists()


def test_errors_are_one_line_and_leave_nothing(tmp_path: Path) -> None:
    model = made("llama", tmp_path / "model")
    before = set(tmp_path.iterdir())
    with pytest.raises(kvloupe.KvloupeError, match="outside the model's vocabulary"):
        kvloupe.capture(model, None, [1, 999], tmp_path / "t.h5")
    with pytest.raises(kvloupe.KvloupeError, match="positions for 512"):
        kvloupe.capture(model, None, [5] * 600, tmp_path / "t.h5")
    with pytest.raises(kvloupe.KvloupeError, match="cannot be written"):
        kvloupe.capture(model, None, [5, 6], tmp_path / "no folder" / "t.h5")
    with torch.no_grad():
        model.model.layers[1].self_attn.v_proj.weight[0, 0] = float("nan")
    with pytest.raises(kvloupe.KvloupeError, match="layer 1, head 0, token 0: value is not finite"):
        kvloupe.capture(model, None, [5, 6], tmp_path / "t.h5")
    assert set(tmp_path.iterdir()) == before
    assert model.config._attn_implementation != "kvloupe"
