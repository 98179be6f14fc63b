"""What stands between a layer's heads and its output projection: nothing, a gate, or something that a trace cannot say."""
from __future__ import annotations

import dataclasses
from typing import Any, Callable

from .errors import KvloupeError
from .places import Clock, Place

# How far the heads' outputs, and their products with a gate, may be from what the projection reads, in units of its
# largest number: the model may round each once, and the product more often.
_ROUNDING = {"torch.float32": 1e-6, "torch.float16": 1e-3, "torch.bfloat16": 8e-3}
_TOLERANCE = {"torch.float32": 1e-5, "torch.float16": 4e-3, "torch.bfloat16": 3e-2}
_SOMETHING = "something between its heads and its output projection, such as a gate or a norm, changes them"


def _half(second: bool, each_head: bool) -> Callable[[Any, int, int], Any]:
    def take(y: Any, heads: int, width: int) -> Any:
        if y.shape[-1] != 2 * heads * width:
            return None
        halves = y.view(-1, heads, 2, width)[:, :, int(second)] if each_head else y.view(-1, 2, heads * width)[:, int(second)]
        return halves.reshape(-1, heads * width)
    return take


# How a module's output [t, …] holds a gate of `heads` heads with `width` numbers: [t, heads width], or None.
_LAYOUTS: dict[str, Callable[[Any, int, int], Any]] = {
    "a number for each channel": lambda y, heads, width: y if y.shape[-1] == heads * width else None,
    "a number for each head": lambda y, heads, width: (
        y.repeat_interleave(width, -1) if y.shape[-1] == heads and width > 1 else None),
    "the second half of each head": _half(True, True), "the first half of each head": _half(False, True),
    "the second half": _half(True, False), "the first half": _half(False, False)}


def _activations() -> dict[str, Callable[[Any], Any]]:
    import torch
    from torch.nn import functional

    return {"sigmoid": torch.sigmoid, "softplus": functional.softplus, "silu": functional.silu, "tanh": torch.tanh,
            "relu": torch.relu, "as it is": lambda y: y}


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
        return _activations()[self.activation](y.float()).to(y.dtype).float()


class BetweenWatch:
    """Compares what the output projections read with what the attention functions returned, in every block.

    `take_gate(layer, gate)` gets the gate [t, Hq d_v] of each block. `why` says of a layer why a trace has no W_O for it:
    this is decided in the first block; a later one that differs raises KvloupeError.
    """

    def __init__(self, places: list[Place], clock: Clock, take_gate: Callable[[int, Any], None]) -> None:
        self.heads: dict[int, Any] = {}  # what the attention function returned, until the projection is called: [t, Hq, d]
        self.why: dict[int, str] = {}
        self.outputs: dict[int, Any] = {}  # of the first block, the first and last row that the projection gave: [2, D]
        self.gate_rows: dict[int, Any] = {}  # the gate of these rows: [2, Hq d_v]
        self._gates: dict[int, _Gate | None] = {}  # by layer, once known; None: nothing between
        self._clock = clock
        self._take_gate = take_gate
        self._parts: dict[str, Any] = {}  # outputs of the attention's parts, in the layer that runs now
        self._hooks: list[Any] = []
        done: set[int] = set()
        for place in places:
            if place.attention is None or place.projection is None or id(place.attention) in done:
                continue
            done.add(id(place.attention))  # layers may share it
            self._hooks.append(place.projection.register_forward_pre_hook(self._compare(place.attention)))
            self._hooks.append(place.projection.register_forward_hook(self._keep_output))
            for name, part in place.attention.named_children():
                if part is not place.projection:
                    self._hooks.append(part.register_forward_hook(self._keep(name)))

    def _keep(self, name: str) -> Any:
        def keep(module: Any, arguments: Any, output: Any) -> None:
            output = output[0] if isinstance(output, tuple) else output
            if hasattr(output, "shape") and output.ndim >= 2:
                self._parts[name] = output.detach()
        return keep

    def _keep_output(self, module: Any, arguments: Any, output: Any) -> None:
        layer = self._clock.now
        if layer not in self.outputs and layer in self._gates and hasattr(output, "shape"):
            rows = output.detach().reshape(-1, output.shape[-1])
            self.outputs[layer] = rows[[0, -1]].float().cpu().numpy()

    def _compare(self, attention: Any) -> Any:
        def compare(module: Any, arguments: Any) -> None:
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
                raise KvloupeError(f"layer {layer}: what its output projection reads is in a later block no more what its "
                                   f"heads give{'' if gate is None else ' times the gate'}; this model cannot be captured")
            if made is not None:
                if first:
                    self.gate_rows[layer] = made[[0, -1]].cpu().numpy()
                self._take_gate(layer, made)
        return compare

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
                         for activation in _activations()):
                made = gate.of({name: parts[name]}, attention, heads, width)
                off = least if made is None else _off(given, flat.float() * made)
                if off < least:
                    best, least = gate, off
        if best is None:
            self.why[layer] = _SOMETHING
        else:
            self._gates[layer] = best

    def close(self) -> None:
        """Call it before the weights are read: a projection with a hook is not a plain one."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        self._parts = {}


def _most(limits: dict[str, float], given: Any) -> float:
    return limits.get(str(given.dtype), limits["torch.bfloat16"])


def _off(given: Any, made: Any) -> float:
    """The largest difference, in units of the largest number."""
    given = given.float()
    return float((given - made.float()).abs().max() / given.abs().max().clamp_min(1e-30))
