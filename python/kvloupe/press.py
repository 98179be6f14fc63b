"""A policy of kvloupe as a press of the package kvpress."""
import contextlib
import sys
from typing import Any, Iterator

import numpy as np
import torch
from kvpress.presses.base_press import BasePress
from kvpress.utils import compute_n_kept, get_prerope_key_states, get_prerope_query_states

from .attention import mask_is_causal
from .cache import Cache, _Call
from .engine import entries_of
from .errors import KvloupeError
from .functions import AnyPolicy, spec_of
from .policy import Kept

_TOLERANCE = {torch.float32: 1e-3, torch.float16: 2e-2}  # of the largest key; other types: 0.1


class Press(BasePress):
    """The policy `policy` as a press: it compresses each layer's cache once, after the prefill.

        with kvloupe.Press("keydiff", compression_ratio=0.5)(model):
            model.generate(**tokenizer(text, return_tensors="pt"), max_new_tokens=64)

    Or give the press to kvpress's pipeline. Give `budget`, entries of a head or a share such as "25%" of the context (under
    an allocation the mean), or `compression_ratio` in [0, 1), which keeps int(n (1 - ratio)) of n tokens. Heads that hold
    other numbers of entries are masked, as kvpress's AdaKVPress does: the cache then keeps its size. Layers with a sliding
    window keep what the window holds.

    Raises KvloupeError for a policy that cannot run in a model, and for a model whose queries kvpress cannot compute.
    """

    def __init__(self, policy: AnyPolicy, budget: int | str | None = None, *, compression_ratio: float | None = None) -> None:
        if (budget is None) == (compression_ratio is None):
            raise KvloupeError("kvloupe.Press: give a budget or a compression_ratio, and not both")
        if budget is not None:
            entries_of(budget)
        self.policy, self.budget = spec_of(policy), budget
        self._ratio: float | None = None
        if compression_ratio is not None:
            self.compression_ratio = compression_ratio
        self._shapes: Cache | None = None

    @property
    def compression_ratio(self) -> float | None:
        """None: a budget was given."""
        return self._ratio

    @compression_ratio.setter
    def compression_ratio(self, ratio: float) -> None:
        if not 0.0 <= ratio < 1.0:
            raise KvloupeError(f"compression_ratio {ratio}: give a number from 0 to below 1")
        self._ratio, self.budget = float(ratio), None

    @contextlib.contextmanager
    def __call__(self, model: Any) -> Iterator[None]:
        """While it is open, the model's prefills are compressed."""
        # The model's shapes and rotation, and how each layer's policy is made, are those of a cache, which never runs.
        self._shapes = Cache(self.policy, 1 if self.budget is None else self.budget, model=model, store="f32")
        self._shapes.close()
        if self._shapes.rounds:
            raise KvloupeError(f"{self.policy}: entries lose bits as they grow old, but a press acts once; use kvloupe.Cache, or "
                               "remove quant")
        try:
            with super().__call__(model):
                yield
        finally:
            self._shapes = None

    def compress(self, module: Any, hidden_states: Any, keys: Any, values: Any, attentions: Any,
                 kwargs: dict[str, Any]) -> tuple[Any, Any]:
        """Called by kvpress: keys and values [batch, heads, n, d] of a layer, and what is left of them."""
        cache, number, count = self._shapes, module.layer_idx, keys.shape[2]
        if cache is None:
            raise KvloupeError("kvloupe.Press: is not open; use it as `with press(model):`")
        if kwargs["past_key_values"].layers[number].is_sliding or getattr(module, "sliding_window", None):
            return keys, values
        if hidden_states.shape[1] != count:
            raise KvloupeError(f"layer {number}: the cache holds {count} entries after {hidden_states.shape[1]} tokens; "
                               "kvloupe.Press compresses whole contexts only")
        mask = kwargs.get("attention_mask")  # flash attention's has a number for each token
        if mask is not None and not (mask_is_causal(mask, count) if mask.ndim == 4 else bool(mask.all())):
            raise KvloupeError(f"layer {number}: the attention mask hides tokens, as padding does, which kvloupe.Press would keep as "
                               "text; give contexts of one length without padding, or one after the other")
        budget = (compute_n_kept(count, self._ratio) if self._ratio is not None
                  else cache._entries(self.budget, count))  # type: ignore[arg-type]
        if budget >= count:
            return keys, values
        queries = _queries(module, hidden_states, keys, kwargs)
        kept = [self._step(module, budget, queries[at:at + 1], keys[at:at + 1], values[at:at + 1])
                for at in range(len(keys))]
        return _left(module, kept, keys, values)

    def _step(self, module: Any, budget: int, queries: Any, keys: Any, values: Any) -> list[Kept]:
        cache, layer = self._shapes, self._shapes.layers[module.layer_idx]
        cache.budget = budget
        settings = {"softcap": getattr(module, "attn_logit_softcapping", None), "s_aux": getattr(module, "sinks", None)}
        scale = getattr(module, "scaling", None)
        call = _Call(module, None, 0.0, scale, queries.shape[3] ** -0.5 if scale is None else float(scale), settings, None)
        policy = cache._policy(layer, call, (queries, keys, values))
        read = lambda states, wanted: states.detach().cpu() if wanted else None
        kept = policy.step(read(keys, True), read(values, "values" in policy.reads), read(queries, "queries" in policy.reads))
        if any(one.log_sizes is not None and np.any(one.log_sizes) for one in kept):
            raise KvloupeError(f"{policy.spec}: adds log-biases of synthetic entries to the logits, which a press cannot; "
                               "use kvloupe.Cache")
        return kept


