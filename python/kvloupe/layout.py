"""What a trace says about a model and about each of its layers, and how the format writes this as attributes."""
import dataclasses
import json
from collections import Counter
from typing import Any, Iterable, Sequence

import numpy as np

from .errors import KvloupeError

# Fields of Model that the format calls otherwise, and those that it has only where they say something.
_NAMES = {"layers": "num_layers", "heads": "num_heads", "kv_heads": "num_kv_heads", "hidden": "hidden_size", "vocabulary": "vocab_size"}
_WHERE_SAID = ("rotary_dim", "rotary_start", "fingerprint", "weights_format", "weights_type", "weights_file", "mla")
KINDS = ("attention", "none", "shared", "latent")


@dataclasses.dataclass
class Model:
    """Attributes of `/model`. `heads`, `kv_heads` and `head_dim` are those of most attention layers."""

    layers: int  # all layers, those without a cache too
    heads: int
    kv_heads: int
    head_dim: int
    hidden: int
    vocabulary: int
    name: str = ""
    architecture: str = ""
    rope_theta: float = 0.0
    rope_scaling: dict[str, Any] | None = None
    rope_pairing: str = "half"
    rotary_start: int = 0  # the first rotated channel of each head
    rotary_dim: int = 0  # rotated channels from there on; 0: all
    sliding_window: int = 0
    mla: str = ""  # latent or expanded, in models with latent attention
    config: str = ""
    fingerprint: str = ""
    weights_format: str = ""  # of quantised weights: GGUF, or the method that transformers names
    weights_type: str = ""  # such as Q4_K, or Q4_K_M (Q5_0, Q4_K)
    weights_file: str = ""


@dataclasses.dataclass
class Layer:
    """Attributes of `/layers/{l}`, and its sink logits. None: as the model, or as the run; the file holds only what
    differs from these."""

    scale: float | None = None  # what q·k is multiplied by; None: the run's attention_scale, or else key_dim^-1/2
    softcap: float = 0.0  # logits are cap tanh(logit / cap); 0: not capped
    window: int | None = None  # 0: none
    sink_logits: np.ndarray | None = None  # [Hq]
    rope_theta: float | None = None  # 0: this layer does not rotate
    rope_scaling: dict[str, Any] | None = None  # of this rope_theta
    kind: str = "attention"  # one of KINDS
    mixer: str = ""  # what a layer without a cache is, or what a state beside the cache belongs to
    heads: int | None = None
    kv_heads: int | None = None
    key_dim: int | None = None
    value_dim: int | None = None
    shares_with: int | None = None  # the earlier layer whose keys and values a layer of kind shared reads
    value_is_key_prefix: bool = False  # the values are the first value_dim channels of the keys
    state_bytes: int = 0  # of a state of fixed size beside the cache, or in its place
    chunk: int = 0  # a query sees the tokens of its own chunk; 0: not chunked
    rotary_start: int | None = None
    rotary_dim: int | None = None  # 0: all channels
    without_output_weight: str = ""  # why the layer has no output_weight

    @property
    def attends(self) -> bool:
        """Whether the layer has queries."""
        return self.kind != "none"

    @property
    def holds(self) -> bool:
        """Whether the layer has keys of its own."""
        return self.kind in ("attention", "latent")


def resolved(model: Model, layers: Sequence[Layer] | None) -> list[Layer]:
    """Copies of `layers`, one for each of the model's, with heads and dimensions filled in. Raises KvloupeError."""
    given = [Layer() for _ in range(model.layers)] if layers is None else list(layers)
    if len(given) != model.layers:
        raise KvloupeError(f"{len(given)} layers are described, but the model has {model.layers}; describe each one")
    done: list[Layer] = []
    for at, layer in enumerate(given):
        layer = dataclasses.replace(layer)
        where = f"layer {at}"
        if layer.kind not in KINDS:
            raise KvloupeError(f"{where}: kind {layer.kind!r} is not one of {', '.join(KINDS)}")
        if layer.kind == "none":
            done.append(layer)
            continue
        if layer.kind == "shared":
            source = layer.shares_with
            if source is None or not 0 <= source < at or not done[source].holds:
                raise KvloupeError(f"{where}: shares_with is {source}; give an earlier layer that has keys of its own")
            layer.kv_heads, layer.key_dim = done[source].kv_heads, done[source].key_dim
            layer.value_dim, layer.value_is_key_prefix = done[source].value_dim, done[source].value_is_key_prefix
        elif layer.shares_with is not None:
            raise KvloupeError(f"{where}: shares_with is for layers of kind shared, not {layer.kind}")
        if layer.kind == "latent":
            layer.kv_heads, layer.value_is_key_prefix = 1, True
        layer.heads = model.heads if layer.heads is None else layer.heads
        layer.kv_heads = model.kv_heads if layer.kv_heads is None else layer.kv_heads
        own = layer.key_dim is not None
        layer.key_dim = layer.key_dim if own else model.head_dim
        layer.value_dim = layer.key_dim if layer.value_dim is None else layer.value_dim
        sizes = (layer.heads, layer.kv_heads, layer.key_dim, layer.value_dim)
        if min(sizes) < 1 or layer.heads % layer.kv_heads:
            raise KvloupeError(f"{where}: {layer.heads} query heads, {layer.kv_heads} key-value heads, keys of "
                               f"{layer.key_dim} and values of {layer.value_dim} numbers; all must be positive, and the "
                               "key-value heads must divide the query heads")
        if layer.value_is_key_prefix and layer.value_dim > layer.key_dim:
            raise KvloupeError(f"{where}: values of {layer.value_dim} numbers are no part of keys of {layer.key_dim}")
        done.append(layer)
    return done


