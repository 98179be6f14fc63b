"""quant in transformers' own cache: plain NumPy says what each head holds in few bits, and what queries make of it."""
from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import transformers

import kvloupe
import tiny_models as tiny
from kvloupe.describe import cache_argument
from needs import need

need("DynamicSlidingWindowLayer", "engine")
IDS = np.random.default_rng(6).integers(3, tiny.VOCABULARY, 70).tolist()
MODELS = {"Llama": ("Llama", dict(num_hidden_layers=3)), "Qwen3": ("Qwen3", dict(num_hidden_layers=2, head_dim=8)),
          "Mistral, a window": ("Mistral", dict(num_hidden_layers=2, sliding_window=30))}


def made(name: str) -> Any:
    kind, change = MODELS[name]
    torch.manual_seed(3)
    return getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{kind}Config")(**(tiny.SHAPE | change))).eval()


def rounded(numbers: np.ndarray, bits: int) -> np.ndarray:
    """Each column [n] to one of 2^bits levels from its lowest to its highest number."""
    lowest, highest = numbers.min(0), numbers.max(0)
    step = np.where(highest > lowest, (highest - lowest) / (2 ** bits - 1), 1.0)
    return lowest + step * np.floor((numbers - lowest) / step + 0.5)


class Head:
    """One head's cache: keys share a scale along `group` entries, values along `group` channels."""

    def __init__(self, bits: int, group: int, residual: int) -> None:
        self.bits, self.group, self.residual = bits, group, residual
        self.keys: dict[int, np.ndarray] = {}  # by token, ascending
        self.values: dict[int, np.ndarray] = {}
        self.few_keys: set[int] = set()
        self.few_values: set[int] = set()

    def leave(self, tokens: list[int]) -> None:
        for token in tokens:
            del self.keys[token], self.values[token]

    def lose_bits(self) -> None:
        old = list(self.keys)[:max(len(self.keys) - self.residual, 0)]
        due = [token for token in old if token not in self.few_keys]
        for at in range(0, len(due) - self.group + 1, self.group):
            group = due[at:at + self.group]
            for token, key in zip(group, rounded(np.array([self.keys[one] for one in group]), self.bits)):
                self.keys[token] = key
            self.few_keys.update(group)
        for token in old:
            if token in self.few_values:
                continue
            value = self.values[token]
            for at in range(0, len(value), self.group):
                value[at:at + self.group] = rounded(value[at:at + self.group, None], self.bits)[:, 0]
            self.few_values.add(token)

    def output(self, query: np.ndarray, token: int, scale: float, window: int) -> np.ndarray:
        seen = [one for one in self.keys if one <= token and (not window or token - one < window)]
        logits = np.array([self.keys[one] @ query * scale for one in seen])
        weights = np.exp(logits - logits.max())
        return weights / weights.sum() @ np.array([self.values[one] for one in seen])


@pytest.mark.parametrize("name", list(MODELS))
@pytest.mark.parametrize("policy, shape", [
    ("h2o+quant(group=8,residual=4)", (4, 8, 4)), ("full+quant(2,group=8,residual=0)", (2, 8, 0)),
    ("keydiff+adakv+quant(8,group=16,residual=6)", (8, 16, 6))])
def test_each_head_holds_and_reads_what_plain_numpy_says(name: str, policy: str, shape: tuple[int, int, int]) -> None:
    model = made(name)
    passes: dict[int, list[Any]] = {}
    with kvloupe.Cache(policy, 24, model=model, block=9, store="f32") as cache, torch.inference_mode():
        def keep(number: int, window: int, query: Any, key: Any, value: Any, call: Any, output: Any) -> None:
            passes.setdefault(number, []).append(
                (window, call.scale, *(one[0].double().numpy().copy() for one in (query, key, value, output))))
        cache.observer = keep
        for part in (IDS[:40], IDS[40:61], *([one] for one in IDS[61:])):  # several blocks, then one each
            model(torch.tensor([part]), use_cache=True, **{cache_argument(model): cache})
        blocks = cache.blocks
    assert len(passes) == len(cache.layers)
    lost = 0.0
    for number, recorded in passes.items():
        gone = cache.evicted_at(number)
        query, key, value = (np.concatenate([one[at] for one in recorded], 1) for at in (2, 3, 4))
        outputs = np.concatenate([one[5] for one in recorded])  # [T, query heads, d]
        group = len(query) // len(key)
        for head in range(len(key)):
            own = Head(*shape)
            for step, (first, end) in enumerate(blocks):
                for token in range(first, end):
                    own.keys[token], own.values[token] = key[head, token].copy(), value[head, token].copy()
                for token in range(first, end):
                    for q in range(head * group, (head + 1) * group):
                        wanted = own.output(query[q, token], token, recorded[0][1], recorded[0][0])
                        assert np.allclose(outputs[token, q], wanted, atol=2e-5), (number, q, token)
                own.leave([token for token in own.keys if gone[head, token] == step])
                own.lose_bits()
            entries = cache.layers[number].entries
            slots = torch.from_numpy(entries.slots[head])
            assert list(own.keys) == cache.kept(number, head).tolist() and own.few_values
            for held, wanted in ((entries.keys, own.keys), (entries.values, own.values)):
                assert np.allclose(held[0, head, slots].numpy(), np.array(list(wanted.values())), atol=1e-6)
            lost = max(lost, max(float(np.abs(own.keys[one] - key[head, one]).max()) for one in own.keys))
    assert lost > 1e-3  # nothing would be tested


def test_a_residual_that_covers_everything_gives_the_models_own_logits_bit_for_bit() -> None:
    model = made("Llama")
    own = transformers.DynamicCache(config=model.config)
    with kvloupe.Cache("full+quant(2,residual=100)", 12, model=model, block=9) as kept, torch.inference_mode():
        for part in (IDS[:31], *([one] for one in IDS[31:])):
            logits = [model(torch.tensor([part]), use_cache=True, **{cache_argument(model): cache}).logits for cache in (kept, own)]
            assert torch.equal(*logits)


def test_what_cannot_lose_bits_is_refused_in_one_line() -> None:
    with pytest.raises(kvloupe.KvloupeError, match="kvmerger changes entries that are already stored in few bits") as refused:
        kvloupe.Cache("h2o+kvmerger+quant", 12, model=made("Llama"))
    assert "\n" not in str(refused.value)
    for budget in ("25%bytes", "12MB"):
        with pytest.raises(kvloupe.KvloupeError, match="bytes are not known here"):
            kvloupe.Cache("h2o+quant", budget, model=made("Llama"))