def _queries(module: Any, hidden_states: Any, keys: Any, kwargs: dict[str, Any]) -> Any:
    """[batch, query heads, n, d], rotated by the model's own function. Raises KvloupeError if keys that are computed in the
    same way are not those of the cache."""
    turn = getattr(sys.modules[type(module).__module__], "apply_rotary_pos_emb", None)
    where = f"layer {module.layer_idx}: {type(module).__name__}"
    if turn is None or kwargs.get("position_embeddings") is None:
        raise KvloupeError(f"{where} does not rotate its queries by apply_rotary_pos_emb; use kvloupe.Cache")
    try:
        queries = get_prerope_query_states(module, hidden_states)
        made = get_prerope_key_states(module, hidden_states)
    except NotImplementedError as error:
        raise KvloupeError(f"{where}: kvpress cannot compute its queries; use kvloupe.Cache") from error
    queries, made = turn(queries, made, *kwargs["position_embeddings"])
    far = float((made.float() - keys.float()).abs().max() / keys.float().abs().max().clamp_min(1e-30))
    if made.shape != keys.shape or not far <= _TOLERANCE.get(keys.dtype, 0.1):
        raise KvloupeError(f"{where}: kvpress's keys are not those of the cache (they differ by {far:.2g} of the largest); "
                           "use kvloupe.Cache")
    return queries


def _left(module: Any, kept: list[list[Kept]], keys: Any, values: Any) -> tuple[Any, Any]:
    """Merges, then drops what is not kept, or masks it where heads hold other numbers. kept: of each sequence and head."""
    if any(one.merges for sequence in kept for one in sequence):
        keys, values = keys.clone(), values.clone()
    for at, sequence in enumerate(kept):
        for head, one in enumerate(sequence):
            for merge in one.merges:
                values[at, head, merge.into] = torch.from_numpy(merge.value).to(values)
                if merge.key is not None:
                    keys[at, head, merge.into] = torch.from_numpy(merge.key).to(keys)
    if len({len(one.rows) for sequence in kept for one in sequence}) == 1:
        rows = torch.from_numpy(np.array([[one.rows for one in sequence] for sequence in kept], np.int64)).to(keys.device)
        rows = rows[..., None]
        return (keys.gather(2, rows.expand(-1, -1, -1, keys.shape[3])),
                values.gather(2, rows.expand(-1, -1, -1, values.shape[3])))
    if module.config._attn_implementation == "eager":  # kvpress masks in the registry's functions
        raise KvloupeError(f"layer {module.layer_idx}: its heads hold other numbers of entries, which kvpress cannot mask in "
                           'the attention "eager"; load the model with attn_implementation="sdpa"')
    dropped = np.ones(keys.shape[:3], bool)
    for at, sequence in enumerate(kept):
        for head, one in enumerate(sequence):
            dropped[at, head, one.rows] = False
    module.masked_key_indices = tuple(torch.from_numpy(one).to(keys.device) for one in np.nonzero(dropped))
    return keys, values
