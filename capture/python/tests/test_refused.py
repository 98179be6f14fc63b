"""What cannot be captured ends with one line that says what, where and what to do, and leaves no file."""
from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import h5py
import pytest

import kvloupe

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def model(**change: Any) -> Any:
    torch.manual_seed(1)
    shape = dict(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(shape | change))).eval()


def refused(why: str, run: Any, folder: Path, **settings: Any) -> str:
    """The one line; checks that nothing is left and that the model has its own attention back."""
    before = set(folder.rglob("*"))
    with pytest.raises(kvloupe.KvloupeError, match=why) as caught:
        kvloupe.capture(run, None, **({"prompt": [5, 6, 7], "path": folder / "t.h5"} | settings))
    assert set(folder.rglob("*")) == before
    assert run.config._attn_implementation != "kvloupe"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_prompts(tmp_path: Path) -> None:
    own = model()
    refused("token 999 is outside the model's vocabulary of 320", own, tmp_path, prompt=[1, 999])
    refused("token -2 is outside", own, tmp_path, prompt=[1, -2])
    refused("600 tokens, but the model has positions for 256; shorten", own, tmp_path, prompt=[5] * 600)
    refused("260 tokens, but the model has positions for 256", own, tmp_path, prompt=[5] * 250, generate=10)
    refused("the prompt has no tokens", own, tmp_path, prompt=[])
    refused("a text needs a tokenizer", own, tmp_path, prompt="text")
    refused("give a block of at least 1", own, tmp_path, block=0)
    refused("store: 'f8' is not f16 or f32", own, tmp_path, store="f8")


@pytest.mark.parametrize("name, part", [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")])
def test_states_that_are_not_finite(name: str, part: str, tmp_path: Path) -> None:
    own = model()
    with torch.no_grad():
        getattr(own.model.layers[1].self_attn, part).weight[0, 0] = float("nan")
    refused(f"layer 1, head 0, token 0: {name} is not finite; capture with another dtype", own, tmp_path)


def test_a_logit_that_is_not_finite(tmp_path: Path) -> None:
    own = model()
    with torch.no_grad():
        own.model.norm.weight[3] = float("inf")
    refused("token 0: the model's hidden state or logits are not finite; capture with another dtype", own, tmp_path)


def test_files(tmp_path: Path) -> None:
    own = model()
    refused("cannot be written", own, tmp_path, path=tmp_path / "no folder" / "t.h5")
    (tmp_path / "folder.h5").mkdir()
    refused("folder.h5: is a folder; give a file", own, tmp_path, path=tmp_path / "folder.h5")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        refused("cannot be written", own, tmp_path, path=tmp_path / "closed" / "t.h5")


def test_attention_outside_the_registry(tmp_path: Path) -> None:
    own = model()
    attention = own.model.layers[1].self_attn

    def forward(hidden_states: Any, **rest: Any) -> Any:
        return attention.o_proj(torch.zeros(*hidden_states.shape[:2], 32)), None
    attention.forward = forward
    refused("1 of 2 layers of LlamaForCausalLM call their attention function through transformers' registry", own,
            tmp_path)


def test_attention_that_a_trace_cannot_say(tmp_path: Path) -> None:
    own = model()
    attention = own.model.layers[1].self_attn
    before = attention.forward

    def forward(*positional: Any, **named: Any) -> Any:  # sees the future
        if named["attention_mask"] is not None:
            named["attention_mask"] = torch.ones_like(named["attention_mask"])
        return before(*positional, **named)
    attention.forward = forward
    refused("layer 1: queries see other tokens than all earlier ones", own, tmp_path)
    own = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=320, hidden_size=32, n_layer=2, n_head=4))
    refused("BloomForCausalLM", own.eval(), tmp_path)
    own = transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(
        vocab_size=320, hidden_size=32, intermediate_size=32, moe_intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=4, n_routed_experts=4, n_group=1, topk_group=1, num_experts_per_tok=2))
    refused("layer 0: .* has the shape", own.eval(), tmp_path)


def test_an_output_that_the_states_do_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import sdpa_attention

    before = sdpa_attention.sdpa_attention_forward

    def other(module: Any, query: Any, *rest: Any, **named: Any) -> Any:
        out, weights = before(module, query, *rest, **named)
        return out * (1.01 if module.layer_idx == 1 else 1.0), weights
    monkeypatch.setattr(sdpa_attention, "sdpa_attention_forward", other)
    refused("layer 1: softmax.* of the captured states is not the output of the model's attention", model(), tmp_path)


SHAPE = dict(vocab_size=320, hidden_size=48, intermediate_size=64, num_hidden_layers=2, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, pad_token_id=0)
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)


def family(name: str, kind: str | None = None, **change: Any) -> Any:
    if not hasattr(transformers, f"{name}Config"):
        pytest.skip(f"transformers {transformers.__version__} has no {name}")
    torch.manual_seed(1)
    config = getattr(transformers, f"{name}Config")(**(SHAPE | change))
    own = getattr(transformers, kind or f"{name}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in own.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return own


@pytest.mark.parametrize("name, change", [
    ("Afmoe", dict(head_dim=8, num_shared_experts=1, num_dense_layers=1, **EXPERTS)),
    ("Laguna", dict(head_dim=8, **EXPERTS)), ("BitNet", {})])
def test_what_stands_between_heads_and_output(name: str, change: dict[str, Any], tmp_path: Path) -> None:
    """A gate or a norm: queries, keys and values are right, and a W_O would claim an output that is not the model's."""
    own = family(name, **change)
    with pytest.warns(kvloupe.KvloupeWarning, match="between its heads and its output projection.*no W_O"):
        path = kvloupe.capture(own, None, [5, 6, 7, 9, 11, 3, 8], tmp_path / "t.h5", block=4)
    with h5py.File(path) as trace:
        assert "query" in trace["/layers/1"] and "output_weight" not in trace["/layers/1"]
        assert "value_out_norm_l1" not in trace["/layers/1"]


def test_attention_that_depends_on_its_name(tmp_path: Path) -> None:
    refused("does work of its own only under the names eager and sdpa",
            family("MiniMaxM3VLText", "MiniMaxM3VLForCausalLM", head_dim=8), tmp_path)
    own = model()
    before = own.model.layers[0].mlp.forward
    own.model.layers[0].mlp.forward = lambda x: before(x) * (
        2.0 if own.config._attn_implementation == "kvloupe" else 1.0)
    refused("computes other logits than with its own .*this model cannot be captured", own, tmp_path)


def test_layers_of_other_kinds(tmp_path: Path) -> None:
    refused("its layers differ in their heads", family("Gemma4Text", "Gemma4ForCausalLM", head_dim=8), tmp_path)
    refused("layer 0 of GraniteMoeHybridForCausalLM has no self-attention",
            family("GraniteMoeHybrid", mamba_n_heads=12, mamba_d_head=8, layer_types=["mamba", "attention"]), tmp_path)


def test_latent_attention_rotates_the_last_channels(tmp_path: Path) -> None:
    own = family("Mistral4", num_key_value_heads=6, kv_lora_rank=16, q_lora_rank=None, qk_rope_head_dim=4,
                 qk_nope_head_dim=4, v_head_dim=8, n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
    path = kvloupe.capture(own, None, [5, 6, 7, 9, 11, 3, 8], tmp_path / "t.h5", block=4)
    with h5py.File(path) as trace:
        assert json.loads(trace["/layers/1"].attrs["rope_scaling"])["rope_type"] == "of the last channels"
