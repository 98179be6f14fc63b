"""Tiny random models of many families, made from transformers' own classes, and a trace's outputs computed with numpy.

`outputs_of` shares no code with the package: it reads a trace as docs/trace-format.md describes it.
"""
from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import torch
import transformers

VOCABULARY = 160
SHAPE = dict(vocab_size=VOCABULARY, hidden_size=48, intermediate_size=40, num_hidden_layers=5, num_attention_heads=6,
             num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3, pad_token_id=0, bos_token_id=1,
             eos_token_id=2)
FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
MIXED = [SLIDING, SLIDING, FULL, SLIDING, FULL]
THIRD = [LINEAR, LINEAR, FULL, LINEAR, FULL]
EXPERTS = dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=16)
ROUTED = dict(n_routed_experts=4, n_shared_experts=1, n_group=1, topk_group=1, num_experts_per_tok=2,
              moe_intermediate_size=16)
DELTA = dict(linear_key_head_dim=8, linear_value_head_dim=8, linear_num_key_heads=2, linear_num_value_heads=4)
MAMBA = dict(mamba_n_heads=12, mamba_d_head=8, mamba_d_state=8, mamba_chunk_size=8)
MLA = dict(num_key_value_heads=6, kv_lora_rank=12, q_lora_rank=16, qk_rope_head_dim=4, qk_nope_head_dim=6, v_head_dim=10)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=32, mscale=1.0,
            mscale_all_dim=0.8, beta_fast=32.0, beta_slow=1.0)

