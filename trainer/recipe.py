"""A training run: the model's shape, the optimiser and the curriculum. Read from a JSON file, so that variants are
files. Absent fields keep their defaults."""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .corpus import BOS, EOS, Mix


class RecipeError(ValueError):
    """A recipe that cannot be used; names the file and the field."""


def _number(default: float, least: float, most: float) -> Any:
    return field(default=default, metadata={"range": (least, most)})


@dataclass
class ModelShape:
    layers: int = _number(4, 1, 64)
    hidden: int = _number(256, 8, 4096)  # D
    heads: int = _number(8, 1, 64)  # Hq
    kv_heads: int = _number(4, 1, 64)  # Hk
    head_dim: int = _number(32, 2, 256)  # d
    intermediate: int = _number(512, 8, 16384)  # of the gated MLP
    rope_theta: float = _number(500000.0, 1, 1e9)
    max_positions: int = _number(4096, 64, 1 << 20)

    def config(self, vocabulary: int) -> dict[str, Any]:
        """The config.json of a model of this shape (LlamaForCausalLM, tied embeddings)."""
        return {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": self.hidden,
                "intermediate_size": self.intermediate, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "head_dim": self.head_dim,
                "vocab_size": vocabulary, "max_position_embeddings": self.max_positions, "rms_norm_eps": 1e-5,
                "rope_theta": self.rope_theta, "hidden_act": "silu", "tie_word_embeddings": True,
                "attention_bias": False, "mlp_bias": False, "bos_token_id": BOS, "eos_token_id": EOS,
                "torch_dtype": "bfloat16"}


@dataclass
class Decay:
    """The rate falls along half a cosine, from 1 to final_rate times its value, over `steps` steps. At step `until` the
    fall may end, and the rate is full again (a restart)."""

    begin: int = _number(0, 0, 1e9)
    steps: int = _number(1, 1, 1e9)
    until: int | None = _number(None, 0, 1e9)


@dataclass
class Optimizer:
    """AdamW (Loshchilov, Hutter 2019): linear warm-up, constant rate, then the decays."""

    rate: float = _number(2.5e-3, 0, 1)
    final_rate: float = _number(0.05, 0, 1)  # share of the rate at the last step
    warmup_steps: int = _number(100, 0, 1e9)
    beta1: float = _number(0.9, 0, 0.9999)
    beta2: float = _number(0.95, 0, 0.999999)
    epsilon: float = _number(1e-8, 1e-16, 1)
    gradient_clip: float = _number(1.0, 1e-6, 1e6)
    decays: list[Decay] = field(default_factory=list)


@dataclass
class TimedCost:
    """A cost that is added to the loss in some of the steps: 0 before step `begin`, rising over the next `rise` steps to
    `value`, constant, then falling linearly to 0 between the steps `fall` and `end`; from `end` on exactly 0."""

    value: float = _number(0.0, 0, 100)
    begin: int = _number(0, 0, 1e9)
    rise: int = _number(0, 0, 1e9)
    fall: int = _number(0, 0, 1e9)
    end: int = _number(0, 0, 1e9)

    def at(self, step: int) -> float:
        """The cost at a step, counted from 0."""
        if step < self.begin or step >= self.end:
            return 0.0
        risen = (step - self.begin + 1) / self.rise if step - self.begin < self.rise else 1.0
        left = 1.0 if step < self.fall else (self.end - step) / (self.end - self.fall)
        return self.value * risen * left


@dataclass
class Rest(TimedCost):
    """A cost of attention that does not rest on token 0, which grows attention sinks: the mean of 1 - a0 over layers,
    query heads and the queries from the 9th on.

    A resting head adds a0 v0, so a head that rests well has a small v0. `small_value` times the mean over layers and key
    heads of a0 |v0|^2 / mean |v|^2 (a0: mean of the key head's queries; only v0 is trained by this term) is added to
    the mean of 1 - a0, and rises and falls with it.
    """

    small_value: float = _number(0.0, 0, 100)


@dataclass
class LookBack(TimedCost):
    """A cost that makes the first heads of layer 0 look a fixed number of tokens back, early in a run: the mean of
    -log a over the query heads i < `tokens` and the queries t > i, a the attention that query t of head i gives token
    t - 1 - i. Heads that find a word by the word before it (induction heads; Olsson and others 2022) need such heads
    below them. Neither kind helps without the other, so without this cost both grow late."""

    tokens: int = _number(3, 1, 64)


@dataclass
class RoleWeights:
    """The weight of each token's loss, by its role."""

    text: float = _number(1.0, 0, 1e6)
    quoted: float = _number(1.0, 0, 1e6)
    answer: float = _number(1.0, 0, 1e6)


