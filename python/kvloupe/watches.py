"""Watches a model that runs: what stands between a layer's heads and its output projection (nothing, a gate, or something that a
trace cannot say), how the residual stream moves from token to token, and the last norm before the output head."""
import dataclasses
from functools import partial
from typing import Any, Callable, Sequence

import numpy as np
import torch
from torch.nn import functional

from .errors import uncapturable
from .places import Clock, Hooked, Place, tensor_of

# How far the heads' outputs, and their products with a gate, may be from what the projection reads, in units of its
# largest number: the model may round each once, and the product more often.
_ROUNDING = {"torch.float32": 1e-6, "torch.float16": 1e-3, "torch.bfloat16": 8e-3}
_TOLERANCE = {"torch.float32": 1e-5, "torch.float16": 4e-3, "torch.bfloat16": 3e-2}
_SOMETHING = "something between its heads and its output projection, such as a gate or a norm, changes them"


def _half(second: bool, each_head: bool, y: Any, heads: int, width: int) -> Any:
    if y.shape[-1] != 2 * heads * width:
        return None
    halves = y.view(-1, heads, 2, width)[:, :, int(second)] if each_head else y.view(-1, 2, heads * width)[:, int(second)]
    return halves.reshape(-1, heads * width)


# How a module's output [t, …] holds a gate of `heads` heads with `width` numbers: [t, heads width], or None.
_LAYOUTS: dict[str, Callable[[Any, int, int], Any]] = {
    "a number for each channel": lambda y, heads, width: y if y.shape[-1] == heads * width else None,
    "a number for each head": lambda y, heads, width: (
        y.repeat_interleave(width, -1) if y.shape[-1] == heads and width > 1 else None),
    "the second half of each head": partial(_half, True, True), "the first half of each head": partial(_half, False, True),
    "the second half": partial(_half, True, False), "the first half": partial(_half, False, False)}


_ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "sigmoid": torch.sigmoid, "softplus": functional.softplus, "silu": functional.silu, "tanh": torch.tanh, "relu": torch.relu,
    "as it is": lambda y: y}


@dataclasses.dataclass
class _Gate:
    """How the model makes a gate: which module's output, where in it, with which bias and activation."""

    module: str
    layout: str
    bias: str
    activation: str

    def of(self, outputs: dict[str, Any], attention: Any, heads: int, width: int) -> Any:
        """[t, heads width] in the model's own numbers, as it multiplies; None where it does not fit."""
        y = outputs.get(self.module)
        y = None if y is None else _LAYOUTS[self.layout](y, heads, width)
        if y is None:
            return None
        if self.bias:
            bias = getattr(attention, self.bias).detach()
            y = y + (bias if bias.numel() == y.shape[-1] else bias.repeat_interleave(width))
        return _ACTIVATIONS[self.activation](y.float()).to(y.dtype).float()


