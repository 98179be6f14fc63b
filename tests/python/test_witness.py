"""Two programs that share no line, transformers and kvloupe-capture, agree on every number."""
from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe


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
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    with torch.no_grad():
        for part, parameter in model.named_parameters():  # norms and biases are ones and zeros: give them values
            if parameter.dim() == 1 or part.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder, max_shard_size=shard)
    return type(model).from_pretrained(folder, dtype=torch.float32).eval()


def difference(a: h5py.File, b: h5py.File, path: str) -> float:
    """The largest one, of numbers with a size of about 1."""
    x, y = a[path][:].astype(np.float64), b[path][:].astype(np.float64)
    assert x.shape == y.shape, path
    return float(np.nanmax(np.abs(x - y) / np.maximum(1.0, np.abs(y))))


def compare(model: Any, folder: Path, block: int, tmp_path: Path) -> None:
    """Captures the model in Python, and the folder with the program, and compares every number of the traces; those of
    the program also with the logits of the model's own attention."""
    ids = np.random.default_rng(3).integers(3, SHAPE["vocab_size"], 90)
    kvloupe.capture(model, None, ids, tmp_path / "python.h5", block=block, generate=6, store="f32")
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
    done = subprocess.run(
        [program(), "run", "--model", str(folder), "--ids", str(tmp_path / "ids.txt"), "--block",
         str(block), "--generate", "6", "--dtype", "f32", "--store", "f32", "--attention", "none", "--progress",
         "none", "-o", str(tmp_path / "cpp.h5")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "python.h5") as ours, h5py.File(tmp_path / "cpp.h5") as theirs:
        assert ours["tokens/ids"][:].tolist() == theirs["tokens/ids"][:].tolist(), "greedy texts differ"
        assert ours["run/blocks"][:].tolist() == theirs["run/blocks"][:].tolist()
        for name in ("num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "vocab_size",
                     "rope_theta", "sliding_window"):
            assert ours["model"].attrs[name] == theirs["model"].attrs[name], name
        assert np.isclose(ours["run"].attrs["attention_scale"], theirs["run"].attrs["attention_scale"])
        for layer in range(SHAPE["num_hidden_layers"]):
            a, b = ours[f"layers/{layer}"], theirs[f"layers/{layer}"]
            for name in ("sliding_window", "attention_softcap", "attention_scale", "rope_theta"):
                assert a.attrs.get(name) == b.attrs.get(name), (layer, name)
            assert ("sink_logits" in a) == ("sink_logits" in b)
            assert "sink_logits" not in a or a["sink_logits"][:].tolist() == b["sink_logits"][:].tolist()
            for name in ("query", "key", "value", "attention_logsumexp", "output_weight", "value_out_norm_l1",
                         "value_out_norm_l2"):
                assert difference(ours, theirs, f"layers/{layer}/{name}") < 1e-4, (layer, name)
            assert difference(ours, theirs, f"layers/{layer}/residual_change") < 1e-4, layer
            assert ours[f"layers/{layer}/residual_change"][0] == 0.0
        for name in ("predictions/logprob", "predictions/hidden", "predictions/loss"):
            assert difference(ours, theirs, name) < 1e-4, name
        for name in ("predictions/final_rms", "model/final_norm"):
            assert (name in ours) == (name in theirs), name
            assert name not in ours or difference(ours, theirs, name) < 1e-4, name
        for name in ("lm_head", "lm_head_rows", "lm_head_row_ids"):
            assert (name in ours["model"]) == (name in theirs["model"]), name
            assert name not in ours["model"] or difference(ours, theirs, f"model/{name}") < 1e-6, name
        model.set_attn_implementation("eager")
        with torch.inference_mode():
            logits = model(torch.tensor(theirs["tokens/ids"][:][None]), use_cache=False).logits[0].double()
        named = torch.tensor(theirs["predictions/token_ids"][:]).long()
        eager = torch.log_softmax(logits, -1).gather(-1, named).numpy()
        assert np.abs(theirs["predictions/logprob"][:] - eager).max() < 1e-4
        # Of equal probabilities either order will do.
        same = ours["predictions/token_ids"][:] == theirs["predictions/token_ids"][:]
        assert same.mean() > 0.99


def same_fingerprint(tmp_path: Path) -> bool:
    with h5py.File(tmp_path / "python.h5") as ours, h5py.File(tmp_path / "cpp.h5") as theirs:
        return ours["model"].attrs["fingerprint"] == theirs["model"].attrs["fingerprint"]


@pytest.mark.parametrize("block", [1, 7, 64, 90])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_states_and_predictions_agree(family: str, block: int, tmp_path: Path) -> None:
    model = made(family, tmp_path / "model", "60KB" if block == 7 else "5GB")
    compare(model, tmp_path / "model", block, tmp_path)
    assert same_fingerprint(tmp_path)


@pytest.mark.parametrize("family", ["llama", "mistral window", "qwen3", "olmo2", "gemma 3", "gpt-oss"])
def test_probes_agree(family: str, tmp_path: Path) -> None:
    model = made(family, tmp_path / "model")
    ids = np.random.default_rng(3).integers(3, SHAPE["vocab_size"], 70)
    kvloupe.capture(model, None, ids, tmp_path / "python.h5", block=16, store="f32", probe="reread")
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
    done = subprocess.run(
        [program(), "run", "--model", str(tmp_path / "model"), "--ids", str(tmp_path / "ids.txt"), "--block", "32",
         "--probe", "reread", "--dtype", "f32", "--store", "f32", "--attention", "none", "--progress", "none", "-o",
         str(tmp_path / "cpp.h5")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    with h5py.File(tmp_path / "python.h5") as ours, h5py.File(tmp_path / "cpp.h5") as theirs:
        for name in ("ids", "passes"):
            assert ours[f"probe/{name}"][:].tolist() == theirs[f"probe/{name}"][:].tolist()
        for name in ("kind", "context_end"):
            assert ours["probe"].attrs[name] == theirs["probe"].attrs[name]
        for layer in range(SHAPE["num_hidden_layers"]):
            for name in ("probe_query", "probe_key", "probe_input_norm", "query", "key"):
                assert difference(ours, theirs, f"layers/{layer}/{name}") < 1e-4, (layer, name)


OTHERS = {
    "olmo2": ("Olmo2", {}),
    "phi3": ("Phi3", dict(pad_token_id=0)),
    "gemma": ("Gemma", {}),
    "granite": ("Granite", dict(attention_multiplier=0.2)),
    "granite factors": ("Granite", dict(attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.6,
                                        logits_scaling=2.5, attention_bias=True, mlp_bias=True)),
    "mixtral": ("Mixtral", dict(num_local_experts=4)),
    "qwen2 moe": ("Qwen2Moe", dict(num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16)),
    "qwen3 moe": ("Qwen3Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)),
    "qwen3 moe sums": ("Qwen3Moe", dict(num_experts=6, num_experts_per_tok=3, moe_intermediate_size=16,
                                        norm_topk_prob=True, mlp_only_layers=[1])),
    "cohere": ("Cohere", {}),
    "stablelm": ("StableLm", dict(partial_rotary_factor=0.5)),
}
EVERY.update(OTHERS)


MIXED = dict(layer_types=["sliding_attention", "full_attention", "sliding_attention"], sliding_window=20)
# Soft caps, sink logits, layers with and without a window, rotations that differ, partial and absent rotation.
SPECIAL = {
    "gemma 2": ("Gemma2", dict(query_pre_attn_scalar=8, attn_logit_softcapping=3.0, final_logit_softcapping=5.0) | MIXED),
    "gemma 3": ("Gemma3Text", dict(query_pre_attn_scalar=8, rope_parameters={
        "sliding_attention": dict(rope_type="default", rope_theta=10000.0),
        "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0)}) | MIXED),
    "gpt-oss": ("GptOss", dict(num_local_experts=4, num_experts_per_tok=2, rope_parameters=YARN | dict(
        truncate=False)) | MIXED),
    "olmo3": ("Olmo3", MIXED),
    "qwen2 mixed": ("Qwen2", dict(use_sliding_window=True) | MIXED),
    "qwen2 moe mixed": ("Qwen2Moe", dict(num_experts=4, moe_intermediate_size=16, shared_expert_intermediate_size=16,
                                         use_sliding_window=True) | MIXED),
    "phi3 window": ("Phi3", dict(pad_token_id=0, sliding_window=20)),
    "mixtral window": ("Mixtral", dict(num_local_experts=4, sliding_window=20)),
    "smollm3": ("SmolLM3", dict(no_rope_layers=[1, 0, 1], pad_token_id=0)),
    "cohere2": ("Cohere2", MIXED),
    "glm": ("Glm", dict(pad_token_id=0, partial_rotary_factor=0.5)),
}
EVERY.update(SPECIAL)


# Of those, the ones that kvloupe-capture runs: layers that differ, other norms, factors, experts.
MORE = ["phi3", "phi3 window", "granite", "granite factors", "smollm3", "olmo2", "gemma 2", "gemma 3", "mixtral",
        "mixtral window", "qwen3 moe", "qwen3 moe sums", "gpt-oss"]


@pytest.mark.parametrize("family", MORE)
def test_more_families_agree(family: str, tmp_path: Path) -> None:
    compare(made(family, tmp_path / "model"), tmp_path / "model", 23, tmp_path)
    assert same_fingerprint(tmp_path)


def test_experts_in_mxfp4_agree(tmp_path: Path) -> None:
    """Against a model with the weights that transformers expands the same blocks and scales to."""
    from safetensors.torch import load_file, save_file
    from transformers.integrations.mxfp4 import convert_moe_packed_tensors

    EVERY["gpt-oss 64"] = ("GptOss", EVERY["gpt-oss"][1] | dict(hidden_size=64))
    model, folder = made("gpt-oss 64", tmp_path / "plain"), tmp_path / "packed"
    folder.mkdir()
    weights = load_file(tmp_path / "plain" / "model.safetensors")
    random = torch.Generator().manual_seed(5)
    for name in [name for name in weights if name.endswith(("gate_up_proj", "down_proj"))]:
        experts, inputs, outputs = weights.pop(name).shape
        blocks = torch.randint(0, 256, (experts, outputs, inputs // 32, 16), generator=random, dtype=torch.uint8)
        scales = torch.randint(123, 126, (experts, outputs, inputs // 32), generator=random, dtype=torch.uint8)
        weights |= {f"{name}_blocks": blocks, f"{name}_scales": scales}
        part = model.get_parameter(name)
        with torch.no_grad():
            part.copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((tmp_path / "plain" / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "mxfp4"}
    (folder / "config.json").write_text(json.dumps(config))
    compare(model, folder, 23, tmp_path)


def rotations(model: Any) -> tuple[dict[int, np.ndarray], list[Any]]:
    """Keys of each layer before the rotation, [Hk, T, d], where the model has a module that gives them."""
    found: dict[int, np.ndarray] = {}

    def hook(layer: int, heads: int):
        def keep(module: Any, arguments: Any, output: Any) -> None:
            out = output[0].float().numpy()
            tokens = out.size // (heads * SHAPE["head_dim"])
            if out.ndim == 3 and out.shape[0] == heads and tokens != heads:
                found[layer] = out
            else:
                found[layer] = out.reshape(tokens, heads, -1).transpose(1, 0, 2)
        return keep

    hooks = []
    for at, layer in enumerate(model.model.layers):
        attention = layer.self_attn
        part = getattr(attention, "k_norm", None) or getattr(attention, "k_proj", None)
        if part is not None:
            hooks.append(part.register_forward_hook(hook(at, model.config.num_key_value_heads)))
    return found, hooks


@pytest.mark.parametrize("family", list(EVERY))
def test_attention_computed_from_a_trace_is_the_models_own(family: str, tmp_path: Path) -> None:
    model = made(family, tmp_path / "model")
    ids = np.random.default_rng(5).integers(3, SHAPE["vocab_size"], 60)
    before = model.config._attn_implementation
    kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=16, store="f32")
    assert model.config._attn_implementation == before
    model.set_attn_implementation("eager")
    plain, hooks = rotations(model)
    with torch.inference_mode():
        out = model(torch.tensor(ids)[None], output_attentions=True, output_hidden_states=True)
    for hook in hooks:
        hook.remove()
    with kvloupe.open(tmp_path / "t.h5") as trace, h5py.File(tmp_path / "t.h5") as file:
        for layer in range(3):
            settings = trace.layer(layer)
            for head in range(trace.model["num_heads"]):
                mine = trace.attention(layer, head)
                assert np.abs(mine - out.attentions[layer][0, head].numpy()).max() < 2e-5, (layer, head)
                logits = (trace.query(layer, head).astype(np.float64) @ trace.key(layer, trace.head_of(head)).T
                          * settings.scale)
                if settings.softcap:
                    logits = settings.softcap * np.tanh(logits / settings.softcap)
                seen = np.tri(60, dtype=bool)
                if settings.window:
                    seen &= ~np.tri(60, k=-settings.window, dtype=bool)
                terms = np.where(seen, np.exp(logits), 0.0).sum(-1)
                if settings.sink_logits is not None:
                    terms += np.exp(settings.sink_logits[head])
                assert np.abs(file[f"layers/{layer}/attention_logsumexp"][head] - np.log(terms)).max() < 1e-4
            if layer in plain and "factor" not in str(settings.rope_scaling):
                for head in range(trace.model["num_kv_heads"]):
                    undone = trace.key(layer, head, rotated=False)
                    assert np.abs(undone - plain[layer][head]).max() < 1e-4, (layer, head)
        assert np.abs(trace.attention(1, 2, [5, 59]) - trace.attention(1, 2)[[5, 59]]).max() == 0.0
        expected = torch.log_softmax(out.logits[0].float(), -1).topk(5).values.numpy()
        assert np.abs(file["predictions/logprob"][:] - expected).max() < 1e-4


def test_what_differs_between_layers_is_written(tmp_path: Path) -> None:
    ids = np.arange(3, 60)
    found = {}
    for family in SPECIAL:
        kvloupe.capture(made(family, tmp_path / family), None, ids, tmp_path / "t.h5", block=16)
        with h5py.File(tmp_path / "t.h5") as file:
            found[family] = [dict(file[f"layers/{layer}"].attrs) for layer in range(3)] + [dict(file["model"].attrs)]
            if family == "gpt-oss":
                model = made(family, tmp_path / family)
                for layer in range(3):
                    own = model.model.layers[layer].self_attn.sinks.detach().numpy()
                    assert file[f"layers/{layer}/sink_logits"][:].tolist() == own.tolist()
            else:
                assert "layers/0/sink_logits" not in file
    windows = lambda family: [one.get("sliding_window", found[family][-1]["sliding_window"]) for one in found[family]]
    for family in ("gemma 2", "gemma 3", "gpt-oss", "olmo3", "qwen2 mixed", "qwen2 moe mixed", "cohere2"):
        assert windows(family) == [20, 0, 20, 0], family
    for family in ("phi3 window", "mixtral window"):
        assert windows(family) == [20] * 4 and "sliding_window" not in found[family][0]
    assert [one.get("attention_softcap") for one in found["gemma 2"][:3]] == [3.0] * 3
    gemma = found["gemma 3"]
    assert gemma[3]["rope_theta"] == 1e6 and json.loads(gemma[3]["rope_scaling"])["factor"] == 8.0
    assert gemma[0]["rope_theta"] == 1e4 and gemma[0]["rope_scaling"] == "null" and "rope_theta" not in gemma[1]
    assert [one.get("rope_theta") for one in found["smollm3"][:3]] == [None, 0.0, None]
    assert found["cohere2"][1]["rope_theta"] == 0.0 and "rope_theta" not in found["cohere2"][0]
    assert found["glm"][3]["rotary_dim"] == 4 and found["glm"][3]["rope_pairing"] == "interleaved"
    assert "rotary_dim" not in gemma[3]


@pytest.mark.parametrize("family", list(SPECIAL))
def test_kvloupe_computes_with_what_differs_between_layers(family: str, tmp_path: Path) -> None:
    """The mass that a policy keeps, by kvloupe and from the model's own attention rows."""
    ids = np.random.default_rng(5).integers(3, SHAPE["vocab_size"], 60)
    kvloupe.capture(made(family, tmp_path / "model"), None, ids, tmp_path / "t.h5", block=16, store="f32")
    smaller = 0
    with kvloupe.open(tmp_path / "t.h5") as trace:
        for policy in ("sink", "h2o", "tova"):
            kept = kvloupe.replay(tmp_path / "t.h5", policy, 10, block=16)
            for head in kept["heads"]:
                layer, step = head["layer"], head["steps"][-1]
                window = trace.layer(layer).window
                assert min(step["retained"]) >= (60 + 1 - window if window else 0)
                for one in step["metrics"]["query_heads"]:
                    row = trace.attention(layer, one["query_head"], 59)[0].astype(np.float64)
                    rest = 1.0 - row.sum() if trace.layer(layer).sink_logits is not None else 0.0
                    mass = row[step["retained"]].sum() + rest
                    # The last query still had the token that leaves the window with this step.
                    leaving = row[60 - window] if window else 0.0
                    found = one["retained_mass"]
                    assert min(abs(found - mass), abs(found - mass - leaving)) < 1e-5, (policy, layer)
                    assert one["perturbation_l1"] <= one["bound_l1"] * (1 + 1e-6) + 1e-6
                    smaller += found < 0.999
    assert smaller > 20


def test_a_trace_of_the_first_layers_has_them_as_the_whole_one(tmp_path: Path) -> None:
    ids = np.random.default_rng(5).integers(3, SHAPE["vocab_size"], 60)
    for family in ("llama", "gemma 3"):
        model = made(family, tmp_path / family)
        kvloupe.capture(model, None, ids, tmp_path / "all.h5", block=16, generate=3)
        kvloupe.capture(model, None, ids, tmp_path / "some.h5", block=16, generate=3, layers=2)
        with h5py.File(tmp_path / "all.h5") as whole, h5py.File(tmp_path / "some.h5") as some:
            assert some["model"].attrs["num_layers"] == 2 and "layers/2" not in some
            for name in ("layers/0/key", "layers/1/attention_logsumexp", "layers/1/output_weight", "predictions/logprob"):
                assert (whole[name][:] == some[name][:]).all(), name
        kept = [kvloupe.replay(tmp_path / name, "h2o", 12, layers="0,1")["heads"] for name in ("all.h5", "some.h5")]
        assert kept[0] == kept[1]
    for wrong in (0, 4):
        with pytest.raises(kvloupe.KvloupeError, match="the model has 3"):
            kvloupe.capture(model, None, ids, tmp_path / "t.h5", layers=wrong)
    assert not (tmp_path / "t.h5").exists()


@pytest.mark.parametrize("kind", ["Llama", "Mistral", "Qwen2", "Qwen3", "Phi3", "Granite", "SmolLM3", "Olmo2", "Gemma2",
                                  "Gemma3Text", "Mixtral", "Qwen3Moe", "GptOss"])
def test_every_field_that_transformers_writes_is_known(kind: str, tmp_path: Path) -> None:
    config = getattr(transformers, f"{kind}Config")()
    config.architectures = [kind.removesuffix("Text") + "ForCausalLM"]
    (tmp_path / "config.json").write_text(config.to_json_string(use_diff=False))
    (tmp_path / "ids.txt").write_text("1 2 3")
    words = ("run", "--model", tmp_path, "--ids", tmp_path / "ids.txt", "--progress", "none", "-o", tmp_path / "t.h5")
    done = subprocess.run([program(), *map(str, words)], capture_output=True, text=True, check=False)
    assert "contains neither model.safetensors" in done.stderr, done.stderr  # the config has been read
