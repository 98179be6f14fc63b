"""What cannot be captured ends with one line that says what, where and what to do, and leaves no file."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

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
