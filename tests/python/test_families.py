"""Models of today's families: a trace alone gives the outputs of each layer that the model itself computes."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import kvloupe
import tiny_models as tiny
from needs import need
from warm_python import command_line

PROMPT = np.random.default_rng(5).integers(3, tiny.VOCABULARY, 44).tolist()
# Settings of models with states beside or in place of caches.
HYBRID = {"linear_key_head_dim", "mamba_d_state", "ssm_state_size", "block_auto_adjust_ff_dim"}
LATENT = ["DeepSeek-V2", "DeepSeek-V3", "GLM-4.7-Flash", "Mistral 4", "Kimi Linear", "MiniCPM3"]
GATED = ["AFMoE", "Beam", "Laguna, a gate per head", "Laguna, a gate per channel", "Qwen3-Next", "Qwen3.5", "Qwen3.5-MoE"]


def available(name: str) -> Any:
    kind, _, *classes = tiny.FAMILIES[name]
    need(classes[0] if classes else f"{kind}ForCausalLM")
    if tiny.FAMILIES[name][1].keys() & HYBRID:
        need("LinearAttentionLayer")
    return tiny.made(name)


def captured(name: str, folder: Path, **settings: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore" if name == "Jamba" else "error", kvloupe.KvloupeWarning)
        return kvloupe.capture(available(name), None, PROMPT, folder / "t.h5", **(dict(
            block=7, generate=3, store="f32") | settings))


def compare(name: str, path: Path) -> float:
    """Checks the trace against the untouched model; the largest difference, in units of the largest number."""
    with h5py.File(path) as file:
        ids, blocks = file["tokens/ids"][:].tolist(), file["run/blocks"][:].tolist()
        lse = {at: file[f"layers/{at}/attention_logsumexp"][:] for at in range(len(file["layers"]))
               if "query" in file[f"layers/{at}"]}
        norms = {at: file[f"layers/{at}/value_out_norm_l2"][:] for at in lse}
        logprob = file["predictions/logprob"][:]
    own, read, logits = tiny.own_outputs(tiny.made(name), ids, blocks)
    whole, _, _ = tiny.own_outputs(tiny.made(name), ids)
    mine = tiny.outputs_of(path)
    assert mine.keys() == own.keys(), "other layers have attention"
    worst = 0.0
    for at, one in mine.items():
        largest = np.abs(own[at]).max()
        worst = max(worst, np.abs(one["output"] - own[at]).max() / largest)
        # In blocks a scan sums in another order than in one pass, and these random weights amplify it.
        assert np.abs(one["output"] - whole[at]).max() < 1e-3 * largest, (at, "one pass")
        assert np.abs(one["lse"] - lse[at]).max() < 1e-4, at
        assert np.abs(one["norm_l2"] - norms[at]).max() < 1e-4 * norms[at].max(), at
        if one["heads"].shape == read[at].shape:  # latents have other widths
            assert np.abs(one["heads"] - read[at]).max() < 2e-5 * max(1.0, np.abs(read[at]).max()), at
    best = np.sort(logits - np.log(np.exp(logits - logits.max(-1, keepdims=True)).sum(-1, keepdims=True))
                   - logits.max(-1, keepdims=True))[:, :-6:-1]
    assert np.abs(best - logprob).max() < 2e-3
    return worst


@pytest.mark.parametrize("name", list(tiny.FAMILIES))
def test_the_outputs_of_a_trace_are_the_models(name: str, tmp_path: Path) -> None:
    assert compare(name, captured(name, tmp_path)) < 2e-5


@pytest.mark.parametrize("name", LATENT)
def test_so_are_those_of_expanded_heads(name: str, tmp_path: Path) -> None:
    path = captured(name, tmp_path, mla="expanded")
    assert compare(name, path) < 2e-5
    version, model, layers = tiny.attributes_of(path)
    assert version == 2 and model["mla"] == "expanded" and model["num_kv_heads"] == 6
    assert model["head_dim"] == 10 and model["rotary_start"] == 6 and model["rotary_dim"] == 4
    assert all(one.get("kind", "none") == "none" and one.get("value_dim", 10) == 10 for one in layers)


def test_what_each_layer_is(tmp_path: Path) -> None:
    found = {name: tiny.attributes_of(captured(name, tmp_path)) for name in (
        "Qwen3.5", "LFM2", "Nemotron-H", "Granite 4 hybrid", "Kimi Linear", "Jamba", "Falcon-H1", "Gemma 4, shared caches",
        "MiMo-V2-Flash", "gpt-oss", "Llama 4", "DeepSeek-V2", "DeepSeek-V3")}
    mixers = {name: [one.get("mixer", "") for one in layers] for name, (_, _, layers) in found.items()}
    assert mixers["Qwen3.5"] == ["gated delta net"] * 2 + ["", "gated delta net", ""]
    assert mixers["LFM2"] == ["short convolution"] * 2 + ["", "short convolution", ""]
    assert mixers["Nemotron-H"] == ["Mamba-2", "feed-forward", "", "mixture of experts", ""]
    assert mixers["Granite 4 hybrid"] == ["Mamba-2", "Mamba-2", "", "Mamba-2", ""]
    assert mixers["Kimi Linear"] == ["Kimi delta attention"] * 2 + ["", "Kimi delta attention", ""]
    assert mixers["Jamba"] == ["Mamba", "", "Mamba", "Mamba", ""]
    assert mixers["Falcon-H1"] == ["Mamba-2"] * 5  # beside the attention
    kinds = lambda name: [one.get("kind", "attention") for one in found[name][2]]
    assert kinds("Qwen3.5") == ["none", "none", "attention", "none", "attention"] and kinds("Falcon-H1") == ["attention"] * 5
    # 2 convolutions of 3 (Hq, Hk, Hv = 2, 2, 4 heads of 8) channels over 4 tokens, and 4 states of 8 × 8, in float32
    assert found["Qwen3.5"][2][0]["state_bytes"] == 4 * (64 * 4 + 4 * 8 * 8)
    assert all("state_bytes" not in found[name][2][at] for name, at in (("Qwen3.5", 2), ("Nemotron-H", 1), ("gpt-oss", 0)))
    assert found["Falcon-H1"][2][0]["state_bytes"] > 0
    gemma = found["Gemma 4, shared caches"][2]
    assert [one.get("shares_with") for one in gemma] == [None, None, 0, 0, 1]
    assert [one.get("key_dim", 8) for one in gemma[:2]] == [8, 16] and gemma[1]["num_kv_heads"] == 1
    assert found["Gemma 4, shared caches"][1]["head_dim"] == 8
    mimo = found["MiMo-V2-Flash"]
    assert mimo[1]["num_kv_heads"] == 4 and [one.get("num_kv_heads", 4) for one in mimo[2]] == [4, 4, 2, 4, 2]
    assert mimo[1]["head_dim"] == 12 and all(one["value_dim"] == 8 for one in mimo[2])
    assert found["gpt-oss"][0] == 1, "gpt-oss needs nothing new"
    assert [one.get("chunk_size", 0) for one in found["Llama 4"][2]] == [16, 16, 0, 16, 0]
    assert [one.get("rope_theta") for one in found["Llama 4"][2]] == [None, None, 0.0, None, 0.0]
    for name, pairing in (("DeepSeek-V2", "interleaved"), ("DeepSeek-V3", "half")):
        version, model, layers = found[name]
        assert version == 2 and model["mla"] == "latent" and model["rope_pairing"] == pairing
        assert (model["num_heads"], model["num_kv_heads"], model["head_dim"]) == (6, 1, 16)
        assert (model["rotary_start"], model["rotary_dim"]) == (12, 4)
        assert layers[0] == {"kind": "latent", "value_dim": 12, "value_is_key_prefix": 1}
    assert found["Kimi Linear"][2][2]["rope_theta"] == 0.0


@pytest.mark.parametrize("name", GATED)
def test_gates_are_stored_as_they_multiply(name: str, tmp_path: Path) -> None:
    with h5py.File(captured(name, tmp_path, generate=0)) as file:
        for at in range(5):
            group = file[f"layers/{at}"]
            assert ("gate" in group) == ("query" in group)
            if "gate" in group:
                assert group["gate"].shape == (44, 48) and group["gate"][:].min() >= 0.0
                if "per head" in name:
                    assert (group["gate"][:].reshape(44, 6, 8).std(-1) == 0.0).all()


@pytest.mark.parametrize("name", ["Qwen3.5", "Gemma 4, shared caches", "DeepSeek-V2", "Llama 4", "MiMo-V2-Flash"])
def test_the_reader_knows_them(name: str, tmp_path: Path) -> None:
    path = captured(name, tmp_path, generate=0)
    mine = tiny.outputs_of(path)
    with kvloupe.open(path) as trace:
        for at, one in mine.items():
            own = trace.layer(at)
            out = np.zeros(one["output"].shape)
            for head in range(own.heads):
                part = trace.attention(at, head).astype(np.float64) @ trace.value(at, trace.head_of(head, at))
                gate = trace.gate(at, head)
                out += (part if gate is None else part * gate) @ trace.output_weight(at, head)
            assert np.abs(out - one["output"]).max() < 1e-5 * np.abs(out).max(), at
        for at in set(range(5)) - mine.keys():
            assert not trace.layer(at).attends
            with pytest.raises(kvloupe.KvloupeError, match="has no attention, but gated delta net"):
                trace.key(at, 0)


def test_keys_of_latents_are_turned_back(tmp_path: Path) -> None:
    """Only the last channels rotate; what is turned back is what kv_a_proj_with_mqa gives."""
    for name in ("DeepSeek-V2", "DeepSeek-V3"):
        path, model = captured(name, tmp_path, generate=0), tiny.made(name)
        seen: list[np.ndarray] = []
        model.model.layers[1].self_attn.kv_a_proj_with_mqa.register_forward_hook(
            lambda module, arguments, output: seen.append(output[0].detach().numpy()))
        tiny.own_outputs(model, PROMPT)
        plain = seen[0][:, 12:]
        if name == "DeepSeek-V3":  # pairs of neighbours are written first parts before second parts
            plain = np.concatenate([plain[:, 0::2], plain[:, 1::2]], -1)
            plain = plain * (0.1 * np.log(4.0) + 1.0) / (0.08 * np.log(4.0) + 1.0)  # YaRN's factor stays
        with kvloupe.open(path) as trace:
            assert np.abs(trace.key(1, 0, rotated=False)[:, 12:] - plain).max() < 1e-4
            assert (trace.key(1, 0, rotated=False)[:, :12] == trace.value(1, 0)).all()


@pytest.mark.parametrize("name", ["DeepSeek-V3", "Qwen3.5", "Gemma 3n"])
def test_a_second_reading(name: str, tmp_path: Path) -> None:
    """Its queries and keys are those of a longer prompt."""
    context, whole = PROMPT[:20], PROMPT[:20] + PROMPT[:20]
    path = kvloupe.capture(available(name), None, context, tmp_path / "t.h5", block=7, store="f32", probe="reread")
    longer = kvloupe.capture(available(name), None, whole, tmp_path / "l.h5", block=20, store="f32")
    with h5py.File(path) as a, h5py.File(longer) as b:
        for at in range(5):
            for part in ("query", "key"):
                if part in a[f"layers/{at}"]:
                    x, y = a[f"layers/{at}/probe_{part}"][:], b[f"layers/{at}/{part}"][:, 20:]
                    assert np.abs(x - y).max() < 1e-3 * max(1.0, np.abs(y).max()), (at, part)


def test_jamba_runs_in_one_pass_or_token_by_token(tmp_path: Path) -> None:
    own = available("Jamba")
    with pytest.warns(kvloupe.KvloupeWarning, match="the prompt runs as one block of 44 tokens: Jamba's Mamba layers"):
        path = kvloupe.capture(own, None, PROMPT, tmp_path / "t.h5", block=7)
    with h5py.File(path) as file:
        assert file["run"].attrs["block_size"] == 44 and file["run/blocks"][:].tolist() == [[0, 44]]
    with warnings.catch_warnings():
        warnings.simplefilter("error", kvloupe.KvloupeWarning)
        kvloupe.capture(own, None, PROMPT[:9], tmp_path / "t.h5", block=1)


def test_half_precision(tmp_path: Path) -> None:
    import torch

    for name in ("Qwen3.5", "DeepSeek-V2", "Gemma 4, shared caches", "Laguna, a gate per head"):
        own = available(name).to(torch.bfloat16)
        path = kvloupe.capture(own, None, PROMPT, tmp_path / "t.h5", block=16)
        assert all("output" in one for one in tiny.outputs_of(path).values()), name


def test_mla_is_one_of_two_words(tmp_path: Path) -> None:
    with pytest.raises(kvloupe.KvloupeError, match="mla: 'wide' is not latent or expanded"):
        kvloupe.capture(available("DeepSeek-V2"), None, PROMPT, tmp_path / "t.h5", mla="wide")


def test_the_command_line(tmp_path: Path) -> None:
    """Also for a family that AutoModelForCausalLM does not know."""
    available("Mistral 4").save_pretrained(tmp_path / "model")
    (tmp_path / "ids.txt").write_text(" ".join(map(str, PROMPT)))
    done = command_line("capture", "--model", tmp_path / "model", "--ids", tmp_path / "ids.txt", "--block", 16, "--mla",
                        "expanded", "--store", "f32", "--progress", "none", "-o", tmp_path / "t.h5")
    assert done.returncode == 0, done.stderr
    assert compare("Mistral 4", tmp_path / "t.h5") < 2e-5
    assert tiny.attributes_of(tmp_path / "t.h5")[1]["mla"] == "expanded"


def test_the_first_layers_alone(tmp_path: Path) -> None:
    path = captured("Gemma 4, shared caches", tmp_path, layers=3)
    assert tiny.attributes_of(path)[2][2]["shares_with"] == 0
    with pytest.raises(kvloupe.KvloupeError, match="no layer has attention"):
        kvloupe.capture(available("Qwen3.5"), None, PROMPT, tmp_path / "u.h5", layers=2)
    assert not (tmp_path / "u.h5").exists()
