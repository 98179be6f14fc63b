"""Where in a model the attention of each layer is, found by running one token; and what the other layers are."""
import dataclasses
import functools
import re
from typing import Any

import torch

from .attention import captured, check_thread
from .errors import uncapturable
from .latent import Latent, latent_of
from .layout import Layer

PROJECTIONS = ("o_proj", "dense", "out_proj", "c_proj")
# What a layer without attention is, by the class of a module in it: the first that fits.
_MIXERS = (("GatedDelta", "gated delta net"), ("KimiLinearDelta|KimiDelta", "Kimi delta attention"),
           ("ShortConv", "short convolution"), ("LightningAttention", "lightning attention"),
           ("^(Jamba|FalconMamba)MambaMixer|^MambaMixer", "Mamba"), ("Mamba|FalconH1Mixer|BambaMixer", "Mamba-2"),
           ("RecurrentBlock|RgLru", "gated linear recurrence"))
_FEED_FORWARD = (("MoE|Moe|Experts", "mixture of experts"), ("MLP|FeedForward", "feed-forward"))


@dataclasses.dataclass
class Place:
    """One layer of the decoder."""

    number: int
    layer: Any
    attention: Any = None  # the module that calls the attention function; None: the layer has no attention
    latent: Latent | None = None  # where its keys and values are stored as latents

    @property
    def projection(self) -> Any:
        """The module that makes the layer's output of its heads; None where it has another name."""
        found = (getattr(self.attention, name, None) for name in PROJECTIONS)
        return next((part for part in found if part is not None), None)


class Hooked:
    """Watches modules, until close(): a projection with a hook is not a plain one."""

    def __init__(self) -> None:
        self.hooks: list[Any] = []

    def close(self) -> None:
        while self.hooks:
            self.hooks.pop().remove()


def tensor_of(output: Any) -> Any:
    """What a module gives, of which some give more."""
    return output[0] if isinstance(output, tuple) else output


class Clock(Hooked):
    """Which of the decoder's layers runs now: layers may share modules, and some modules do not know their layer."""

    def __init__(self, layers: list[Any]) -> None:
        self.now = -1
        self.hooks = [layer.register_forward_pre_hook(functools.partial(self._enter, at)) for at, layer in enumerate(layers)]

    def _enter(self, layer: int, module: Any, arguments: Any) -> None:
        check_thread()  # another one's pass does not count
        self.now = layer


class _Scout:
    """Notes which module of each layer calls the attention function, and with which shapes."""

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.found: dict[int, tuple[Any, Any, Any, Any]] = {}  # module, query, key, value; kept so that no memory is
        # used twice: layers that share keys are known by the memory of these

    def take(self, module: Any, query: Any, key: Any, value: Any, *rest: Any) -> None:
        if self.clock.now in self.found:
            raise uncapturable(f"layer {self.clock.now}: its attention function was called twice for one block")
        self.found[self.clock.now] = module, query, key, value


def mixer_of(layer: Any, attention: Any = None) -> str:
    """What the layer has in place of attention, or beside it, in the field's words; empty if kvloupe does not know."""
    inside = set(map(id, attention.modules())) if attention is not None else set()
    names = [type(part).__name__ for part in layer.modules() if id(part) not in inside]
    for patterns in (_MIXERS, _FEED_FORWARD if attention is None else ()):
        for pattern, words in patterns:
            if any(re.search(pattern, name) for name in names):
                return words
    return ""


def state_bytes(cache: Any, layer: int) -> int:
    """Of the states of fixed size that the layer holds in the model's cache."""
    layers = getattr(cache, "layers", [])
    if layer >= len(layers):
        return 0
    states: list[Any] = []
    for name in ("conv_states", "recurrent_states"):
        own = getattr(layers[layer], name, None)
        states += own.values() if isinstance(own, dict) else [own]
    return sum(one.numel() * one.element_size() for one in states if hasattr(one, "element_size"))


def find_places(model: Any, layers: list[Any], token: int, device: Any, mla: str) -> tuple[list[Place], list[Layer]]:
    """The place of each layer's attention, and its shapes. Runs one token. Raises KvloupeError for layers that attend in
    a way that kvloupe does not see."""
    clock = Clock(layers)
    scout = _Scout(clock)
    try:
        with torch.inference_mode(), captured(model, scout):
            model(torch.tensor([[token]], device=device), use_cache=False)
    finally:
        clock.close()
    places, shapes = [], []
    sources: dict[tuple[int, ...], int] = {}  # layers by the memory of their keys
    for at, layer in enumerate(layers):
        place = Place(at, layer)
        places.append(place)
        if at not in scout.found:
            shapes.append(_without_attention(model, layers, at, len(scout.found)))
            continue
        module, query, key, value = scout.found[at]
        place.attention = module
        if min(query.ndim, key.ndim, value.ndim) < 4 or query.shape[0] != 1 or key.shape[1] != value.shape[1]:
            raise uncapturable(f"layer {at}: query, key and value have the shapes {list(query.shape)}, {list(key.shape)} and "
                               f"{list(value.shape)}, but a trace needs [1, heads, tokens, width]")
        own = Layer(heads=query.shape[1], kv_heads=key.shape[1], key_dim=key.shape[3], value_dim=value.shape[3],
                    rotary_start=0)
        memory = (key.data_ptr(), value.data_ptr(), *key.shape)
        if memory in sources:
            own.kind, own.shares_with = "shared", sources[memory]
        else:
            sources[memory] = at
            place.latent = latent_of(at, module, query, key, value, mla)
            if place.latent is not None:
                place.latent.describe(own)
        shapes.append(own)
    return places, shapes


def _without_attention(model: Any, layers: list[Any], at: int, others: int) -> Layer:
    layer = layers[at]
    mixer = mixer_of(layer)
    hidden = [type(part).__name__ for part in layer.modules() if type(part).__name__.endswith("Attention")
              and not any(re.search(pattern, type(part).__name__) for pattern, _ in _MIXERS)]
    if hidden:
        raise uncapturable(f"{others} of {len(layers)} layers of {type(model).__name__} call their attention function through "
                           f"transformers' registry, and layer {at} ({hidden[0]}) does not")
    if not mixer:
        raise uncapturable(f"layer {at} of {type(model).__name__} does not call an attention function through transformers' "
                           f"registry, and kvloupe does not know what a {type(layer).__name__} has in its place")
    return Layer(kind="none", mixer=mixer)