class BetweenWatch(Hooked):
    """Compares what the output projections read with what the attention functions returned, in every block.

    `take_gate(layer, gate)` gets the gate [t, Hq d_v] of each block. `why` says of a layer why a trace has no W_O for it:
    this is decided in the first block; a later one that differs raises KvloupeError.
    """

    def __init__(self, places: list[Place], clock: Clock, take_gate: Callable[[int, Any], None]) -> None:
        super().__init__()
        self.heads: dict[int, Any] = {}  # what the attention function returned, until the projection is called: [t, Hq, d]
        self.why: dict[int, str] = {}
        self.outputs: dict[int, Any] = {}  # of the first block, the first and last row that the projection gave: [2, D]
        self.gate_rows: dict[int, Any] = {}  # the gate of these rows: [2, Hq d_v]
        self._gates: dict[int, _Gate | None] = {}  # by layer, once known; None: nothing between
        self._clock = clock
        self._take_gate = take_gate
        self._parts: dict[str, Any] = {}  # outputs of the attention's parts, in the layer that runs now
        done: set[int] = set()
        for place in places:
            if place.attention is None or place.projection is None or id(place.attention) in done:
                continue
            done.add(id(place.attention))  # layers may share it
            self.hooks.append(place.projection.register_forward_pre_hook(partial(self._compare, place.attention)))
            self.hooks.append(place.projection.register_forward_hook(self._keep_output))
            for name, part in place.attention.named_children():
                if part is not place.projection:
                    self.hooks.append(part.register_forward_hook(partial(self._keep, name)))

    def _keep(self, name: str, module: Any, arguments: Any, output: Any) -> None:
        output = tensor_of(output)
        if hasattr(output, "shape") and output.ndim >= 2:
            self._parts[name] = output.detach()

    def _keep_output(self, module: Any, arguments: Any, output: Any) -> None:
        layer = self._clock.now
        if layer not in self.outputs and layer in self._gates and hasattr(output, "shape"):
            rows = output.detach().reshape(-1, output.shape[-1])
            self.outputs[layer] = rows[[0, -1]].float().cpu().numpy()

    def _compare(self, attention: Any, module: Any, arguments: Any) -> None:
        layer = self._clock.now
        own, parts = self.heads.pop(layer, None), self._parts
        self._parts = {}
        if own is None or layer in self.why:
            return
        if not arguments or arguments[0].numel() != own.numel():
            self.why[layer] = _SOMETHING
            return
        given, flat = arguments[0].detach().reshape(own.shape[0], -1), own.reshape(own.shape[0], -1)
        parts = {name: y.reshape(own.shape[0], -1) for name, y in parts.items() if y.numel() % own.shape[0] == 0}
        first = layer not in self._gates
        if first:
            self._decide(layer, attention, own, given, parts)
            if layer in self.why:
                return
        gate = self._gates[layer]
        made = None if gate is None else gate.of(parts, attention, *own.shape[1:])
        if not first and (_off(given, flat) > _most(_ROUNDING, given) if made is None else
                          _off(given, flat.float() * made) > _most(_TOLERANCE, given)):
            raise uncapturable(f"layer {layer}: what its output projection reads is in a later block no more what its heads "
                               f"give{'' if gate is None else ' times the gate'}")
        if made is not None:
            if first:
                self.gate_rows[layer] = made[[0, -1]].cpu().numpy()
            self._take_gate(layer, made)

    def _decide(self, layer: int, attention: Any, own: Any, given: Any, parts: dict[str, Any]) -> None:
        """Fills in self._gates or self.why, from the first block."""
        flat = own.reshape(own.shape[0], -1)
        if _off(given, flat) <= _most(_ROUNDING, given):
            self._gates[layer] = None
            return
        heads, width = own.shape[1:]
        for name, y in parts.items():
            if "norm" in type(getattr(attention, name)).__name__.lower() and y.shape == given.shape and bool(
                    (y == given).all()):
                self.why[layer] = f"a norm over all heads ({name}) stands between heads and output projection"
                return
        biases = ["", *(name for name, one in attention.named_parameters(recurse=False)
                        if one.ndim == 1 and one.numel() in (heads, heads * width))]
        best, least = None, _most(_TOLERANCE, given)
        for name in sorted(parts, key=lambda name: "g" not in name):  # those that are called gate first
            for gate in (_Gate(name, layout, bias, activation) for layout in _LAYOUTS for bias in biases
                         for activation in _ACTIVATIONS):
                made = gate.of({name: parts[name]}, attention, heads, width)
                off = least if made is None else _off(given, flat.float() * made)
                if off < least:
                    best, least = gate, off
        if best is None:
            self.why[layer] = _SOMETHING
        else:
            self._gates[layer] = best


def _most(limits: dict[str, float], given: Any) -> float:
    return limits.get(str(given.dtype), limits["torch.bfloat16"])


def _off(given: Any, made: Any) -> float:
    """The largest difference, in units of the largest number."""
    given = given.float()
    return float((given - made.float()).abs().max() / given.abs().max().clamp_min(1e-30))


class ResidualWatch(Hooked):
    """Follows what the layers give, from a model's first token on, until close().

    `clock`: which layer runs now (places.py); `hidden`: the width of the residual stream.
    """

    def __init__(self, layers: Sequence[Any], clock: Any, hidden: int) -> None:
        super().__init__()
        self._clock, self._hidden = clock, hidden
        self._changes: list[list[np.ndarray]] = [[] for _ in layers]
        self._last: dict[int, Any] = {}  # of the last token so far: [1, D]
        # Layers may share a module, whose hook then runs for each of them.
        self.hooks = [layer.register_forward_hook(self._leave) for layer in {id(one): one for one in layers}.values()]

    def _leave(self, module: Any, arguments: Any, out: Any) -> None:
        x, layer = tensor_of(out), self._clock.now
        # Gemma 3n has several streams: its layers give no single one.
        if layer >= len(self._changes) or getattr(x, "ndim", 0) != 3 or x.shape[0] != 1 or x.shape[2] != self._hidden:
            return
        x = x[0].detach().float()
        before = torch.cat([self._last.get(layer, x[:1]).to(x.device), x[:-1]])
        self._changes[layer].append(torch.linalg.vector_norm(x - before, dim=-1).cpu().numpy())
        self._last[layer] = x[-1:].clone()

    def changes(self, tokens: int) -> list[np.ndarray] | None:
        """‖x_t − x_{t−1}‖₂ of so many tokens after each layer, 0 at the first; None if the layers do not give it."""
        found = [np.concatenate(one) if one else np.zeros(0, np.float32) for one in self._changes]
        return found if all(len(one) == tokens and np.isfinite(one).all() for one in found) else None


_CLOSE = 0.02  # of the largest number: models also run in bfloat16
_NOT_ADDED = 0.1  # of the attention's output: how far a residual stream may be from the sum


def _close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= _CLOSE * b.abs().max())


