"""The model while it is trained, and the loss of a step: the tokens' losses, weighted by their roles, plus the costs of
attention that does not rest on token 0 and of heads that do not look back."""
from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from .recipe import ModelShape, RoleWeights

FIRST_RESTING = 8  # the 9th query: those before it have little choice


def weight_shapes(shape: ModelShape, vocabulary: int) -> dict[str, tuple[int, ...]]:
    """The weights of a Llama model by their names, in the order of the file."""
    queries, keys = shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (vocabulary, shape.hidden)}
    for layer in range(shape.layers):
        for name, size in {"input_layernorm": (shape.hidden,), "self_attn.q_proj": (queries, shape.hidden),
                           "self_attn.k_proj": (keys, shape.hidden), "self_attn.v_proj": (keys, shape.hidden),
                           "self_attn.o_proj": (shape.hidden, queries), "post_attention_layernorm": (shape.hidden,),
                           "mlp.gate_proj": (shape.intermediate, shape.hidden),
                           "mlp.up_proj": (shape.intermediate, shape.hidden),
                           "mlp.down_proj": (shape.hidden, shape.intermediate)}.items():
            shapes[f"model.layers.{layer}.{name}.weight"] = size
    shapes["model.norm.weight"] = (shape.hidden,)
    return shapes


@dataclass
class Layer:
    """What a layer's attention is made of, before the product with the values."""

    number: int
    attention: Tensor  # [b,Hq,m,m] causal softmax rows, float32
    values: Tensor  # [b,Hk,m,d]


class Model:
    """A Llama model on whole sequences, with these weights."""

    def __init__(self, shape: ModelShape, weights: dict[str, Tensor]) -> None:
        self.shape, self.weights = shape, weights

    def __call__(self, ids: Tensor, on_layer: Callable[[Layer], None] = lambda layer: None,
                 first_unseen: bool = False) -> Tensor:
        """ids [b,m] -> logits [b,m,vocabulary]. `on_layer` sees each layer's attention. With `first_unseen` only token
        0 itself sees token 0."""
        shape, weights = self.shape, self.weights
        length = ids.size(1)
        rotation = self._rotation(length, ids.device)
        unseen = torch.ones(length, length, dtype=torch.bool, device=ids.device).triu(1)
        if first_unseen:
            unseen[1:, 0] = True
        hidden = weights["model.embed_tokens.weight"][ids]
        for number in range(shape.layers):
            def weight(name: str) -> Tensor:
                return weights[f"model.layers.{number}.{name}.weight"]

            def heads(name: str) -> Tensor:
                projected = functional.linear(normed, weight(f"self_attn.{name}_proj"))
                return projected.unflatten(-1, (-1, shape.head_dim)).transpose(1, 2)
            normed = self._norm(hidden, weight("input_layernorm"))
            query, key, values = self._rotated(heads("q"), rotation), self._rotated(heads("k"), rotation), heads("v")
            group = shape.heads // shape.kv_heads
            products = query @ key.repeat_interleave(group, 1).transpose(-1, -2)
            logits = products.float() * shape.head_dim**-0.5
            attention = logits.masked_fill(unseen, -torch.inf).softmax(-1)
            on_layer(Layer(number, attention, values))
            output = attention.to(values.dtype) @ values.repeat_interleave(group, 1)
            hidden = hidden + functional.linear(output.transpose(1, 2).flatten(2), weight("self_attn.o_proj"))
            normed = self._norm(hidden, weight("post_attention_layernorm"))
            gate = functional.silu(functional.linear(normed, weight("mlp.gate_proj")))
            gated = gate * functional.linear(normed, weight("mlp.up_proj"))
            hidden = hidden + functional.linear(gated, weight("mlp.down_proj"))
        return functional.linear(self._norm(hidden, weights["model.norm.weight"]), weights["model.embed_tokens.weight"])

    @staticmethod
    def _norm(x: Tensor, weight: Tensor) -> Tensor:
        wide = x.float()
        return (wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-5)).to(x.dtype) * weight

    def _rotation(self, length: int, device: torch.device) -> tuple[Tensor, Tensor]:
        steps = torch.arange(0, self.shape.head_dim, 2, dtype=torch.float64, device=device) / self.shape.head_dim
        frequencies = self.shape.rope_theta**-steps
        angles = torch.outer(torch.arange(length, dtype=torch.float64, device=device), frequencies)
        angles = torch.cat([angles, angles], -1)
        return angles.cos().float(), angles.sin().float()

    @staticmethod
    def _rotated(x: Tensor, rotation: tuple[Tensor, Tensor]) -> Tensor:
        cosine, sine = rotation
        wide = x.float()
        first, second = wide.chunk(2, -1)
        return (wide * cosine + torch.cat([-second, first], -1) * sine).to(x.dtype)


