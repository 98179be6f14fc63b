"""What cannot be captured ends with one line that says what, where and what to do, and leaves no file."""
from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import h5py
import pytest
import torch
import transformers

import kvloupe
import tiny_models
from needs import need
from tiny_models import llama as model


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
    refused("block 0: give a number of tokens from 1 on", own, tmp_path, block=0)
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
    own.config.is_causal = False
    refused("its config says is_causal false: a query sees later keys", own, tmp_path)
    own = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=320, hidden_size=32, n_layer=2, n_head=4))
    refused("BloomForCausalLM", own.eval(), tmp_path)


def test_an_output_that_the_states_do_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import sdpa_attention

    before = sdpa_attention.sdpa_attention_forward

    def other(module: Any, query: Any, *rest: Any, **named: Any) -> Any:
        out, weights = before(module, query, *rest, **named)
        return out * (1.01 if module.layer_idx == 1 else 1.0), weights
    monkeypatch.setattr(sdpa_attention, "sdpa_attention_forward", other)
    refused("layer 1: softmax.* of the captured states is not the output of the model's attention", model(), tmp_path)


@pytest.mark.parametrize("name", list(tiny_models.REFUSED))
def test_families_that_a_trace_cannot_say(name: str, tmp_path: Path) -> None:
    own, why = tiny_models.REFUSED[name]
    need(f"{own[0]}Config")
    refused(why, tiny_models.made(name, {name: own}), tmp_path, prompt=list(range(3, 30)))


def test_a_norm_between_heads_and_output(tmp_path: Path) -> None:
    """Queries, keys and values are right, and a W_O would claim an output that is not the model's."""
    own = tiny_models.made("BitNet", {"BitNet": ("BitNet", {})})
    with pytest.warns(kvloupe.KvloupeWarning, match="layer 0 and 4 more: a norm over all heads .attn_sub_norm. stands "
                      "between heads and output projection; the trace has no W_O there"):
        path = kvloupe.capture(own, None, [5, 6, 7, 9, 11, 3, 8], tmp_path / "t.h5", block=4)
    with h5py.File(path) as trace:
        assert trace.attrs["format_version"] == 1
        assert "query" in trace["/layers/1"] and "output_weight" not in trace["/layers/1"]
        assert "value_out_norm_l1" not in trace["/layers/1"]
        assert "a norm over all heads" in trace["/layers/1"].attrs["without_output_weight"]
    with kvloupe.open(path) as trace:
        with pytest.raises(kvloupe.KvloupeError, match="has no layers/1/output_weight: a norm over all heads"):
            trace.output_weight(1, 0)


def test_a_projection_that_is_not_what_it_says_is_left_out(tmp_path: Path) -> None:
    """A module that gives something else in a run than for single vectors: its output in the run tells."""
    class Changed(torch.nn.Module):
        def __init__(self, before: Any) -> None:
            super().__init__()
            self.before = before

        def forward(self, x: Any) -> Any:
            return self.before(x) * (1.5 if x.shape[1] == 3 or x.shape[1] == 6 else 1.0)
    own = model()
    own.model.layers[1].self_attn.o_proj = Changed(own.model.layers[1].self_attn.o_proj)
    with pytest.warns(kvloupe.KvloupeWarning, match="layer 1: the trace's numbers do not give what its output "
                      "projection gives"):
        path = kvloupe.capture(own, None, [5, 6, 7, 9, 11, 3], tmp_path / "t.h5", block=3)
    with h5py.File(path) as trace:
        assert "output_weight" in trace["/layers/0"] and "output_weight" not in trace["/layers/1"]


def test_a_gate_that_changes(tmp_path: Path) -> None:
    need("AfmoeConfig")
    own = tiny_models.made("AFMoE")
    attention = own.model.layers[2].self_attn
    attention.o_proj.register_forward_pre_hook(lambda module, arguments: (
        arguments[0] * (1.0 if arguments[0].shape[1] == 8 else 1.1),))
    refused("layer 2: what its output projection reads is in a later block no more what its heads give times the gate",
            own, tmp_path, prompt=list(range(3, 15)), block=8)


def test_work_under_a_name_that_is_not_the_models_own(tmp_path: Path) -> None:
    """GPT-2 asks whether it is eager: with sdpa, its own, it goes the way that it goes here."""
    own = tiny_models.made("GPT-2")
    assert own.config._attn_implementation == "sdpa"
    kvloupe.capture(own, None, [5, 6, 7], tmp_path / "t.h5")
    own.set_attn_implementation("eager")
    refused("only under the names eager and sdpa", own, tmp_path, path=tmp_path / "u.h5")


def test_attention_that_depends_on_its_name(tmp_path: Path) -> None:
    own = model()
    before = own.model.layers[0].mlp.forward
    own.model.layers[0].mlp.forward = lambda x: before(x) * (
        2.0 if own.config._attn_implementation == "kvloupe" else 1.0)
    refused("computes other logits than with its own .*this model cannot be captured", own, tmp_path)


def test_a_model_that_is_another_one_in_blocks(tmp_path: Path) -> None:
    own = model()
    before = own.model.layers[0].mlp.forward
    own.model.layers[0].mlp.forward = lambda x: before(x) * (2.0 if x.shape[1] == 3 else 1.0)
    refused("computes other logits from token 6 on when the prompt runs in blocks than in one pass .*give a block as "
            "long as the prompt", own, tmp_path, prompt=list(range(3, 12)), block=6)
    if not hasattr(transformers.cache_utils, "LinearAttentionLayer"):
        return  # refused for another reason
    jamba = tiny_models.made("Jamba")
    refused("probe reread: JambaForCausalLM cannot read a second text after a first one, because Jamba's Mamba layers",
            jamba, tmp_path, probe="reread")


def test_a_layer_of_an_unknown_kind(tmp_path: Path) -> None:
    own = model()

    class Another(torch.nn.Module):
        def forward(self, hidden_states: Any, **rest: Any) -> Any:
            return hidden_states
    own.model.layers[1] = Another()
    refused("layer 1 of LlamaForCausalLM does not call an attention function .* does not know what a Another has", own,
            tmp_path)