class FinalNormWatch(Hooked):
    """Follows the last norm through a run, until close().

    The last norm is the one whose output the output head reads. It counts only if it is an RMS norm or a layer norm,
    if the layers add the outputs of their attention to the residual stream as they are (Gemma 2 puts a norm between,
    Granite a factor), and if the logits are what the head gives (Gemma 2 caps them). Else `why` says what does not hold.
    """

    def __init__(self, model: Any, place: Any, head: Any) -> None:
        """`place`: of the first layer that has attention (places.py)."""
        super().__init__()
        layer, attention = place.layer, place.attention
        self.why = ""
        self._head = head
        self._latest: tuple[Any, Any, Any] | None = None  # the norm that ran last, its input and output
        self._form: tuple[Any, Any, bool] | None = None  # weight, bias, centred
        self._rms: list[np.ndarray] = []
        # Of the watched layer: what it read and gave, what its attention gave, inputs and outputs of its other parts.
        self._entered: Any = None
        self._left: Any = None
        self._attended: Any = None
        self._parts: list[tuple[Any, Any]] = []
        self.hooks = [module.register_forward_hook(self._keep_norm) for module in model.modules()
                       if getattr(getattr(module, "weight", None), "ndim", 0) == 1 and not list(module.children())]
        self._layer = Hooked()
        self._layer.hooks = [layer.register_forward_pre_hook(self._enter, with_kwargs=True),
                             layer.register_forward_hook(self._leave), attention.register_forward_hook(self._attend),
                             *(part.register_forward_hook(self._keep_part) for part in layer.children() if part is not attention)]

    def _keep_norm(self, module: Any, args: Any, out: Any) -> None:
        self._latest = (module, args[0], out) if args else None

    def _enter(self, module: Any, args: Any, named: Any) -> None:
        self._entered = args[0] if args else named["hidden_states"]

    def _leave(self, module: Any, args: Any, out: Any) -> None:
        self._left = tensor_of(out)

    def _attend(self, module: Any, args: Any, out: Any) -> None:
        self._attended = tensor_of(out)

    def _keep_part(self, module: Any, args: Any, out: Any) -> None:
        self._parts.append((args[0] if args else None, tensor_of(out)))

    def add(self, hidden: Any, logits: Any) -> None:
        """After each block: the head's input [t, D] and the logits [t, vocabulary]."""
        latest, self._latest = self._latest, None
        if self.why:
            return
        if self._form is None:
            self.why = self._refuse(hidden, logits)
            self._close_layer()
        if not self.why and (latest is None or not self._measure(latest, hidden)):
            self.why = "its last norm is neither an RMS norm nor a layer norm"

    def _refuse(self, hidden: Any, logits: Any) -> str:
        if not self._adds():
            return "its layers do not add the attention's output to the residual stream as it is"
        if not _close(tensor_of(self._head(hidden[None, -1:]))[0].float(), logits[-1:].float()):
            return "it changes the logits after the output head"
        return ""

    def _adds(self) -> bool:
        """Whether another part of the layer reads the sum of the layer's input and the attention's output, or the
        layer gives this sum and another part's output (an MLP beside the attention)."""
        entered, attended, left = self._entered, self._attended, self._left
        if entered is None or attended is None or left is None:
            return False
        attended = attended.float()

        def is_sum(stream: Any) -> bool:  # of most tokens: a few may be huge and rounded
            if stream is None or stream.shape != attended.shape:
                return False
            off = (stream.float() - entered.float() - attended).norm(dim=-1)
            return bool((off <= _NOT_ADDED * attended.norm(dim=-1)).float().mean() > 0.5)
        return is_sum(left) or any(is_sum(given) or (out.shape == left.shape and is_sum(left.float() - out.float()))
                   for given, out in self._parts)

    def _measure(self, latest: tuple[Any, Any, Any], hidden: Any) -> bool:
        """Keeps what the norm divided by; False if it is not such a norm."""
        norm, x, out = latest
        if out.shape[1:] != hidden.shape or not bool((out[0] == hidden).all()):
            return False
        bias = getattr(norm, "bias", None)
        bias = None if bias is None else bias.detach().float()
        made = hidden.float() if bias is None else hidden.float() - bias
        weight, x = norm.weight.detach().float(), x[0].float()
        # Gemma stores its weights less 1.
        forms = [(w, bias, c) for w in (weight, weight + 1.0) for c in (False, True)] if self._form is None else [self._form]
        for w, _, centred in forms:
            full = w * (x - x.mean(-1, keepdim=True) if centred else x)
            # made = full / rms, by least squares: as the model computed it, with its epsilon.
            rms = full.square().sum(-1) / (full * made).sum(-1)
            if bool((rms > 0).all()) and _close(full / rms[:, None], made):
                self._form = w, bias, centred
                self._rms.append(rms.cpu().numpy())
                return True
        return False

    def _close_layer(self) -> None:
        self._layer.close()
        self._parts.clear()
        self._entered = self._left = self._attended = None

    def close(self) -> None:
        self._close_layer()
        super().close()

    def found(self) -> tuple[np.ndarray, np.ndarray | None, bool, np.ndarray] | None:
        """weight [D], bias [D], centred and rms [T] of h = weight x / rms + bias; x less its mean where the norm is `centred`.
        Nothing where `why` says so."""
        if self._form is None or self.why:
            return None
        weight, bias, centred = self._form
        return weight.cpu().numpy(), None if bias is None else bias.cpu().numpy(), centred, np.concatenate(self._rms)
