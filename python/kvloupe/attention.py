"""Writes the inputs of every layer's attention function to the trace while a model runs, and checks that a trace describes the
model's own computation: its attention function, and the steps after it.

Queries, keys and values are taken where every modern model calls its attention function: after the rotation, the
normalisation of heads and the update of the cache.
"""
import contextlib
import inspect
import re
import sys
import threading
from typing import Any, Iterator, Sequence

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations import sdpa_attention
from transformers.masking_utils import sdpa_mask

from .errors import KvloupeError, uncapturable
from .layout import Layer
from .trace_format import seen_tokens
from .writer import TraceWriter

_CHUNK = 1 << 19  # logits that are computed at once: 2 MB, as much as a processor's cache holds
# How far an output may be from the one computed again in float32, in units of the head's largest value: the model
# rounds weights and outputs to its own type.
_TOLERANCE = {"torch.float32": 2e-4, "torch.float16": 1e-2, "torch.bfloat16": 5e-2}
# What comes only as a keyword of the attention function, by the end of its name, and has no place in a trace.
_UNSAYABLE = {"indices": "chooses the tokens that a query sees",
              "position_bias": "adds a number of its own to each logit, by the distance of query and key"}
_HIDDEN = -1e4  # added to a logit leaves no attention; transformers adds the least number of the type, at most -65504
_sink: Any = None  # takes what the attention functions receive: a Sink, or what finds their places
_owner: threading.Thread | None = None  # whose models have kvloupe's attention functions now
_owning = threading.Lock()


def check_thread() -> None:
    """Raises KvloupeError if another thread runs a model with kvloupe's attention functions: they are one for all models."""
    other = _owner
    if other is not None and other is not threading.current_thread() and other.is_alive():
        raise KvloupeError(f"the thread {other.name!r} runs a model with kvloupe.Cache or a capture now, and one process runs one at a "
                           "time; wait for it, or use processes")


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """While it is open, no other thread can open it. Raises KvloupeError as check_thread()."""
    global _owner
    with _owning:
        check_thread()
        before, _owner = _owner, threading.current_thread()
    try:
        yield
    finally:
        _owner = before


