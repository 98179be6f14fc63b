"""The way from the residual stream to the logits: the last norm, found by watching a model run."""
from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

_CLOSE = 0.02  # of the largest number: models also run in bfloat16
_NOT_ADDED = 0.1  # of the attention's output: how far a residual stream may be from the sum


@dataclasses.dataclass
class FinalNorm:
    """h = weight x / rms + bias; x less its mean where the norm is `centred`."""

    weight: np.ndarray  # [D]
    bias: np.ndarray | None  # [D]
    centred: bool
    rms: np.ndarray  # [T]


def _close(a: Any, b: Any) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= _CLOSE * b.abs().max())


def _tensor(out: Any) -> Any:
    return out[0] if isinstance(out, tuple) else out


class FinalNormWatch:
    """Follows the last norm through a run, until close().

    The last norm is the one whose output the output head reads. It counts only if it is an RMS norm or a layer norm,
    if the layers add the outputs of their attention to the residual stream as they are (Gemma 2 puts a norm between,
    Granite a factor), and if the logits are what the head gives (Gemma 2 caps them). Else `why` says what does not hold.
    """

    def __init__(self, model: Any, place: Any, head: Any) -> None:
        """`place`: of the first layer that has attention (places.py)."""
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
        self._hooks = [module.register_forward_hook(self._keep_norm) for module in model.modules()
                       if getattr(getattr(module, "weight", None), "ndim", 0) == 1 and not list(module.children())]
        self._layer_hooks = [layer.register_forward_pre_hook(self._enter, with_kwargs=True),
                             layer.register_forward_hook(self._leave),
                             attention.register_forward_hook(self._attend)]
        self._layer_hooks += [part.register_forward_hook(self._keep_part) for name, part in layer.named_children()
                              if part is not attention]

    def _keep_norm(self, module: Any, args: Any, out: Any) -> None:
        self._latest = (module, args[0], out) if args else None

    def _enter(self, module: Any, args: Any, named: Any) -> None:
        self._entered = args[0] if args else named["hidden_states"]

    def _leave(self, module: Any, args: Any, out: Any) -> None:
        self._left = _tensor(out)

    def _attend(self, module: Any, args: Any, out: Any) -> None:
        self._attended = _tensor(out)

    def _keep_part(self, module: Any, args: Any, out: Any) -> None:
        self._parts.append((args[0] if args else None, _tensor(out)))

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
        if not _close(_tensor(self._head(hidden[None, -1:]))[0].float(), logits[-1:].float()):
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
        for hook in self._layer_hooks:
            hook.remove()
        self._parts.clear()
        self._entered = self._left = self._attended = None

    def close(self) -> None:
        self._close_layer()
        for hook in self._hooks:
            hook.remove()

    def found(self) -> FinalNorm | None:
        """Nothing where `why` says so."""
        if self._form is None or self.why:
            return None
        weight, bias, centred = self._form
        return FinalNorm(weight.cpu().numpy(), None if bias is None else bias.cpu().numpy(), centred,
                         np.concatenate(self._rms).astype(np.float32))
