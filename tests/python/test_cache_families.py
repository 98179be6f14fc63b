"""kvloupe.Cache in models whose layers are not all alike: shared caches, chunks, latents, states beside or in place of a cache."""
from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
import tiny_models as tiny
from kvloupe import closed_run
from kvloupe.describe import cache_argument, positions_of
from kvloupe.trace_format import frequencies
from needs import need

need("LinearAttentionLayer", "engine")
IDS = np.random.default_rng(5).integers(3, tiny.VOCABULARY, 60).tolist()
HYBRID = dict(layers_block_type=[tiny.LINEAR, "hybrid", tiny.LINEAR, tiny.LINEAR, "hybrid"], mamba_d_state=8, n_mamba_heads=12,
              chunk_size=8, num_key_value_heads=6)
MODELS = {name: tiny.FAMILIES[name] for name in (
    "Gemma 3n", "Gemma 4, shared caches", "Llama 4", "DeepSeek-V2", "DeepSeek-V3", "Mistral 4", "MiniCPM3", "Kimi Linear",
    "Falcon-H1", "Qwen3-Next", "Jamba", "Bamba", "LFM2", "Granite 4 hybrid")} | {
        "Zamba2": ("Zamba2", HYBRID), "Zamba2, rotated": ("Zamba2", HYBRID | dict(use_mem_rope=True))}
POLICIES = ["h2o", "keydiff", "h2o+kvmerger(threshold=0.5)", "h2o+caote", "h2o+quant(2,group=8,residual=4)"]
SHARED = ["Gemma 3n", "Gemma 4, shared caches"]
# Their states change how a pass of other lengths rounds, by more than a set can be compared with.
EXACT = ["Gemma 3n", "Gemma 4, shared caches", "Llama 4", "DeepSeek-V2", "DeepSeek-V3", "MiniCPM3", "Falcon-H1"]


def made(name: str) -> Any:
    kind, _, *classes = MODELS[name]
    need(classes[0] if classes else f"{kind}ForCausalLM")
    return tiny.made(name, MODELS)


def forward(model: Any, ids: list[int], cache: Any, **named: Any) -> Any:
    first = cache.get_seq_length()
    with torch.inference_mode():
        return model(torch.tensor([ids]), use_cache=True, **{cache_argument(model): cache},
                     **positions_of(model, first, first + len(ids), "cpu"), **named)


@pytest.mark.parametrize("name, attention", [*((name, "sdpa") for name in MODELS), *((name, "eager") for name in (
    "Gemma 3n", "Llama 4", "DeepSeek-V3", "Falcon-H1"))])
def test_a_full_budget_gives_the_models_own_logits_bit_for_bit(name: str, attention: str) -> None:
    model = made(name)
    model.set_attn_implementation(attention)
    own = transformers.DynamicCache(config=model.config)
    with kvloupe.Cache("h2o", 100, model=model, block=9) as kept:
        for part in (IDS[:31], IDS[31:40], *([one] for one in IDS[40:])):
            assert torch.equal(*(forward(model, part, cache).logits for cache in (kept, own)))
        assert all(getattr(layer, "entries", None) is None for layer in kept.layers)


@pytest.mark.parametrize("name", list(MODELS))
def test_the_first_layer_decides_as_the_replay_of_its_capture(name: str, tmp_path: Path) -> None:
    model = made(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kvloupe.KvloupeWarning)
        path = kvloupe.capture(model, None, IDS, tmp_path / "t.h5", block=9)
    with h5py.File(path) as file:
        blocks = [tuple(map(int, one)) for one in file["run/blocks"][:]]
    for policy in POLICIES:
        with kvloupe.Cache(policy, 12, model=model, block=blocks[0][1]) as cache:
            for first, end in blocks:
                cache.ended = end == len(IDS)
                out = forward(model, IDS[first:end], cache)
            replay = kvloupe.replay(path, policy, 12, measures="none")
            assert cache.blocks == blocks and bool(torch.isfinite(out.logits).all())
            at = int(replay.layer_head[0][0])
            rows = [row for row, (layer, _) in enumerate(replay.layer_head) if layer == at]
            assert np.array_equal(replay.evicted_at[rows], cache.evicted_at(at)), policy
            assert (cache.evicted_at(at) >= 0).any()
            for layer, own in enumerate(cache.layer_shapes):  # what a layer reads is what its owner holds
                if own.kind == "shared":
                    assert np.array_equal(cache.evicted_at(layer), cache.evicted_at(own.shares_with))
                    assert np.array_equal(cache.kept(layer, 0), cache.kept(own.shares_with, 0))


