"""Multi-head latent attention (MLA), written as attention with one key-value head.

The model stores a latent c and a rotated part k_rope for each token, and makes keys and values of every head from c
with W_UK and W_UV. So the logit q_nope·(W_UK c) + q_rope·k_rope is [W_UKᵀ q_nope; q_rope]·[c; k_rope], and the sum of
values W_UV c is W_UV times the sum of latents: the latents are the keys and the values of one head that all query heads
share.
"""
from typing import Any, Callable

import numpy as np
import torch

from .errors import KvloupeError, uncapturable
from .layout import Layer
from .linear import weight_of

WAYS = ("latent", "expanded")
_PARTS = ("kv_a_proj_with_mqa", "kv_a_layernorm", "kv_b_proj")


class Latent:
    """One layer's latent attention, taken as latents, or expanded as the attention function gets it."""

    def __init__(self, number: int, module: Any, value_dim: int, query: Any, expand: bool) -> None:
        self.module = module
        self.expand = expand
        self.rank = int(module.kv_b_proj.in_features if hasattr(module.kv_b_proj, "in_features")
                        else module.kv_lora_rank)
        self.rotated = int(module.qk_rope_head_dim)
        self.plain = int(module.qk_nope_head_dim)
        self.value_dim = value_dim  # of a head's values, as the model expands them
        self.heads = query.shape[1]
        self.fresh: Any = None  # c of the block that runs now: [t, r]
        self.keys: Any = None  # of all tokens so far: [1, 1, n, r + d_r]
        self._up_key: Any = None  # W_UK [Hq, d_nope, r]
        self.up_value: Any = None  # W_UV [Hq, r, d_v]
        if not expand:
            self._read_weights(number, query)

    def describe(self, layer: Layer) -> None:
        """Fills in the shapes of a trace's layer."""
        layer.rotary_dim = self.rotated
        if self.expand:
            layer.rotary_start = self.plain
            return
        layer.kind, layer.kv_heads, layer.value_is_key_prefix = "latent", 1, True
        layer.key_dim, layer.value_dim, layer.rotary_start = self.rank + self.rotated, self.rank, self.rank

    def _read_weights(self, number: int, query: Any) -> None:
        found = weight_of(self.module.kv_b_proj, self.rank, query.dtype, query.device)
        if isinstance(found, str) or found.rows.shape[1] != self.heads * (self.plain + self.value_dim):
            why = found if isinstance(found, str) else f"gives {found.rows.shape[1]} numbers"
            raise KvloupeError(f"layer {number}: its kv_b_proj {why}; capture it with mla=\"expanded\"")
        if found.bias is not None and bool(np.abs(found.bias).max(initial=0.0) > 0.0):
            raise KvloupeError(f"layer {number}: its kv_b_proj has a bias, so latents alone are not its keys; capture it "
                               "with mla=\"expanded\"")
        both = torch.from_numpy(found.rows).to(query.device).view(self.rank, self.heads, self.plain + self.value_dim)
        self._up_key = both[:, :, :self.plain].permute(1, 2, 0).contiguous()
        self.up_value = both[:, :, self.plain:].permute(1, 0, 2).contiguous()

    def watch(self) -> Callable[[], None]:
        """Watches the model for latents; gives what ends this."""
        return self.module.kv_a_layernorm.register_forward_hook(self._keep).remove

    def _keep(self, module: Any, arguments: Any, output: Any) -> None:
        self.fresh = output.detach().reshape(-1, output.shape[-1])

    def taken(self, number: int, query: Any, key: Any) -> tuple[Any, Any, Any]:
        """Query [1, Hq, t, r + d_r], key and value [1, 1, n, …] in float32, of the expanded ones that the attention
        function gets."""
        fresh = query.shape[2]
        if self.fresh is None or self.fresh.shape != (fresh, self.rank):
            raise KvloupeError(f"layer {number}: its latents are not where kvloupe looks for them (kv_a_layernorm); capture "
                               "it with mla=\"expanded\"")
        new = torch.cat([self.fresh.float(), key[0, 0, -fresh:, self.plain:].float()], -1)[None, None]
        self.fresh = None
        self.keys = new if self.keys is None else torch.cat([self.keys, new], 2)
        seen = self.keys[:, :, -key.shape[2]:]
        return self.absorbed(query), seen, seen[..., :self.rank]

    def absorbed(self, query: Any) -> Any:
        """[1, Hq, t, r + d_r] in float32: what asks latents as `query` [1, Hq, t, d_nope + d_r] asks the heads' keys."""
        plain = torch.bmm(query[0, :, :, :self.plain].float(), self._up_key)
        return torch.cat([plain, query[0, :, :, self.plain:].float()], -1)[None]

    def expanded(self, heads: Any) -> Any:
        """What the attention function returns, [Hq, t, d_v], of the sums of latents [Hq, t, r]."""
        return torch.bmm(heads, self.up_value)

    def output_weight(self, rows: np.ndarray) -> np.ndarray:
        """[Hq, r, D] of W_O [Hq, d_v, D]."""
        return np.matmul(self.up_value.cpu().numpy(), rows)


def latent_of(number: int, module: Any, query: Any, key: Any, value: Any, mla: str) -> Latent | None:
    """The layer's latent attention; None for ordinary heads."""
    if any(getattr(module, name, None) is None for name in _PARTS):
        return None
    plain, rotated = getattr(module, "qk_nope_head_dim", None), getattr(module, "qk_rope_head_dim", None)
    if not plain or not rotated or query.shape[3] != plain + rotated or key.shape[1] != query.shape[1]:
        raise uncapturable(f"layer {number}: has latent attention, but its heads have {query.shape[3]} numbers instead of "
                           f"qk_nope_head_dim + qk_rope_head_dim = {plain} + {rotated}")
    return Latent(number, module, value.shape[3], query, mla == "expanded")