# Name: the beginning of transformers' classes, its configuration, and the class of the model where it has another name.
FAMILIES: dict[str, tuple[str, dict[str, Any]] | tuple[str, dict[str, Any], str]] = {
    # a gate between heads and output projection
    "AFMoE": ("Afmoe", dict(head_dim=8, num_shared_experts=1, num_dense_layers=1, sliding_window=16, layer_types=MIXED,
                            **EXPERTS)),
    "Beam": ("Beam", dict(head_dim=8, sliding_window=16, layer_types=MIXED, n_group=1, topk_group=1, **EXPERTS)),
    "Laguna, a gate per head": ("Laguna", dict(head_dim=8, sliding_window=16, layer_types=MIXED, gating=True, **EXPERTS)),
    "Laguna, a gate per channel": ("Laguna", dict(head_dim=8, sliding_window=16, layer_types=MIXED, gating="per-element",
                                                  **EXPERTS)),
    # layers without a cache
    "Qwen3-Next": ("Qwen3Next", dict(head_dim=8, layer_types=THIRD, shared_expert_intermediate_size=16, **DELTA, **EXPERTS)),
    "Qwen3.5": ("Qwen3_5Text", dict(head_dim=8, layer_types=THIRD, **DELTA), "Qwen3_5ForCausalLM"),
    "Qwen3.5-MoE": ("Qwen3_5MoeText", dict(head_dim=8, layer_types=THIRD, shared_expert_intermediate_size=16, **DELTA,
                                           **EXPERTS), "Qwen3_5MoeForCausalLM"),
    "LFM2": ("Lfm2", dict(layer_types=["conv", "conv", FULL, "conv", FULL], block_auto_adjust_ff_dim=False)),
    "LFM3": ("Lfm3", {}),
    "Nemotron-H": ("NemotronH", dict(head_dim=8, layers_block_type=["mamba", "mlp", "attention", "moe", "attention"],
                                     mamba_num_heads=12, mamba_head_dim=8, ssm_state_size=8, n_groups=2, chunk_size=8,
                                     moe_shared_expert_intermediate_size=16, **ROUTED)),
    "Granite 4 hybrid": ("GraniteMoeHybrid", dict(layer_types=["mamba", "mamba", "attention", "mamba", "attention"],
                                                  attention_multiplier=0.2, residual_multiplier=0.5,
                                                  shared_intermediate_size=16, num_local_experts=4, **MAMBA)),
    "Granite 4 hybrid, rotated": ("GraniteMoeHybrid", dict(
        layer_types=["mamba", "attention", "mamba", "mamba", "attention"], position_embedding_type="rope",
        shared_intermediate_size=16, num_local_experts=0, **MAMBA)),
    "OLMo hybrid": ("OlmoHybrid", dict(layer_types=THIRD, rope_parameters=None, **DELTA)),
    "Kimi Linear": ("KimiLinear", dict(layer_types=THIRD, num_local_experts=4, linear_head_dim=8, linear_num_heads=4,
                                       mlp_layer_types=["dense"] + ["sparse"] * 4,
                                       **(MLA | ROUTED))),
    "Jamba": ("Jamba", dict(attn_layer_period=3, attn_layer_offset=1, num_experts=4, mamba_d_state=8, use_mamba_kernels=False)),
    "Falcon-H1": ("FalconH1", dict(head_dim=8, mamba_d_ssm=96, key_multiplier=0.7, attention_in_multiplier=0.9,
                                   attention_out_multiplier=1.3, **MAMBA)),
    "Bamba": ("Bamba", dict(attn_layer_indices=[1, 4], **MAMBA)),
    # without rotation, and with other names of all parts
    "GPT-2": ("GPT2", {}, "GPT2LMHeadModel"),
    # shapes, windows and caches by layer
    "Gemma 4": ("Gemma4Text", dict(head_dim=8, sliding_window=16, layer_types=MIXED, hidden_size_per_layer_input=8,
                                   vocab_size_per_layer_input=VOCABULARY, per_layer_config={2: dict(head_dim=16), 4: dict(
                                       head_dim=16)}), "Gemma4ForCausalLM"),
    "Gemma 4, shared caches": ("Gemma4Text", dict(
        head_dim=8, sliding_window=16, layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=3,
        hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCABULARY,
        per_layer_config={1: dict(head_dim=16, num_key_value_heads=1), 4: dict(head_dim=16, num_key_value_heads=1)},
        attention_k_eq_v=True), "Gemma4ForCausalLM"),
    "Gemma 3n": ("Gemma3nText", dict(head_dim=8, sliding_window=16, num_hidden_layers=5,
                                     layer_types=[SLIDING, FULL, SLIDING, SLIDING, FULL], num_kv_shared_layers=3,
                                     hidden_size_per_layer_input=8, vocab_size_per_layer_input=VOCABULARY, laurel_rank=8,
                                     activation_sparsity_pattern=[0.0] * 5), "Gemma3nForCausalLM"),
    "MiMo-V2-Flash": ("MiMoV2Flash", dict(head_dim=12, v_head_dim=8, sliding_window=16, layer_types=MIXED,
                                          num_attention_heads=8, mlp_layer_types=["dense"] + ["sparse"] * 4, **ROUTED)),
    "gpt-oss": ("GptOss", dict(head_dim=8, sliding_window=16, layer_types=MIXED, num_local_experts=4, num_experts_per_tok=2,
                               rope_parameters=dict(rope_type="yarn", factor=4.0, original_max_position_embeddings=64,
                                                    rope_theta=10000.0, truncate=False))),
    "Llama 4": ("Llama4Text", dict(head_dim=8, attention_chunk_size=16, no_rope_layers=[1, 1, 0, 1, 0], floor_scale=8,
                                   num_local_experts=4, moe_layers=[1, 3], intermediate_size_mlp=40), "Llama4ForCausalLM"),
    # latent attention
    "DeepSeek-V2": ("DeepseekV2", MLA | ROUTED | dict(q_lora_rank=None, first_k_dense_replace=1)),
    "DeepSeek-V3": ("DeepseekV3", MLA | ROUTED | dict(first_k_dense_replace=1, rope_parameters=YARN)),
    "GLM-4.7-Flash": ("Glm4MoeLite", MLA | ROUTED | dict(first_k_dense_replace=1)),
    "Mistral 4": ("Mistral4", MLA | ROUTED | dict(qk_nope_head_dim=6, v_head_dim=10, first_k_dense_replace=1,
                                                  rope_parameters=YARN | dict(llama_4_scaling_beta=0.1))),
    "MiniCPM3": ("MiniCPM3", MLA),
}

