"""Checks that a trace describes the model's own computation: its attention function, and the steps after it."""
from __future__ import annotations

import inspect
import re
from typing import Any

from .errors import KvloupeError

PROJECTIONS = ("o_proj", "dense", "out_proj")
_MOST_TOKENS = 128  # of the first block, run once with the model's own attention
# How far logits may be from those of the model's own attention, in units of the row's spread. In 16 bits a token of a
# mixture of experts may take another way: there the middle row counts, else the worst.
_TOLERANCE = {"torch.float32": 1e-3, "torch.float16": 0.05, "torch.bfloat16": 0.2}
# A model that asks for the name of its attention function may leave out work of its own under another name.
_ASKS_ITS_NAME = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*[^\n]*['\"](?:eager|sdpa)['\"]")


def output_projection(layer: Any) -> Any:
    """The module that makes the layer's output of its heads; None where it has another name."""
    found = (getattr(layer.self_attn, name, None) for name in PROJECTIONS)
    return next((part for part in found if part is not None), None)


class ProjectionWatch:
    """Which layers do something between their heads and their output projection, such as a gate or a norm.

    `heads`: what attention functions return, by layer, [t, Hq d]; taken out as each layer's projection is called.
    """

    def __init__(self, layers: list[Any], heads: dict[int, Any]) -> None:
        self.between: set[int] = set()
        self._heads = heads
        self._hooks = []
        for at, layer in enumerate(layers):
            part = output_projection(layer)
            if part is not None:
                self._hooks.append(part.register_forward_pre_hook(self._hook(at)))

    def _hook(self, layer: int) -> Any:
        import torch

        def compare(module: Any, arguments: Any) -> None:
            own = self._heads.pop(layer, None)
            if own is None or not arguments:
                return
            given = arguments[0].detach()
            given = given.reshape(-1, given.shape[-1])
            if given.shape != own.shape:
                self.between.add(layer)
                return
            largest = torch.linalg.vector_norm(own.float(), torch.inf).clamp_min(1e-30)
            if not float((given.float() - own.float()).abs().max() / largest) <= 1e-2:
                self.between.add(layer)
        return compare

    def close(self) -> None:
        """Call it before the weights are read: a projection with a hook is not a plain one."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def check_name(layers: list[Any], name: str) -> None:
    """Raises KvloupeError for a model whose attention does something only under the names eager and sdpa."""
    for at, layer in enumerate(layers):
        try:
            text = inspect.getsource(type(layer.self_attn).forward)
        except (OSError, TypeError):
            continue
        if _ASKS_ITS_NAME.search(text):
            raise KvloupeError(f"layer {at}: the attention of {name} does work of its own only under the names eager and "
                               "sdpa, such as choosing the tokens that a query sees, which a trace cannot say; this model "
                               "cannot be captured")


def own_logits(model: Any, ids: list[int], device: Any) -> Any:
    """[t, vocabulary] of the first tokens, with the model's own attention function and without a cache."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            return model(torch.tensor([ids[:_MOST_TOKENS]], device=device), use_cache=False).logits[0].float()
    finally:
        model.train(training)


def check_logits(own: Any, captured: Any, name: str, dtype: Any) -> None:
    """`own`: own_logits(); `captured`: of the same tokens or more, with kvloupe's attention. Raises KvloupeError."""
    import torch

    rows = min(len(own), len(captured))
    a, b = own[:rows].double(), captured[:rows].double()
    spread = torch.linalg.vector_norm(a - a.mean(-1, keepdim=True), dim=-1).clamp_min(1e-30)
    off = torch.linalg.vector_norm(b - a, dim=-1) / spread
    wrong = float(off.max() if dtype == torch.float32 else off.median())
    if not wrong <= _TOLERANCE.get(str(dtype), 0.2):
        raise KvloupeError(f"with kvloupe's attention function {name} computes other logits than with its own (they differ by "
                           f"{wrong:.2g} of their spread): something outside of the attention function depends on it; "
                           "this model cannot be captured")