def turned(states: np.ndarray, by: np.ndarray, own: Any, shape: Any) -> np.ndarray:
    """states [n, d] rotated on by [n] positions, one pair after the other."""
    theta = shape.rope_theta if own.rope_theta is None else own.rope_theta
    if not theta:
        return states
    start = shape.rotary_start if own.rotary_start is None else own.rotary_start
    width = (shape.rotary_dim if own.rotary_dim is None else own.rotary_dim) or states.shape[1] - start
    result = states.copy()
    for pair, angle in enumerate(frequencies(theta, shape.rope_scaling if own.rope_theta is None else own.rope_scaling, width)[0]):
        one, two = ((start + 2 * pair, start + 2 * pair + 1) if shape.rope_pairing == "interleaved"
                    else (start + pair, start + pair + width // 2))
        turn = (states[:, one] + 1j * states[:, two]) * np.exp(1j * by * angle)
        result[:, one], result[:, two] = turn.real, turn.imag
    return result


def outputs_of(path: Path, layers: list[Any], shape: Any, compact: bool) -> dict[int, np.ndarray]:
    """What each layer's output projection gives [T, D], from a closed-loop trace alone, query by query in float64."""
    result = {}
    with h5py.File(path) as file:
        blocks = file["run/blocks"][:]
        step_of = np.concatenate([np.full(end - first, step) for step, (first, end) in enumerate(blocks)])
        for at, own in enumerate(layers):
            group = file[f"layers/{at}"]
            if own.kind == "none" or "output_weight" not in group:
                continue
            source = file[f"layers/{at if own.shares_with is None else own.shares_with}"]
            query, key = group["query"][:].astype(float), source["key"][:].astype(float)
            value = key[..., :own.value_dim] if own.value_is_key_prefix else source["value"][:].astype(float)
            gone, weight = source["evicted_at"][:], group["output_weight"][:].astype(float)
            window = int(group.attrs.get("sliding_window", file["model"].attrs.get("sliding_window", 0)))
            scale = float(group.attrs.get("attention_scale", file["run"].attrs["attention_scale"]))
            made = np.zeros((query.shape[1], weight.shape[2]))
            for head in range(len(query)):
                kv = head // (len(query) // len(key))
                for token in range(query.shape[1]):
                    step = step_of[token]
                    tokens = np.arange(blocks[step][1])  # in the cache when the block attended, in their order
                    tokens = tokens[(gone[kv, tokens] < 0) | (gone[kv, tokens] >= step)]
                    q, k = query[head, token][None], key[kv, tokens]
                    if compact:
                        places = np.arange(len(tokens)) - tokens
                        k, q = turned(k, places, own, shape), turned(q, places[tokens == token], own, shape)
                    seen = (tokens <= token) & ((token - tokens < window) if window else True)
                    seen &= (tokens // own.chunk == token // own.chunk) if own.chunk else True
                    logits = np.where(seen, (k @ q[0]) * scale, -np.inf)
                    terms = np.exp(logits - logits.max())
                    mean = terms / terms.sum() @ value[kv, tokens]
                    if "gate" in group:
                        mean = mean * group["gate"][token].astype(float).reshape(len(query), -1)[head]
                    made[token] += mean @ weight[head]
            result[at] = made
    return result


@pytest.mark.parametrize("name, positions", [
    *((name, "original") for name in MODELS if name not in ("Zamba2", "Zamba2, rotated", "Jamba")),
    ("DeepSeek-V2", "compact"), ("DeepSeek-V3", "compact"), ("Kimi Linear", "compact"), ("Falcon-H1", "compact")])
def test_every_layer_attends_to_what_its_trace_says(name: str, positions: str, tmp_path: Path) -> None:
    model = made(name)
    given: dict[int, list[Any]] = {}

    def hook(layer: int) -> Any:
        def keep(module: Any, arguments: Any, output: Any) -> None:
            given.setdefault(layer, []).append(output.detach()[0] - (0.0 if module.bias is None else module.bias.detach()))
        return keep
    caches: list[Any] = []

    class Watched(kvloupe.Cache):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            caches.append(self)
            for at, part in tiny.projections(model).items():
                given[at] = []
                hooks.append(part.register_forward_hook(hook(at)))
    hooks: list[Any] = []
    real, closed_run.Cache = closed_run.Cache, Watched
    try:
        path = kvloupe.run(model, None, IDS, tmp_path / "t.h5", policy="h2o+recent(30%)", budget=12, block=9, generate=4, store="f32",
                           positions=positions)
    finally:
        closed_run.Cache = real
        for one in hooks:
            one.remove()
    made_of = outputs_of(path, caches[0].layer_shapes, caches[0].model_shape, positions == "compact")
    assert set(made_of) == set(given) and len(made_of) > 1
    for at, parts in given.items():
        own = torch.cat(parts).double().numpy()[:len(made_of[at])]  # behind them stand unit vectors, of which W_O is made
        assert np.abs(made_of[at] - own).max() < 3e-5 * np.abs(own).max(), at
    if positions == "original":  # each layer decided as the replay of what it computed
        replay = kvloupe.replay(path, "h2o+recent(30%)", 12, measures="none")
        for row, (layer, head) in enumerate(replay.layer_head):
            assert np.array_equal(replay.evicted_at[row], caches[0].evicted_at(layer)[head]), (layer, head)


@pytest.mark.parametrize("name", EXACT)
def test_passes_of_other_lengths_read_the_same_blocks(name: str) -> None:
    model = made(name)
    found = []
    for parts in ([60], [18, 42], [9] * 6 + [6]):
        with kvloupe.Cache("h2o+recent(20%)", 12, model=model, block=9, store="f32") as cache:
            first = 0
            for count in parts:
                out = forward(model, IDS[first:first + count], cache)
                first += count
            found.append((out.logits[0, -1], [cache.evicted_at(at).tolist() for at in cache._holding], cache.blocks))
    for logits, gone, blocks in found[1:]:
        assert gone == found[0][1] and blocks == found[0][2]
        assert torch.allclose(logits, found[0][0], atol=1e-3 * float(logits.abs().max()))


@pytest.mark.parametrize("name", SHARED)
@pytest.mark.parametrize("budget", [12, 100])
def test_queries_that_a_model_leaves_out_change_nothing(name: str, budget: int) -> None:
    """Gemma 4 runs its sharing layers with the last tokens alone, if only their logits are wanted."""
    model = made(name)
    whole = [forward(model, IDS, cache).logits[0] for cache in [kvloupe.Cache("h2o", budget, model=model, block=9)]][0]
    for last in (1, 3, 20):
        with kvloupe.Cache("h2o", budget, model=model, block=9) as cache:
            logits = forward(model, IDS, cache, logits_to_keep=last).logits[0]
        assert logits.shape[0] == last
        assert torch.allclose(logits, whole[-last:], atol=1e-4 * float(whole.abs().max()))


@pytest.mark.parametrize("name", ["Gemma 3n", "Llama 4", "DeepSeek-V3", "Falcon-H1", "Zamba2"])
def test_generate_runs_with_it_and_the_model_is_left_as_it_was(name: str) -> None:
    model = made(name)
    state = lambda: (model.config._attn_implementation, len(model._forward_hooks), len(model._forward_pre_hooks),
                     [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.modules()])
    before = state()

    def generated(cache: Any) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.generate(torch.tensor([IDS]), **{cache_argument(model): cache}, max_new_tokens=6, do_sample=False,
                                  eos_token_id=None)[0, len(IDS):].tolist()
    with kvloupe.Cache("keydiff", 12, model=model, block=9) as cache:
        text = generated(cache)
        held = [len(cache.kept(at, head)) for at in cache._holding for head in range(len(cache.layers[at].held))]
        assert max(held) == 12
        cache.reset()
        assert generated(cache) == text
    with kvloupe.Cache("keydiff", 100, model=model, block=9) as cache:
        assert generated(cache) == generated(transformers.DynamicCache(config=model.config))
    assert state() == before


def test_compact_positions_end_with_a_chunk() -> None:
    model = made("Llama 4")
    with kvloupe.Cache("keydiff", 8, model=model, block=9, positions="compact") as cache:
        with pytest.raises(kvloupe.KvloupeError, match="beyond the chunk of 16 tokens; use original positions") as caught:
            forward(model, IDS, cache)
    assert "\n" not in str(caught.value) and model.config._attn_implementation == "sdpa"