# Refused: as above, and a part of the line.
REFUSED: dict[str, tuple[tuple[Any, ...], str]] = {
    "MiniMax-M3": (("MiniMaxM3VLText", dict(head_dim=8), "MiniMaxM3VLForCausalLM"), "only under the names eager and sdpa"),
    "Inkling": (("InklingText", dict(head_dim=8, swa_head_dim=8, swa_num_attention_heads=6, swa_num_key_value_heads=2, d_rel=4,
                                     rel_extent=16, sliding_window_size=16, layer_types=["hybrid_sliding"] * 4 + ["hybrid"],
                                     unpadded_vocab_size=VOCABULARY, **ROUTED), "InklingForCausalLM"), "position_bias"),
    "DeepSeek-V3.2": (("DeepseekV32", MLA | ROUTED | dict(index_topk=8, index_head_dim=8, index_n_heads=2,
                                                          first_k_dense_replace=1)), "eager and sdpa"),
    "DeepSeek-V4": (("DeepseekV4", dict(head_dim=16)), "entries that stand for several tokens"),
}


def made(name: str, table: dict[str, Any] | None = None) -> Any:
    """A model of this family with random weights, also where its class starts with ones and zeros."""
    kind, change, *classes = (FAMILIES if table is None else table)[name]
    torch.manual_seed(7)
    config = getattr(transformers, f"{kind}Config")(**(SHAPE | change))
    model = getattr(transformers, classes[0] if classes else f"{kind}ForCausalLM")(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def llama(**change: Any) -> Any:
    torch.manual_seed(1)
    shape = dict(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(shape | change))).eval()


def layers_of(model: Any) -> Any:
    base = model.get_decoder()
    return base.layers if hasattr(base, "layers") else base.h if hasattr(base, "h") else base.model.layers


def projections(model: Any) -> dict[int, Any]:
    """The output projection of each layer that has attention, by names that each family's class uses."""
    found = {}
    for at, layer in enumerate(layers_of(model)):
        for part in ("self_attn", "mixer", "attn"):
            own = getattr(layer, part, None)
            if own is not None and "Attention" in type(own).__name__ and "Delta" not in type(own).__name__:
                found[at] = next(getattr(own, name) for name in ("o_proj", "out_proj", "c_proj") if hasattr(own, name))
    return found


def own_outputs(model: Any, ids: list[int], blocks: Any = None) -> tuple[dict[int, np.ndarray], dict[int, np.ndarray],
                                                                           np.ndarray]:
    """Of an untouched model with its own eager attention, in these blocks with its own cache, or in one pass: what each
    output projection gives [T, D], less its bias, what it reads [T, Hq d_v], and the logits."""
    model.set_attn_implementation("eager")
    found: dict[int, list[np.ndarray]] = {}
    read: dict[int, list[np.ndarray]] = {}

    def hook(layer: int) -> Any:
        def keep(module: Any, arguments: Any, output: Any) -> None:
            bias = 0.0 if module.bias is None else module.bias.detach()
            found.setdefault(layer, []).append((output.detach()[0] - bias).double().numpy())
            read.setdefault(layer, []).append(arguments[0].detach()[0].double().numpy())
        return keep

    hooks = [part.register_forward_hook(hook(at)) for at, part in projections(model).items()]
    cache = transformers.DynamicCache(config=model.config)
    named = "cache" if "cache" in inspect.signature(model.get_decoder().forward).parameters else "past_key_values"
    logits = []
    with torch.inference_mode():
        for first, end in [(0, len(ids))] if blocks is None else blocks:
            held = {"use_cache": False} if blocks is None else {"use_cache": True, named: cache}
            out = model(torch.tensor([ids[first:end]]), position_ids=torch.arange(first, end)[None], **held)
            logits.append(out.logits[0].double().numpy())
    for one in hooks:
        one.remove()
    joined = lambda parts: {at: np.concatenate(one) for at, one in parts.items()}
    return joined(found), joined(read), np.concatenate(logits)