def rotation_of(model: Model, layer: Layer) -> tuple[Any, Any, int, int]:
    """Base (0: the layer does not rotate), scaling, first channel and number of channels (0: all that follow)."""
    by = model if layer.rope_theta is None else layer
    return (by.rope_theta, by.rope_scaling, model.rotary_start if layer.rotary_start is None else layer.rotary_start,
            (model.rotary_dim if layer.rotary_dim is None else layer.rotary_dim) or 0)


def _usual(found: Iterable[Any]) -> Any:
    counts = Counter(found)
    if not counts:
        raise KvloupeError("no layer has attention: a trace needs one")
    return max(counts, key=counts.__getitem__)  # of equal counts the first, in the order of the layers


def usual_shape(layers: Sequence[Layer]) -> tuple[int, int, int]:
    """(heads, kv_heads, key_dim) of most layers with queries; at a tie those of the first such layer."""
    return _usual((layer.heads, layer.kv_heads, layer.key_dim) for layer in layers if layer.attends)


def usual_scale(layers: Sequence[Layer]) -> float:
    """The attention scale of most layers: the run's."""
    return float(_usual(layer.scale for layer in layers if layer.attends))


def model_attributes(model: Model) -> dict[str, Any]:
    """Of `/model`."""
    found = {_NAMES.get(name, name): value for name, value in vars(model).items()}
    found |= {"rope_scaling": json.dumps(model.rope_scaling),
              "rotary_dim": model.rotary_dim if 0 < model.rotary_dim < model.head_dim else 0}
    return {name: value for name, value in found.items() if value or name not in _WHERE_SAID}


def layer_attributes(model: Model, scale: float, layer: Layer) -> dict[str, Any]:
    """Of `/layers/{l}`, where the layer differs from the model and the run, whose attention_scale is `scale`."""
    def unlike(usual: Any, own: Any) -> Any:
        return None if own == usual else own

    found = {"kind": unlike("attention", layer.kind), "mixer": layer.mixer or None, "state_bytes": layer.state_bytes or None}
    if layer.attends:
        start = rotation_of(model, layer)[2]
        rotated, usual = layer.rotary_dim or layer.key_dim - start, model.rotary_dim or layer.key_dim - model.rotary_start
        plain = layer.value_dim == layer.key_dim == model.head_dim
        found |= {
            "attention_softcap": float(layer.softcap) if layer.softcap > 0.0 else None,
            "sliding_window": unlike(model.sliding_window, layer.window),
            "attention_scale": None if layer.scale is None else unlike(scale, float(layer.scale)),
            "rope_theta": None if layer.rope_theta is None else float(layer.rope_theta),
            "rope_scaling": None if layer.rope_theta is None else json.dumps(layer.rope_scaling),
            "shares_with": layer.shares_with, "num_heads": unlike(model.heads, layer.heads),
            "num_kv_heads": unlike(model.kv_heads, layer.kv_heads), "key_dim": unlike(model.head_dim, layer.key_dim),
            "value_dim": None if plain else layer.value_dim, "value_is_key_prefix": layer.value_is_key_prefix or None,
            "chunk_size": layer.chunk or None, "rotary_start": unlike(model.rotary_start, start),
            "rotary_dim": None if layer.rotary_dim is None else unlike(usual, rotated),
            "without_output_weight": layer.without_output_weight or None}
    return {name: value for name, value in found.items() if value is not None}


# Attributes of a layer that version 1 has, or whose absence changes no number.
_VERSION_1 = {"attention_softcap", "sliding_window", "attention_scale", "rope_theta", "rope_scaling",
              "without_output_weight"}


def format_version(model: Model, attributes: Sequence[dict[str, Any]], gates: bool) -> int:
    """2 where the trace has something that version 1 does not know; `attributes`: those of each layer."""
    new = gates or model.rotary_start or model.mla or any(not _VERSION_1.issuperset(one) for one in attributes)
    return 2 if new else 1