def resting_value(values: Tensor, first: Tensor) -> Tensor:
    """a0 |v0|^2 / mean |v|^2, the mean over sequences and key heads; differentiable in v0 alone.

    values: [b,Hk,m,d]; first: attention on token 0, [b,Hq,queries].
    """
    squares = values.float().square().sum(-1)  # [b,Hk,m]
    resting = first.detach().mean(2).unflatten(1, (squares.size(1), -1)).mean(2)  # [b,Hk]
    return (resting * squares[:, :, 0] / squares.mean(2).detach()).mean()


def attention_back(attention: Tensor, tokens: int) -> Tensor:
    """The attention that query heads i < `tokens` give the token i + 1 places back, one head after the other, of a
    layer's whole attention [b,Hq,m,m]."""
    return torch.cat([attention[:, head].diagonal(-1 - head, 1, 2).flatten()
                      for head in range(min(tokens, attention.size(2) - 1))])


@dataclass
class Costs:
    """Costs of attention in one step (recipe.Rest and recipe.LookBack)."""

    rest: float = 0.0
    small_value: float = 0.0
    look_back: float = 0.0
    look_back_tokens: int = 0


@dataclass
class StepLoss:
    loss: Tensor  # scalar, differentiable
    sums: Tensor  # [3,3] for each role: count, sum of losses, number right
    resting: Tensor | float = 0.0  # mean attention a0 on token 0, as in Rest; 0 if the sequences are too short
    value: Tensor | float = 0.0  # mean of a0 |v0|^2 / mean |v|^2, as in Rest
    looking_back: Tensor | float = 0.0  # mean attention a on the tokens of LookBack; 0 without that cost


def step_loss(model: Model, ids: Tensor, roles: Tensor, weights: RoleWeights, costs: Costs, mixed: bool) -> StepLoss:
    """Runs the model on a batch: ids and roles [b,m]. The loss is the mean of the tokens' cross-entropies, each
    multiplied by its role's weight, plus the costs. Matrix products use bfloat16 with `mixed`."""
    looking: list[Tensor] = []  # by layer: mean of 1 - a0
    value: list[Tensor] = []
    back: list[Tensor] = []

    def on_layer(layer: Layer) -> None:
        if layer.number == 0 and costs.look_back > 0.0 and ids.size(1) > 1:
            back.append(attention_back(layer.attention, costs.look_back_tokens))
        if ids.size(1) > FIRST_RESTING:
            first = layer.attention[:, :, FIRST_RESTING:, 0]
            looking.append(1.0 - first.mean())
            value.append(resting_value(layer.values, first))

    with torch.autocast(ids.device.type, torch.bfloat16, enabled=mixed):
        logits = model(ids, on_layer)
    rows = logits[:, :-1].flatten(0, 1).float()
    targets, roles = ids[:, 1:].flatten(), roles[:, 1:].flatten()
    losses = functional.cross_entropy(rows, targets, reduction="none")
    weight = torch.tensor([weights.text, weights.quoted, weights.answer], device=ids.device)[roles]
    result = StepLoss((losses * weight).sum() / weight.sum(), torch.zeros(3, 3, device=ids.device))
    if looking:
        away, small = torch.stack(looking).mean(), torch.stack(value).mean()
        if costs.rest > 0.0:
            result.loss = result.loss + costs.rest * (away + costs.small_value * small)
        result.resting, result.value = 1.0 - away.detach(), small.detach()
    if back:
        result.loss = result.loss - costs.look_back * back[0].clamp_min(1e-9).log().mean()
        result.looking_back = back[0].detach().mean()
    right = (rows.detach().argmax(-1) == targets).float()
    result.sums.index_add_(0, roles, torch.stack([torch.ones_like(right), losses.detach(), right], 1))
    return result