def outputs_of(path: Path) -> dict[int, dict[str, np.ndarray]]:
    """Of each layer with attention, from the trace alone, in float64: `heads` [T, Hq d_v] after the gate, `output` [T, D]
    if the trace has an output_weight, and the log-sum-exp `lse` [Hq, T]."""
    with h5py.File(path) as file:
        model, run, layers = dict(file["model"].attrs), dict(file["run"].attrs), file["layers"]
        tokens = len(file["tokens/ids"])
        result = {}
        for at in range(int(model["num_layers"])):
            group = layers[str(at)]
            own = dict(group.attrs)
            kind = own.get("kind", "attention")
            if kind == "none":
                assert set(group) <= {"residual_change"}, (at, list(group))
                continue
            source = layers[str(int(own["shares_with"]))] if kind == "shared" else group
            held = dict(source.attrs)
            q, k = group["query"][:].astype(np.float64), source["key"][:].astype(np.float64)
            width = int(held.get("value_dim", held.get("key_dim", model["head_dim"])))
            v = k[..., :width] if held.get("value_is_key_prefix") else source["value"][:].astype(np.float64)
            heads = int(own.get("num_heads", model["num_heads"]))
            kv_heads = int(held.get("num_kv_heads", model["num_kv_heads"]))
            assert q.shape == (heads, tokens, int(held.get("key_dim", model["head_dim"])))
            assert k.shape == (kv_heads, *q.shape[1:]) and v.shape == (kv_heads, tokens, width)
            window = int(own.get("sliding_window", model.get("sliding_window", 0)))
            chunk, cap = int(own.get("chunk_size", 0)), float(own.get("attention_softcap", 0.0))
            p, j = np.arange(tokens)[:, None], np.arange(tokens)[None]
            seen = (j <= p) & ((p - j < window) if window else True) & ((p // chunk == j // chunk) if chunk else True)
            each, lse = [], []
            for head in range(heads):
                logits = q[head] @ k[head // (heads // kv_heads)].T * float(own.get("attention_scale", run["attention_scale"]))
                logits = cap * np.tanh(logits / cap) if cap else logits
                logits = np.where(seen, logits, -np.inf)
                most = logits.max(-1, keepdims=True)
                terms = np.exp(logits - most)
                total = terms.sum(-1, keepdims=True)
                if "sink_logits" in group:
                    total += np.exp(float(group["sink_logits"][head]) - most)
                each.append(terms / total @ v[head // (heads // kv_heads)])
                lse.append((np.log(total) + most)[:, 0])
            joined = np.stack(each, 1).reshape(tokens, -1)
            if "gate" in group:
                joined = joined * group["gate"][:].astype(np.float64)
            result[at] = {"heads": joined, "lse": np.stack(lse)}
            if "output_weight" in group:
                weight = group["output_weight"][:].astype(np.float64)
                result[at]["output"] = joined @ weight.reshape(-1, weight.shape[-1])
                plain = np.stack([v[head // (heads // kv_heads)] @ weight[head] for head in range(heads)])
                result[at]["norm_l2"] = np.linalg.norm(plain, axis=-1)
        return result


def attributes_of(path: Path) -> tuple[int, dict[str, Any], list[dict[str, Any]]]:
    """The format's version, and the attributes of the model and of each layer."""
    plain = lambda attrs: {name: value for name, value in attrs.items() if name != "config"}
    with h5py.File(path) as file:
        count = int(file["model"].attrs["num_layers"])
        return (int(file.attrs["format_version"]), plain(file["model"].attrs),
                [plain(file[f"layers/{at}"].attrs) for at in range(count)])
