"""Checks that a trace describes the model's own computation: its attention function, and the steps after it."""
from __future__ import annotations

import inspect
import re
from typing import Any

from .errors import KvloupeError

_MOST_TOKENS = 128  # of the first block, run once with the model's own attention
# How far logits may be from those of the model's own attention, in units of the row's spread. In 16 bits a token of a
# mixture of experts may take another way: there the middle row counts, else the worst.
_TOLERANCE = {"torch.float32": 1e-3, "torch.float16": 0.05, "torch.bfloat16": 0.2}
# A model that asks for the name of its attention function may leave out work of its own under another name.
# Before transformers 5 every model asked in this way for the function of that name, and did no more.
_TAKES_THE_FUNCTION = re.compile(r"_attn_implementation\s*!=\s*['\"]eager['\"]\s*:\s*(?:#[^\n]*\s*)*"
                                 r"(?:if [^\n]*\n.*?else:\s*)?attention_interface\s*=", re.DOTALL)
_ASKS_ITS_NAME = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*[^\n]*['\"](?:eager|sdpa)['\"]")


# Types of layers (config.layer_types) that a trace cannot say.
_UNSAYABLE = {"compressed_sparse_attention": "its caches hold entries that stand for several tokens",
              "heavily_compressed_attention": "its caches hold entries that stand for several tokens"}


def check_types(config: Any, name: str) -> None:
    """Raises KvloupeError for a model with layers of a type that a trace cannot say."""
    for at, kind in enumerate(getattr(config, "layer_types", None) or []):
        if kind in _UNSAYABLE:
            raise KvloupeError(f"layer {at} of {name} is of the type {kind}: {_UNSAYABLE[kind]}, which a trace cannot "
                               "say; this model cannot be captured")


def check_name(layers: list[Any], name: str, implementation: str) -> None:
    """Raises KvloupeError for a model whose attention does something only under the names eager and sdpa, if its own
    implementation is one of the names that it asks for: with another one it goes the same way as with kvloupe's."""
    texts: dict[type, str] = {}  # of each class with a name that says attention, or that a layer calls its attention

    def source(kind: type) -> str:
        if kind not in texts:
            try:
                texts[kind] = inspect.getsource(kind.forward)
            except (OSError, TypeError, AttributeError):
                texts[kind] = ""
        return texts[kind]

    for at, layer in enumerate(layers):
        own = {type(part) for part in layer.modules() if "Attention" in type(part).__name__}
        text = "\n".join(source(kind) for kind in own | {type(getattr(layer, "self_attn", None))})
        asked = _ASKS_ITS_NAME.findall(_TAKES_THE_FUNCTION.sub("", text))
        if any(re.search(f"['\"]{re.escape(implementation)}['\"]", one) for one in asked):
            raise KvloupeError(f"layer {at}: the attention of {name} does work of its own only under the names eager and "
                               "sdpa, such as choosing the tokens that a query sees, which a trace cannot say; this model "
                               "cannot be captured")


def own_logits(model: Any, ids: list[int], device: Any) -> Any:
    """[t, vocabulary] of the first tokens, with the model's own attention function, in one pass without a cache."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            return model(torch.tensor([ids[:_MOST_TOKENS]], device=device), use_cache=False).logits[0].float()
    finally:
        model.train(training)


class LogitsCheck:
    """Compares the logits of a run in blocks with those of the model's own attention in one pass, `own`: own_logits().

    The first block computes what the pass computes. Later blocks sum in another order, after which a token of a mixture
    of experts may take another way: there a quarter of the tokens may be off. Raises KvloupeError.
    """

    def __init__(self, own: Any, name: str) -> None:
        self._own = own
        self._name = name
        self._off: list[Any] = []  # of the blocks after the first one
        self._begin = 0  # the first token of these
        self._dtype: Any = None

    def add(self, first: int, captured: Any, dtype: Any) -> None:
        """`captured`: the logits of a block, from token `first` on, with kvloupe's attention [t, vocabulary]."""
        import torch

        rows = min(len(self._own) - first, len(captured))
        if rows < 1:
            return
        a, b = self._own[first:first + rows].double(), captured[:rows].double()
        spread = torch.linalg.vector_norm(a - a.mean(-1, keepdim=True), dim=-1).clamp_min(1e-30)
        off = torch.linalg.vector_norm(b - a, dim=-1) / spread
        if first > 0:
            self._begin = first if not self._off else self._begin
            self._off.append(off)
            self._dtype = dtype
            return
        wrong = float(off.max() if dtype == torch.float32 else off.median())
        if not wrong <= _TOLERANCE.get(str(dtype), 0.2):
            raise KvloupeError(f"with kvloupe's attention function {self._name} computes other logits than with its "
                               f"own (they differ by {wrong:.2g} of their spread): something outside of the attention "
                               "function depends on it; this model cannot be captured")

    def end(self) -> None:
        """After the last block."""
        import torch

        if not self._off:
            return
        wrong = float(torch.cat(self._off).quantile(0.75))
        if not wrong <= _TOLERANCE.get(str(self._dtype), 0.2):
            raise KvloupeError(f"{self._name} computes other logits from token {self._begin} on when the prompt runs "
                               f"in blocks than in one pass (they differ by {wrong:.2g} of their spread); give a "
                               "block as long as the prompt")