@contextlib.contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """While it is open, the model does not train."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


class Sink:
    """Writes the states of each layer and the log-sum-exp of its logits; checks some outputs of the layer with them.

    `places` and `clock`: of the layers (places.py); `heads`: where the attention function's output of a layer waits for
    the layer's output projection to be called, [t, Hq, d_v]; None: it does not.
    """

    def __init__(self, writer: TraceWriter, places: Sequence[Any], clock: Any,
                 heads: dict[int, Any] | None = None) -> None:
        self.writer = writer
        self.layers: list[Layer] = writer.layers
        self.first = 0  # token of the block that runs now
        self.seen: set[int] = set()  # layers of this block so far
        self.last_key: dict[int, np.ndarray] = {}  # of the block's last token: [Hk, d]
        self.output_kind: dict[int, tuple[Any, Any]] = {}  # dtype and device of what the output projection gets
        self.rows: dict[int, np.ndarray] = {}  # the first block's first and last row, computed again: [2, Hq value_dim]
        self._places = places
        self._clock = clock
        self._heads = heads
        self._keys: dict[int, tuple[Any, Any]] = {}  # of this block: what each layer's attention function got

    def begin(self, first: int) -> None:
        """A block of tokens from `first` on runs next."""
        self.first, self.seen, self._keys = first, set(), {}

    def take(self, module: Any, query: Any, key: Any, value: Any, mask: Any, output: Any, scale: float,
             softcap: float, window: int, sinks: Any) -> None:
        """query [1, Hq, t, d], key and value [1, Hk, n, d], mask [1, 1, t, n] or None, output [1, t, Hq, d]."""
        layer, fresh = self._clock.now, query.shape[-2]
        where = f"layer {layer}"
        if layer in self.seen:
            raise uncapturable(f"{where}: its attention function was called twice for one block")
        self.seen.add(layer)
        if layer >= len(self.layers):  # of a trace with the first layers only
            return
        settings, latent = self.layers[layer], self._places[layer].latent
        if not settings.attends:
            raise uncapturable(f"{where}: calls an attention function in some blocks only")
        self._keys[layer] = key, value
        if settings.kind == "shared":
            self._check_shared(where, settings, key, value)
        heads_value = value
        if latent is not None and not latent.expand:
            query, key, value = latent.taken(layer, query, key)
        for name, states, heads, width in (("query", query, settings.heads, settings.key_dim),
                                           ("key", key, settings.kv_heads, settings.key_dim),
                                           ("value", value, settings.kv_heads, settings.value_dim)):
            if states.shape[0] != 1 or states.shape[1] != heads or states.shape[3] != width:
                raise uncapturable(f"{where}: {name} has the shape {list(states.shape)}, but had [1, {heads}, tokens, {width}] "
                                   "for the first token")
        if layer not in self.output_kind:
            settings.scale, settings.softcap, settings.window = scale, softcap, window
            if sinks is not None:
                settings.sink_logits = sinks.detach().float().cpu().numpy().reshape(-1)
                if settings.sink_logits.shape != (settings.heads,):
                    raise KvloupeError(f"{where}: {settings.sink_logits.size} sink logits for {settings.heads} query "
                                       "heads")
        if (settings.scale, settings.softcap, settings.window) != (scale, softcap, window):
            raise KvloupeError(f"{where}: its attention changes from block to block; a trace cannot say this")
        seen = self._visible(where, mask, fresh, key.shape[-2], settings, query.device)
        self.writer.add(layer, self.first, "query", query[0].float().cpu().numpy())
        if settings.holds:
            k_new = key[0, :, -fresh:].float().cpu().numpy()
            self.writer.add(layer, self.first, "key", k_new)
            if not settings.value_is_key_prefix:
                self.writer.add(layer, self.first, "value", value[0, :, -fresh:].float().cpu().numpy())
            self.last_key[layer] = k_new[:, -1]
        if self._heads is not None:
            self._heads[layer] = output[0].detach().reshape(fresh, settings.heads, -1)
        own = self._check(where, query, key, value, seen, output, settings, latent, heads_value)
        if layer not in self.output_kind:
            self.rows[layer] = own
            self.output_kind[layer] = output.dtype, output.device
        self.writer.add(layer, self.first, "attention_logsumexp", self._logsumexp(query, key, seen, settings))

    def _check_shared(self, where: str, settings: Layer, key: Any, value: Any) -> None:
        """Raises KvloupeError if the layer does not read what the layer that it shares with reads."""
        source = self._keys.get(settings.shares_with)
        same = source is not None and all(a.shape == b.shape and (a.data_ptr() == b.data_ptr() or torch.equal(a, b))
                                          for a, b in zip(source, (key, value)))
        if not same:
            raise uncapturable(f"{where}: reads the keys and values of layer {settings.shares_with} for the first token, but "
                               "others later")

    def _visible(self, where: str, mask: Any, fresh: int, count: int, settings: Layer, device: Any) -> Any:
        """[t, n]: which keys each query sees. Raises KvloupeError if the model's mask says otherwise."""
        end = self.first + fresh
        seen = seen_tokens(torch.arange(self.first, end, device=device), torch.arange(end - count, end, device=device),
                           settings.window or 0, settings.chunk)
        if mask is not None and not mask_says(mask[..., -count:], seen):
            raise uncapturable(f"{where}: queries see other tokens than all earlier ones or those of a sliding window or chunk, "
                               "which a trace cannot say")
        return seen

    def _logits(self, q: Any, k: Any, settings: Layer) -> Any:
        """[Hk, G t, n] in float32 of queries [Hq, t, d] and keys [Hk, n, d]."""
        heads, count, width = k.shape
        logits = torch.bmm((q * settings.scale).reshape(heads, -1, width), k.transpose(1, 2))
        if settings.softcap > 0.0:
            logits.div_(settings.softcap).tanh_().mul_(settings.softcap)
        return logits

    def _logsumexp(self, query: Any, key: Any, seen: Any, settings: Layer) -> np.ndarray:
        """Of each query's logits over the keys that it sees, and the sink logit, from the states as stored: [Hq, t]."""
        q, k = self._stored(query[0]), self._stored(key[0])
        result, hidden = torch.empty(q.shape[:2]), ~seen
        rows = max(1, _CHUNK // (q.shape[0] * k.shape[1]))
        for first in range(0, q.shape[1], rows):
            part = q[:, first:first + rows]
            logits = self._logits(part, k, settings).view(q.shape[0], part.shape[1], -1)
            logits.masked_fill_(hidden[first:first + rows], -torch.inf)
            most = logits.amax(-1, keepdim=True)
            summed = logits.sub_(most).exp_().sum(-1).log_().add_(most[..., 0])
            if settings.sink_logits is not None:
                sinks = torch.from_numpy(settings.sink_logits).to(summed.device)[:, None]
                summed = torch.logaddexp(summed, sinks)
            result[:, first:first + rows] = summed.cpu()
        return result.numpy()

    def _stored(self, states: Any) -> Any:
        """The numbers as a reader will see them, in float32."""
        states = states.float()
        if self.writer.half and float(states.abs().max()) <= 65504.0:
            return states.to(torch.float16).float()
        return states

    def _check(self, where: str, query: Any, key: Any, value: Any, seen: Any, output: Any, settings: Layer,
               latent: Any, heads_value: Any) -> np.ndarray:
        """Computes the block's first and last row of the layer's output again: [2, Hq value_dim]. `heads_value`: the
        values as the attention function gets them. Raises KvloupeError."""
        rows = [0, query.shape[-2] - 1]
        q, k, v = query[0][:, rows].float(), key[0].float(), value[0].float()
        logits = self._logits(q, k, settings).view(q.shape[0], len(rows), -1)
        logits.masked_fill_(~seen[rows], -torch.inf)
        if settings.sink_logits is not None:
            sinks = torch.from_numpy(settings.sink_logits).to(logits.device)
            logits = torch.cat([logits, sinks[:, None, None].expand(-1, len(rows), 1)], -1)
        weights = torch.softmax(logits, -1)[..., :k.shape[1]]
        own = torch.bmm(weights.reshape(k.shape[0], -1, k.shape[1]), v).view(q.shape[0], len(rows), -1)
        given = output[0, rows].float().view(len(rows), q.shape[0], -1).transpose(0, 1)
        made = own if latent is None or latent.expand else latent.expanded(own)
        values = heads_value[0].float()
        largest = torch.linalg.vector_norm(values, torch.inf, (1, 2)).repeat_interleave(q.shape[0] // len(values))
        wrong = ((made - given).abs().amax((1, 2)) / largest.clamp_min(1e-30)).max()
        if not float(wrong) <= _TOLERANCE.get(str(output.dtype), 5e-2):
            raise KvloupeError(f"{where}: softmax(q k) v of the captured states is not the output of the model's "
                               f"attention (they differ by {float(wrong):.2g} of the largest value); its attention "
                               "does something that a trace cannot say")
        return own.transpose(0, 1).reshape(len(rows), -1).cpu().numpy()


def _sink_now() -> Any:
    check_thread()
    if _sink is None:
        raise KvloupeError("two threads ran this model at the same time, and the capture in one of them has ended; run one after the other")
    return _sink


def _attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
               scaling: float | None = None, **rest: Any) -> Any:
    sink, softcap, sinks = _sink_now(), rest.get("softcap") or 0.0, rest.get("s_aux")
    for name, value_given in rest.items():
        does = next((words for end, words in _UNSAYABLE.items() if name.endswith(end)), None)
        if does is not None and value_given is not None:
            raise uncapturable(f"layer {module.layer_idx}: its attention {does} ({name}), which a trace cannot say")
    if softcap or sinks is not None:  # sdpa ignores or refuses them: the model's own plain code
        added = attention_mask
        if added is not None and added.dtype == torch.bool:
            added = torch.where(added, torch.zeros((), dtype=query.dtype, device=query.device), torch.finfo(query.dtype).min)
        result = eager_of(module, "be captured")(module, query, key, value, added, scaling=scaling, dropout=0.0, **rest)
    else:
        result = sdpa_attention.sdpa_attention_forward(module, query, key, value, attention_mask, dropout=0.0, scaling=scaling,
                                                       **rest)
    window = rest.get("sliding_window", getattr(module, "sliding_window", None)) or 0
    scale = query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    sink.take(module, query, key, value, attention_mask, result[0], scale, float(softcap), int(window), sinks)
    return result


def eager_of(module: Any, needed_to: str) -> Any:
    """The plain attention function in the file of a module's class. Raises KvloupeError where there is none."""
    found = getattr(sys.modules[type(module).__module__], "eager_attention_forward", None)
    if found is None:
        raise KvloupeError(f"layer {getattr(module, 'layer_idx', '?')}: caps its logits or has sink logits, but its module has no "
                           f"eager_attention_forward; this model cannot {needed_to}")
    return found


def _mask(*positional: Any, **named: Any) -> Any:
    _sink_now()
    named["allow_is_causal_skip"] = False  # the mask is compared with what the trace says
    return sdpa_mask(*positional, **named)


@contextlib.contextmanager
def captured(model: Any, sink: Any) -> Iterator[None]:
    """While it is open, `sink` takes what the layers' attention functions receive."""
    global _sink
    with one_thread(), evaluating(model):
        AttentionInterface.register("kvloupe", _attention)
        AttentionMaskInterface.register("kvloupe", _mask)  # else the causal mask is lost
        before = model.config._attn_implementation
        _sink = sink
        try:
            try:
                model.set_attn_implementation("kvloupe")
            except (AttributeError, ValueError) as error:
                raise uncapturable(f"{type(model).__name__} does not call its attention function through "
                                   "transformers' registry") from error
            yield
        finally:
            _sink = None
            model.set_attn_implementation(before)


def mask_says(mask: Any, seen: Any) -> bool:
    """Whether a model's `mask` [..., t, n], of truths or of numbers that are added to the logits, hides what `seen` [t, n] does, and
    changes nothing else."""
    if mask.shape[-2:] != seen.shape:
        return False
    return bool((mask == seen if mask.dtype == torch.bool else torch.where(seen, mask == 0, mask <= _HIDDEN)).all())


def mask_is_causal(mask: Any, end: int, window: int = 0, chunk: int = 0) -> bool:
    """The same of a mask for the last t of `end` tokens, over the last n of them, and what causality, a window and chunks hide."""
    fresh, count = mask.shape[-2:]
    queries, keys = (torch.arange(end - many, end, device=mask.device) for many in (fresh, count))
    rows = max(1, _CHUNK // count)
    return fresh <= end >= count and all(mask_says(part, seen_tokens(some, keys, window, chunk))
                                         for part, some in zip(mask.split(rows, -2), queries.split(rows)))


_MOST_TOKENS = 128  # of the first block, run once with the model's own attention
# How far logits may be from those of the model's own attention, in units of the row's spread. In 16 bits a token of a
# mixture of experts may take another way: there the middle row counts, else the worst.
_LOGITS_TOLERANCE = {"torch.float32": 1e-3, "torch.float16": 0.05, "torch.bfloat16": 0.2}
# A model that asks for the name of its attention function may leave out work of its own under another name.
# Before transformers 5 every model asked in this way for the function of that name, and did no more.
_TAKES_THE_FUNCTION = re.compile(r"_attn_implementation\s*!=\s*['\"]eager['\"]\s*:\s*(?:#[^\n]*\s*)*"
                                 r"(?:if [^\n]*\n.*?else:\s*)?attention_interface\s*=", re.DOTALL)
_ASKS_ITS_NAME = re.compile(r"_attn_implementation\s*(?:==|!=|in|not in)\s*[^\n]*['\"](?:eager|sdpa)['\"]")
# Types of layers (config.layer_types) that a trace cannot say.
_UNSAYABLE_TYPES = {"compressed_sparse_attention": "its caches hold entries that stand for several tokens",
              "heavily_compressed_attention": "its caches hold entries that stand for several tokens"}


def check_types(config: Any, name: str) -> None:
    """Raises KvloupeError for a model with layers of a type that a trace cannot say."""
    for at, kind in enumerate(getattr(config, "layer_types", None) or []):
        if kind in _UNSAYABLE_TYPES:
            raise uncapturable(f"layer {at} of {name} is of the type {kind}: {_UNSAYABLE_TYPES[kind]}, which a trace cannot say")


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
            raise uncapturable(f"layer {at}: the attention of {name} does work of its own only under the names eager and sdpa, "
                               "such as choosing the tokens that a query sees, which a trace cannot say")


def own_logits(model: Any, ids: list[int], device: Any) -> Any:
    """[t, vocabulary] of the first tokens, with the model's own attention function, in one pass without a cache."""
    with evaluating(model), torch.inference_mode():
        return model(torch.tensor([ids[:_MOST_TOKENS]], device=device), use_cache=False).logits[0].float()


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
        if not wrong <= _LOGITS_TOLERANCE.get(str(dtype), 0.2):
            raise uncapturable(f"with kvloupe's attention function {self._name} computes other logits than with its own (they "
                               f"differ by {wrong:.2g} of their spread): something outside of the attention function depends on "
                               "it")

    def end(self) -> None:
        """After the last block."""
        if not self._off:
            return
        wrong = float(torch.cat(self._off).quantile(0.75))
        if not wrong <= _LOGITS_TOLERANCE.get(str(self._dtype), 0.2):
            raise KvloupeError(f"{self._name} computes other logits from token {self._begin} on when the prompt runs "
                               f"in blocks than in one pass (they differ by {wrong:.2g} of their spread); give a "
                               "block as long as the prompt")