@dataclass
class Stage:
    """Steps with one sequence length and one mix of passages."""

    steps: int = _number(0, 1, 1e9)
    length: int = _number(256, 2, 1 << 16)
    sequences: int = _number(16, 1, 1 << 16)  # per step
    weight_decay: float = _number(0.1, 0, 10)  # of matrices; norms are not decayed
    orthogonal: float = _number(0.0, 0, 100)  # above 0: length of the layers' orthogonal steps (State.update)
    loss_weights: RoleWeights = field(default_factory=RoleWeights)
    mix: Mix = field(default_factory=Mix)


@dataclass
class Recipe:
    seed: int = _number(1, 0, 1e15)
    deviation: float = _number(0.02, 1e-6, 1)  # of the first weights; less where they write into the residual stream
    model: ModelShape = field(default_factory=ModelShape)
    optimizer: Optimizer = field(default_factory=Optimizer)
    rest: Rest = field(default_factory=Rest)
    look_back: LookBack = field(default_factory=LookBack)
    stages: list[Stage] = field(default_factory=list)
    comment: str = ""

    @property
    def total_steps(self) -> int:
        return sum(stage.steps for stage in self.stages)

    def stage(self, step: int) -> Stage:
        """The stage of a step; the last stage for steps after the end."""
        for stage in self.stages:
            if step < stage.steps:
                return stage
            step -= stage.steps
        return self.stages[-1]

    def rate(self, step: int) -> float:
        """Learning rate of a step, counted from 0."""
        settings = self.optimizer
        share = (step + 1) / settings.warmup_steps if step < settings.warmup_steps else 1.0
        for decay in settings.decays:
            if decay.begin <= step < decay.until:
                cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step + 1 - decay.begin) / decay.steps)))
                share *= settings.final_rate + (1.0 - settings.final_rate) * cosine
        return settings.rate * share


# Ranges of the corpus's own fields.
_MIX = {"drill": (0, 1), "repetition": (0, 1), "quiz": (0, 1), "recall": (0, 1), "paragraph": (0, 1), "echo": (0, 1),
        "aside": (0, 1), "segment": (2, 1e4)}
_PARTS = {"model": ModelShape, "optimizer": Optimizer, "rest": Rest, "look_back": LookBack, "loss_weights": RoleWeights,
          "mix": Mix, "stages": Stage, "decays": Decay}


def _read(kind: type, json: Any, name: str) -> Any:
    """An object of that kind. An unknown field is an error, so that a misspelt one does not become a default."""
    def fail(problem: str) -> None:
        raise RecipeError(f"{name}: {problem}")
    if not isinstance(json, dict):
        fail("must be an object")
    known = {one.name: one for one in fields(kind)}
    made: dict[str, Any] = {}
    for key, value in json.items():
        if key not in known:
            fail(f'unknown field "{key}"')
        part = _PARTS.get(key)
        path = key if name == "recipe" else f"{name}.{key}"
        if key in ("stages", "decays"):
            if not isinstance(value, list):
                fail(f"{key} must be a list")
            made[key] = [_read(part, one, f"{path}[{i}]") for i, one in enumerate(value)]
        elif part:
            made[key] = _read(part, value, path)
        elif key == "comment":
            made[key] = value
        else:
            least, most = known[key].metadata.get("range") or _MIX.get(key, (0, 1e6))
            whole = "int" in known[key].type
            if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not least <= value <= most:
                fail(f"{key} must be {'a whole number' if whole else 'a number'} from {least:g} to {most:g}")
            made[key] = value
    result = kind(**made)
    if kind is ModelShape and result.heads % result.kv_heads:
        fail("heads must be a multiple of kv_heads")
    if kind is ModelShape and result.head_dim % 2:
        fail("head_dim must be even")
    if kind is Decay and result.until is None:
        result.until = result.begin + result.steps
    if isinstance(result, TimedCost) and result.end < result.fall:
        fail("end must not be before fall")
    if isinstance(result, TimedCost) and result.fall < result.begin:
        fail("fall must not be before begin")
    if "look_back" in made and result.look_back.tokens > result.model.heads:
        raise RecipeError("look_back: tokens must not be more than the model's heads")
    if kind is Stage and "steps" not in made:
        fail("steps is missing")
    if kind is Mix and result.drill + result.repetition + result.quiz > 1.0 + 1e-9:
        fail("drill, repetition and quiz are shares of the sequences; their sum must not be above 1")
    if kind is Mix and not any((result.cipher, result.ledger, result.story, result.tale, result.dice, result.fact,
                                result.needle)):
        fail("all shares are zero")
    return result


def parse_recipe(text: str, where: str) -> Recipe:
    """Raises RecipeError naming the field: not JSON, an unknown field, a value out of range."""
    try:
        recipe = _read(Recipe, json.loads(text), "recipe")
    except json.JSONDecodeError as error:
        raise RecipeError(f"{where}: is not valid JSON") from error
    except RecipeError as error:
        raise RecipeError(f"{where}: {error}") from None
    if not recipe.stages:
        raise RecipeError(f"{where}: recipe: stages must be a list of at least one stage")
    return recipe


def read_recipe(path: str | Path) -> Recipe:
    return parse_recipe(Path(path).read_text(encoding="utf-8"), str(path))
