"""A cache of transformers in which a policy of kvloupe evicts and merges: the closed loop in any model of the registry.

A policy decides about each layer by itself, and the layers between two attentions work on each token by itself. So a
forward pass of many tokens is cut into blocks inside each layer's attention: a block is appended, attends, and then the
policy evicts, as if the model had run block by block.
"""
import contextlib
import dataclasses
import functools
import inspect
import sys
import threading
import warnings
import weakref
from typing import Any, Callable, Iterable, Iterator

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, DynamicCache
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from . import engine
from .attention import captured, check_name, check_thread, check_types, eager_of, mask_is_causal, one_thread
from .describe import RotationCheck, describe, first_device, layer_rotations, layers_of, text_config, uncompiled
from .errors import KvloupeError, KvloupeWarning
from .functions import AnyPolicy, spec_of
from .kept_layer import Entries, KeptLayer, Pass, kept_layer
from .layout import resolved, rotation_of
from .linear import weight_of
from .places import Clock, Place, find_places
from .policy import Kept, Policy
from .prompt import block_tokens
from .tables import strips, table
from .trace_format import frequencies

_NAME = "kvloupe_cache"  # of the attention function
_active: "Cache | None" = None  # whose model runs now
_LARGEST_HALF = 65504.0
_NO_MASK = "give one sequence without padding, and no mask of your own"


@dataclasses.dataclass
class _Call:
    """What a layer's attention function was called with beside the states."""

    module: Any
    mask: Any
    dropout: float
    scaling: float | None
    scale: float  # what q·k is multiplied by
    rest: dict[str, Any]
    own: Callable[..., Any]  # the model's own attention function


def _running_now() -> "Cache":
    check_thread()
    if _active is None:
        raise KvloupeError("the attention function of kvloupe.Cache was called outside a pass with the cache: another thread has ended the "
                           "pass, or the cache is for another model; run one after the other, with a cache for this model (model=model)")
    return _active


@torch.compiler.disable  # of this and those below: what is compiled of a model runs around them
def _attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, dropout: float = 0.0,
               scaling: float | None = None, **rest: Any) -> Any:
    cache, scale = _running_now(), query.shape[-1] ** -0.5 if scaling is None else float(scaling)
    return cache._attend(query, key, value, _Call(module, attention_mask, dropout, scaling, scale, rest, cache._own(module)))


@torch.compiler.disable
def _mask(*positional: Any, **named: Any) -> Any:
    return ALL_MASK_ATTENTION_FUNCTIONS[_running_now()._implementation](*positional, **named)


class _Forward:
    """Stands for the forward() of a model that has caches: a pass with one of them runs with kvloupe's attention function, and the
    model is as it was after whatever ends it. (torch runs no hook after Ctrl-C.)"""

    def __init__(self, model: Any) -> None:
        self.model, self.own, self.caches = model, model.forward, 0
        self._replaced = vars(model).get("forward")
        self._inside: list[tuple[threading.Thread, bool]] = []  # the passes that run now, and whether they have a cache
        self._lock = threading.Lock()
        self.before: list[tuple[Any, str]] = []  # configs and their attention during a pass with a cache
        functools.update_wrapper(self, self.own)

    @classmethod
    def of(cls, model: Any) -> "_Forward":
        if not isinstance(vars(model).get("forward"), cls):
            model.forward = cls(model)
        model.forward.caches += 1
        return model.forward

    def release(self) -> None:
        self.caches -= 1
        if self.caches == 0 and vars(self.model).get("forward") is self:
            vars(self.model).pop("forward")
            if self._replaced is not None:
                self.model.forward = self._replaced

    def restore(self) -> None:
        for config, name in self.before:
            config._attn_implementation_internal = name
        self.before = []

    def __reduce__(self) -> Any:  # a copy or a file of the model has a forward() of its own
        return (getattr, (self.model, "forward")) if self._replaced is None else (functools.partial, (self.own,))

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        cache = next((one for one in (*arguments, *named.values()) if isinstance(one, Cache) and one._forward is self), None)
        if cache is None and torch.compiler.is_compiling():
            return self.own(*arguments, **named)
        return self._pass(cache, arguments, named)

    @torch.compiler.disable(recursive=False)
    def _pass(self, cache: "Cache | None", arguments: Any, named: Any) -> Any:
        mine = threading.current_thread(), cache is not None
        try:
            with self._lock:
                other = next((one for one, reads in self._inside if one is not mine[0] and (reads or mine[1])), None)
                if other is not None:
                    check_thread()
                    raise KvloupeError(f"the thread {other.name!r} runs this model now, which runs for one thread at a time with "
                                       "kvloupe.Cache; wait for it, or use processes")
                if not self._inside:  # Ctrl-C may have come while a pass was tidied up
                    self.restore()
                self._inside = [*self._inside, mine]
            if cache is None:
                return self.own(*arguments, **named)
            with cache._running(dict(zip(inspect.signature(self.own).parameters, arguments)) | named):
                output = self.own(*arguments, **named)
            cache._after()
            return output
        finally:
            self._inside = [one for one in self._inside if one is not mine]


def _prompt_of_generate() -> int | None:
    """How many tokens the prompt has that generate() of transformers reads now, in chunks or at once."""
    frame = sys._getframe()
    while frame is not None and (frame.f_code.co_name, frame.f_globals.get("__name__")) != ("_prefill", "transformers.generation.utils"):
        frame = frame.f_back
    ids = None if frame is None else frame.f_locals.get("input_ids")
    return int(ids.shape[1]) or None if isinstance(ids, torch.Tensor) else None


@dataclasses.dataclass
class Recorded:
    """A block of a run with the full cache, for Cache.take."""

    end: int  # one past its last token
    layers: dict[int, tuple[tuple[Any, Any, Any], _Call]]  # queries, keys and values as the observer gets them
    states: dict[int, dict[str, Any]]  # of layers with a state of fixed size, after the block


_STATE = ("conv_states", "recurrent_states", "is_conv_states_initialized", "is_recurrent_states_initialized", "has_previous_state",
          "conv_kernel_size", "dtype", "device")


def _copied(state: Any) -> Any:
    if isinstance(state, dict):
        return {name: _copied(value) for name, value in state.items()}
    return state.clone() if isinstance(state, torch.Tensor) else state


class Recorder:
    """Keeps the blocks of a run with a cache that evicts nothing, while they take at most `room` bytes and begin before token
    `until`."""

    def __init__(self, cache: "Cache", until: int, room: int) -> None:
        self.blocks: list[Recorded] = []
        self._cache, self._until, self._room = cache, until, room
        self._layers: dict[int, tuple[tuple[Any, Any, Any], _Call]] = {}
        cache.observer = self._take

    def _take(self, number: int, window: int, query: Any, key: Any, value: Any, call: _Call, output: Any) -> None:
        if key is not None and self._room >= 0:
            self._layers[number] = (query, key, value), dataclasses.replace(call, mask=None)

    def end_block(self, first: int, end: int) -> None:
        """After each pass, of one block: tokens [first, end)."""
        states = {at: _copied({name: getattr(layer, name) for name in _STATE}) for at, layer in enumerate(self._cache.layers)
                  if hasattr(layer, "conv_states")}
        held = [one for parts, _ in self._layers.values() for one in parts]
        held += [one for state in states.values() for value in state.values() if isinstance(value, dict) for one in value.values()]
        self._room -= sum(one.numel() * one.element_size() for one in held if isinstance(one, torch.Tensor))
        if self._room >= 0 and first <= self._until and self._layers:
            self.blocks.append(Recorded(end, self._layers, states))
        else:
            self._room = -1
        self._layers = {}


def _evicts(passed: Pass) -> bool:
    return any(one.changes or len(one.rows) + one.left_window != one.entries for step in passed.kept for one in step)


class Cache(DynamicCache):
    """A cache for `model` in which `policy` keeps at most `budget` entries of each head (under an allocation: in the mean).

        cache = kvloupe.Cache("h2o+recent(25%)", 512, model=model)
        model.generate(**tokenizer(text, return_tensors="pt"), past_key_values=cache, max_new_tokens=64)

    One sequence, from its first token on. The prompt is the first `prompt_length` tokens, or else what generate() reads as its
    prompt, or those of the first forward pass; what follows is generated. budget: entries, or a share such as "25%" of the prompt.
    block: the prompt is read in blocks of so many tokens, however many a forward pass has; a block ends where a forward pass ends.
    compression: "regular", or "context-only", where the policy stops after the first `context` tokens (default: the prompt).
    positions: "original", or "compact", where keys are rotated to their places in the cache. store: the policy decides from the
    states as a trace stores them, in "f16" or "f32".

    The cache stands in its model's forward() until close(), the end of a `with` block, or its own end; this acts only while the
    model runs with this cache. Raises KvloupeError for a policy that cannot run in a model, and for a model with another
    attention than kvloupe knows. Whatever ends a forward pass, the model is as it was; after an error the cache cannot be used
    again, and after Ctrl-C it is empty and takes the same sequence from its first token on.
    """

    def __init__(self, policy: AnyPolicy, budget: int | str, *, model: Any, block: int | str = 128, compression: str = "regular",
                 context: int | None = None, positions: str = "original", store: str = "f16",
                 prompt_length: int | None = None) -> None:
        for name, word, words in (("compression", compression, ("regular", "context-only")),
                                  ("positions", positions, ("original", "compact")), ("store", store, ("f16", "f32"))):
            if word not in words:
                raise KvloupeError(f"{name}: {word!r} is not {' or '.join(words)}")
        self._spec = spec_of(policy)
        bits = engine.reads_of(self._spec, compression == "context-only")
        engine.entries_of(budget)  # refused before the model runs
        self._given, self.block = (budget, prompt_length), block_tokens(block)
        self._context_only, self._context = compression == "context-only", context
        self._positions, self._half = positions, store == "f16"
        self.crossed = 0  # bytes that the policies read from another device than the CPU
        self._causal: list[tuple[Any, int, int]] = []  # masks of this pass that are, with window and chunk
        self.observer: Any = None  # gets (layer's number, window, query, key, value, call, output) of each attention
        self._stopped: Any = None  # ids or embeddings of the first pass of a sequence that Ctrl-C ended
        self._forward: _Forward | None = None
        self._empty()
        with uncompiled(model) as model:
            self._describe(model, bits)
        super().__init__(config=model.config)
        self._wrap(type(model).__name__)
        self._forward = _Forward.of(model)
        self._close = weakref.finalize(self, self._forward.release)

    def _empty(self) -> None:
        """As before the first pass."""
        self.budget: int | None = self._entries(*self._given)
        self._prompt: int | None = self._given[1]  # tokens, once they are known
        self._known = self._prompt is not None  # and not only taken for those of the first pass
        self._until, self._now = self._context, None
        self.seen = 0
        self.ended = False  # set before the last forward pass, if it is known to be that
        self._broken = self._generates = False
        self._first: Any = None  # what the first pass got

    # ---- the model ----

    def _describe(self, model: Any, bits: int) -> None:
        """Shapes and rotation of the layers. Raises KvloupeError for a model that cannot run with a policy."""
        name, modules = type(model).__name__, layers_of(model)
        check_types(text_config(model), name)
        check_name(modules, name, str(model.config._attn_implementation))
        device, config = first_device(model), text_config(model)
        # Not the padding, whose embedding is 0: its keys do not show a rotation.
        token = next(one for one in range(config.vocab_size) if one != getattr(config, "pad_token_id", None))
        places, shapes = find_places(model, modules, token, device, "latent")
        shape = describe(model, shapes)
        shape.mla = "latent" if any(place.latent is not None for place in places) else ""
        layers = resolved(shape, shapes)
        layer_rotations(model, shape, layers)
        clock = Clock(modules)
        rotation = RotationCheck(places, clock)
        try:
            with torch.inference_mode(), captured(model, rotation):
                model(torch.full((1, 2), token, device=device), use_cache=False)
        finally:
            rotation.close()
            clock.close()
        rotation.apply(shape, layers, 1)
        self.model_shape, self.layer_shapes = shape, layers
        self.places: list[Place] = places
        self._longest = getattr(text_config(model), "max_position_embeddings", 0) or 1 << 31
        self._reads_weights, self.rounds = bool(bits & engine.READS_OUTPUT_WEIGHTS), bool(bits & engine.ROUNDS)
        configs = {id(place.attention.config): place.attention.config for place in places
                   if place.attention is not None and hasattr(place.attention, "config")}
        configs[id(text_config(model))] = text_config(model)
        self._configs = list(configs.values())

    def _wrap(self, name: str) -> None:
        self._holding = [at for at, own in enumerate(self.layer_shapes) if own.holds]
        for at in self._holding:
            kept = kept_layer(at, self.layers[at]) if at < len(self.layers) else None
            if kept is None:
                kind = type(self.layers[at]).__name__ if at < len(self.layers) else "nothing"
                raise KvloupeError(f"layer {at} of {name}: transformers caches it in a {kind}, in which kvloupe.Cache cannot "
                                   "evict; capture the model with the full cache and replay the policy (kvloupe.capture)")
            self.layers[at] = kept
        # Layers that read another layer's entries, by their modules; and those that they read.
        self._readers = {id(place.attention): place.number for place, own in zip(self.places, self.layer_shapes)
                         if own.kind == "shared"}
        self._read = {own.shares_with for own in self.layer_shapes if own.kind == "shared"}

    @contextlib.contextmanager
    def _running(self, named: dict[str, Any]) -> Iterator[None]:
        """While a forward pass with these arguments runs: the attention function is kvloupe's."""
        global _active
        if self._broken:
            raise KvloupeError("kvloupe.Cache: an earlier forward pass failed; make a new cache")
        given = next((named[name] for name in ("input_ids", "inputs_embeds") if named.get(name) is not None), None)
        self._check_arguments(named, given)
        with one_thread():
            AttentionInterface.register(_NAME, _attention)
            AttentionMaskInterface.register(_NAME, _mask)
            before, names = _active, [config._attn_implementation for config in self._configs]
            if _NAME in names:
                raise KvloupeError("kvloupe.Cache: the model runs with another kvloupe.Cache now; run one after the other")
            self._implementation = str(names[0])
            self._broken, forward = True, self._forward  # until the pass has ended well
            forward.before = list(zip(self._configs, names))
            try:
                for config in self._configs:
                    config._attn_implementation_internal = _NAME
                _active = self
                yield
            except Exception:
                raise
            except BaseException:  # Ctrl-C: it can run again
                first = self._first
                self.reset()
                self._stopped = first
                raise
            finally:
                _active = before
                self._causal.clear()
                forward.restore()

    def _know_prompt(self, given: Any) -> None:
        """How long the prompt is, before each pass. Raises KvloupeError where the budget is a share of more than what is known."""
        count = 0 if given is None else given.shape[1]
        if self._prompt is None:
            self._first, found = given, _prompt_of_generate()
            self._prompt, self._known = found or count, found is not None
        share = isinstance(self._given[0], str) and self._given[0].strip().endswith("%") and not self._known
        if share and not self._generates and (count > 1 if self.seen else count == 1):
            raise KvloupeError(f"kvloupe.Cache: the budget {self._given[0]} is a share of the prompt, which comes in parts: the first has "
                               f"{self._prompt} of its tokens; give the whole in prompt_length=")
        self._generates = self._generates or (self.seen > 0 and count == 1)

    @torch.compiler.disable
    def _check_arguments(self, named: dict[str, Any], given: Any) -> None:
        """Raises KvloupeError for a padding mask that hides tokens, a mask that _check_mask() cannot read, and positions of another
        sequence."""
        end = self.seen + (0 if given is None else given.shape[1])
        masks = named.get("attention_mask")
        by_kind = isinstance(masks, dict)  # of layers
        for mask in masks.values() if by_kind else [masks]:
            if mask is None or isinstance(mask, torch.Tensor) and mask.ndim == 4:
                continue
            if by_kind or not isinstance(mask, torch.Tensor) or mask.ndim != 2:
                raise KvloupeError(f"kvloupe.Cache: cannot read an attention mask of type {type(mask).__name__} with the shape "
                                   f"{list(getattr(mask, 'shape', []))}; {_NO_MASK}")
            if mask.shape[1] < end or not bool(mask[:, :end].bool().all()):
                raise KvloupeError("kvloupe.Cache: the attention mask hides tokens, as padding does, or ends before the last; "
                                   f"{_NO_MASK}")
        positions = named.get("position_ids")
        if isinstance(positions, torch.Tensor):
            wanted = torch.arange(self.seen, self.seen + positions.shape[-1], device=positions.device)
            if not bool((positions == wanted).all()):
                raise KvloupeError(f"kvloupe.Cache: position_ids are {positions.reshape(-1).tolist()[:4]}…, but the next token is "
                                   f"{self.seen}; give the sequence from its first token on")
        if self._stopped is not None and given is not None:
            both = min(end, self._stopped.shape[1])
            if given.ndim != self._stopped.ndim or not torch.equal(given[:, :both], self._stopped[:, :both].to(given.device)):
                raise KvloupeError("kvloupe.Cache: was emptied when a pass was stopped, and these tokens do not begin its sequence; give the "
                                   "sequence from its first token on, or call cache.reset() for another one")
            self._stopped = None
        self._know_prompt(given)
        if self.seen <= self._longest < end and self._positions == "original":
            warnings.warn(f"kvloupe.Cache: token {self._longest} and those after it are beyond the positions of the model, which has "
                          f"{self._longest}; its output there may mean nothing", KvloupeWarning, stacklevel=2)

    def _check_mask(self, number: int, call: _Call, end: int, window: int) -> None:
        """Raises KvloupeError if the mask of a layer with the last of `end` tokens is not the causal one, which the entries have."""
        mask, chunk = call.mask, self.layer_shapes[number].chunk
        if not isinstance(mask, torch.Tensor) or mask.ndim != 4 or any(
                mask is one and rest == [window, chunk] for one, *rest in self._causal):
            return
        if not mask_is_causal(mask, end, window, chunk):
            raise KvloupeError(f"kvloupe.Cache: under the attention mask a token of layer {number} does not see all earlier ones, or "
                               f"those of the layer's window or chunk; {_NO_MASK}")
        self._causal.append((mask, window, chunk))

    def _after(self) -> None:
        """The end of a forward pass."""
        seen = {self.layers[at].seen for at in self._holding}
        if len(seen) != 1 or self._now is not None:
            raise KvloupeError("kvloupe.Cache: some layers did not call their attention function through transformers' registry; "
                               "this model cannot run with a policy")
        for at in self._read:
            layer, last = self.layers[at], self.layers[at].last
            if last is not None and last.start is None and not all(one.whole for one in last.kept[-1]):
                layer.entries.apply(last.kept[-1])
            layer.last = None
        self.seen = seen.pop()
        self._broken = False

    def close(self) -> None:
        """Gives the model its own forward() back."""
        self._forward = None
        self._close()

    def __repr__(self) -> str:
        counts = [len(tokens) for at in self._holding for tokens in (self.layers[at].held if self.seen else [])]
        held = f"a head holds {min(counts)} to {max(counts)}" if counts else "nothing has run yet"
        return (f"<kvloupe.Cache {self._spec}, budget {self._given[0]}: {len(self._holding)} layers, {self.seen} tokens so far; {held}; "
                ".kept(layer, head), .evicted_at(layer)>")

    def __enter__(self) -> "Cache":
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    # ---- the cache ----

    @torch.compiler.disable
    def update(self, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        check_thread()
        if _active is not self:
            raise KvloupeError("kvloupe.Cache: is made for another model, or is closed; make one for this model: "
                               "kvloupe.Cache(policy, budget, model=model)")
        if key_states.shape[0] != 1:
            raise KvloupeError(f"kvloupe.Cache: holds one sequence, not a batch of {key_states.shape[0]}; run one after the other, "
                               "each with a cache of its own")
        if self._now is not None:
            raise KvloupeError(f"layer {self._now}: did not call its attention function through transformers' registry; this "
                               "model cannot run with a policy")
        if isinstance(self.layers[layer_idx], KeptLayer):
            self._now = layer_idx
        return super().update(key_states, value_states, layer_idx, *args, **kwargs)

    def reset(self) -> None:
        """Empties the cache, for another sequence."""
        super().reset()
        self._stopped = None
        self._empty()

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise KvloupeError("kvloupe.Cache: cannot be copied or stored, because its policies go on from what they have seen; make a cache "
                           "for each continuation and run the prompt in each")

    def crop(self, tokens_to_remove: int) -> None:
        raise KvloupeError("kvloupe.Cache: cannot take tokens back, as assisted generation asks; generate without an assistant")

    def batch_repeat_interleave(self, repeats: int) -> None:
        raise KvloupeError("kvloupe.Cache: holds one sequence; use num_return_sequences=1 and num_beams=1")

    batch_select_indices = batch_repeat_interleave

    def kept(self, layer: int, head: int) -> np.ndarray:
        """int32, ascending: the tokens that a head holds now."""
        own = self._holder(layer) if 0 <= layer < len(self.layers) else None
        if not isinstance(own, KeptLayer) or not 0 <= head < len(own.held):
            raise KvloupeError(f"layer {layer}, head {head}: the cache has none, or no token has run yet")
        return own.held[head].astype(np.int32)

    def _holder(self, layer: int) -> Any:
        """The layer whose entries `layer` reads: mostly its own."""
        source = self.layer_shapes[layer].shares_with
        return self.layers[layer if source is None else source]

    def evicted_at(self, layer: int) -> np.ndarray:
        """int32 [heads, tokens so far]: the step at which each token left, evicted or beyond the window; -1: it is there."""
        return np.array(self._holder(layer).evicted_at, np.int32)

    def merges(self, layer: int) -> list[tuple[int, int, int, int, float]]:
        """(head, step, into, from, weight), as the trace format has them."""
        return list(self._holder(layer).merges)

    def explain(self, token: int) -> Any:
        """Why each head holds or dropped `token` (negative: from the last one): a row for each layer and head, as a pandas
        DataFrame or, without pandas, a dictionary of columns.

        evicted_at: the step at which the token left, -1: it is there; tokens: how many had been read then; score: its score at that
        step, and threshold: the lowest score that was kept for its score (both NaN where the step did not rank it, as beyond a
        window); rival: the token with that lowest score, -1: none; merged_into: the token that took it up, -1: none. Raises
        KvloupeError for a token that has not been read."""
        number = int(token) + (self.seen if token < 0 else 0)
        if not 0 <= number < self.seen:
            raise KvloupeError(f"token {token}: the cache has read {self.seen} tokens, which count from 0")
        rows = []
        for at in self._holding:
            layer = self.layers[at]
            for head, left in enumerate(layer.evicted_at):
                step = left[number]
                scored = next(((float(scores[tokens == number][0]), float(threshold), rival)
                               for when, tokens, scores, threshold, rival in layer.why[head] if when == step and number in tokens),
                              (float("nan"), float("nan"), -1))
                into = next((into for of, when, into, source, _ in layer.merges
                             if (of, when, source) == (head, step, number) and into != number), -1)
                rows.append((at, head, step, layer.steps[step][1] if step >= 0 else self.seen, *scored, into))
        names = ("layer", "head", "evicted_at", "tokens", "score", "threshold", "rival", "merged_into")
        return table(dict(zip(names, map(list, zip(*rows)))), policy=self._spec, budget=self.budget, token=number)

    def _repr_html_(self) -> str:
        return strips(repr(self), ((at, head, np.array(left) < 0) for at in self._holding if self.seen
                                   for head, left in enumerate(self.layers[at].evicted_at)))

    @property
    def blocks(self) -> list[tuple[int, int]]:
        """First and one-past-last token of each step so far."""
        return list(self.layers[self._holding[0]].steps)

    def attributes(self) -> dict[str, Any]:
        """Those of `/run` in a closed-loop trace, once a token has run."""
        return {"policy": self.layers[self._holding[0]].policy.spec, "budget": self.budget, "positions": self._positions,
                "compression": "context-only" if self._context_only else "regular"}

    # ---- the policy ----

    def _entries(self, budget: int | str, prompt_length: int | None) -> int | None:
        """Entries of a budget; None: they are a share of a prompt that is not known yet."""
        if prompt_length is None and str(budget).strip().endswith("%"):
            return None
        return engine.entries_of(budget, 1 if prompt_length is None else prompt_length)

    def _policy(self, layer: KeptLayer, call: _Call, states: tuple[Any, Any, Any]) -> Policy:
        own, shape = self.layer_shapes[layer.number], self.model_shape
        query, key, value = states
        if self.budget is None:
            self.budget = self._entries(self._given[0], self._prompt or query.shape[2])
        sinks = call.rest.get("s_aux")
        rotation, scaling, start, width = rotation_of(self.model_shape, self.layer_shapes[layer.number])
        if self._positions == "compact" and rotation:
            frequencies(rotation, scaling, width or key.shape[3] - start)  # refused before the model runs on
        return Policy(
            self._spec, heads=key.shape[1], query_heads=query.shape[1], key_dim=key.shape[3], value_dim=value.shape[3],
            budget=self.budget, layer=layer.number, layers=shape.layers, window=layer.window,
            chunk=own.chunk, scale=call.scale,
            softcap=float(call.rest.get("softcap") or 0.0),
            sink_logits=None if sinks is None else sinks.detach().float().cpu().numpy().reshape(-1),
            rope_theta=rotation or 0.0, rope_scaling=scaling, rope_pairing=shape.rope_pairing, rotary_start=start,
            rotary_dim=width, output_weight=self._output_weight(layer.number, query, value) if self._reads_weights else None,
            positions=self._positions, prompt_length=self._prompt or query.shape[2],
            values_in_keys=self.places[layer.number].latent is not None)

    def _output_weight(self, number: int, query: Any, value: Any) -> np.ndarray:
        place = self.places[number]
        inputs = query.shape[1] * (value.shape[3] if place.latent is None else place.latent.value_dim)
        found: Any = "has another name than kvloupe knows" if place.projection is None else weight_of(
            place.projection, inputs, value.dtype, value.device)
        if isinstance(found, str):
            raise KvloupeError(f"layer {number}: {self._spec} reads its output projection, which {found}; take a policy that "
                               "does not read it")
        rows = found.rows.reshape(query.shape[1], -1, found.rows.shape[-1])
        rows = rows if place.latent is None else place.latent.output_weight(rows)
        half = self._half and float(np.abs(rows).max(initial=0.0)) <= _LARGEST_HALF
        return rows.astype(np.float16) if half else rows

    def _stored(self, states: Any) -> Any:
        """On the CPU, as a trace stores them: [heads, t, d]."""
        states = states.detach()[0]
        if self._half and states.dtype == torch.float32 and states.device.type == "cpu" and states.shape[1] == 1:
            numbers = states.numpy()  # of a generated token numpy is faster
            with np.errstate(over="ignore"):
                rounded = numbers.astype(np.float16)
            wide = np.isinf(rounded)
            return np.where(wide, numbers, rounded.astype(np.float32)) if wide.any() else rounded
        if self._half and states.dtype != torch.float16:
            half = states.to(torch.float16)
            states = torch.where(half.isinf(), states.float(), half.float()) if bool(half.isinf().any()) else half
        if states.device.type != "cpu":
            self.crossed += states.numel() * states.element_size()
        return states.cpu()

    def _states(self, layer: KeptLayer, query: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values of the pass, as the policy and the entries have them: of a layer that caches latents,
        these (latent.py)."""
        latent = self.places[layer.number].latent
        if latent is None:
            return query, *layer.new
        held, rotated = layer.new
        if held.shape[1] != 1 or held.shape[3] != latent.rank or rotated.shape[3] != latent.rotated:
            raise KvloupeError(f"layer {layer.number}: this version of transformers caches {held.shape[1]} heads of "
                               f"{held.shape[3]} numbers in place of the layer's latents; install transformers 5.24 or newer")
        return latent.absorbed(query), torch.cat([held, rotated], -1), held

    def _step(self, layer: KeptLayer, block: tuple[int, int], part: slice, states: tuple[Any, Any, Any],
              last: bool) -> list[Kept]:
        """The policy's answer for a block of the pass; the records of the layer."""
        policy, (query, key, value) = layer.policy, states
        acts = self._until is None or not self._context_only or block[1] <= self._until
        read = lambda states, wanted: self._stored(states[:, :, part]) if wanted else None
        kept = policy.step(read(key, True), read(value, "values" in policy.reads),
                           read(query, "queries" in policy.reads and acts), last=last, acts=acts)
        step = len(layer.steps)
        layer.steps.append(block)
        for head, one in enumerate(kept):
            before, left, lost = layer.held[head], layer.evicted_at[head], one.entries - len(one.rows)
            left += [-1] * (block[1] - len(left))
            layer.held[head] = one.tokens
            if not lost and not one.merges:
                continue
            held = np.concatenate([before, np.arange(*block, dtype=np.int32)])
            if lost == 1:  # the row that is missing, as after most generated tokens
                gone = [one.entries * (one.entries - 1) // 2 - int(one.rows.sum())]
            else:
                mask = np.ones(one.entries, bool)
                mask[one.rows] = False
                gone = np.flatnonzero(mask).tolist()
            for row in gone:
                left[held[row]] = step
            ranked = [row for row in gone if row >= one.left_window] if one.scores is not None else []
            if ranked:
                kept_for_it = one.left_window + np.flatnonzero(one.scores == one.threshold)
                rival = next((int(held[row]) for row in kept_for_it if row not in ranked), -1)
                layer.why[head].append((step, held[ranked], one.scores[np.subtract(ranked, one.left_window)], one.threshold, rival))
            for merge in one.merges:
                if len(merge.rows) == 1:  # refitted: nothing went into it
                    continue
                layer.merges += [(head, step, int(held[merge.into]), int(held[row]), float(weight))
                                 for row, weight in zip(merge.rows, merge.weights)]
        return kept

    def blocks_of(self, first: int, end: int) -> list[tuple[int, int]]:
        """The blocks of a pass; none is a part of both the context and what follows it."""
        border = self._until if self._context_only and self._until is not None and first < self._until < end else end
        return [(at, min(at + self.block, stop)) for begin, stop in ((first, border), (border, end))
                for at in range(begin, stop, self.block)]

    # ---- the attention ----

    def _own(self, module: Any) -> Callable[..., Any]:
        """The model's own attention function."""
        name = self._implementation
        return eager_of(module, "run with a policy") if name == "eager" else ALL_ATTENTION_FUNCTIONS[name]

    def _attend(self, query: Any, key: Any, value: Any, call: _Call) -> Any:
        if self._now is None:
            number = self._readers.get(id(call.module))
            if number is None:
                raise KvloupeError(f"layer {getattr(call.module, 'layer_idx', '?')}: called its attention function without an "
                                   "update of the cache; this model cannot run with a policy")
            return self._attend_shared(number, query, key, value, call)
        layer: KeptLayer = self.layers[self._now]
        self._check_mask(layer.number, call, layer.seen + query.shape[2], self._window(layer, call))
        states = self._states(layer, query)
        passed = self._decided(layer, states, call)
        if layer.entries is None and (len(passed.blocks) == 1 or not _evicts(passed)):  # a block attends before it evicts
            result = self._as_own(call, query, key, value)
            self._after_first(layer, passed, states)
        else:
            if layer.entries is None:
                layer.entries = self._first_entries(layer, passed, states)
            if layer.number in self._read:
                passed.start = layer.entries.copy() if len(passed.blocks) > 1 else None
                layer.last = passed
            result = self._through(layer, layer.entries, passed, states[0], call), None
        if self.observer is not None:
            self.observer(layer.number, layer.window, *states, call, result[0])
        layer.seen, layer.new, layer.before, self._now = passed.blocks[-1][1], None, None, None
        return result

    def _decided(self, layer: KeptLayer, states: tuple[Any, Any, Any], call: _Call) -> Pass:
        """The policy's answers for the blocks of a pass."""
        first, count = layer.seen, states[0].shape[2]
        if layer.policy is None:
            layer.window = self._window(layer, call)
            layer.policy = self._policy(layer, call, states)
            if self._context_only and self._until is None:
                self._until = self._prompt or count
            heads = states[1].shape[1]
            layer.held = [np.empty(0, np.int32) for _ in range(heads)]
            layer.evicted_at = [[] for _ in range(heads)]
            layer.why = [[] for _ in range(heads)]
        blocks = self.blocks_of(first, first + count)
        return Pass(blocks, [self._step(layer, (at, end), slice(at - first, end - first), states,
                                        self.ended and end == first + count) for at, end in blocks], states[1:], None)

    def _after_first(self, layer: KeptLayer, passed: Pass, states: tuple[Any, Any, Any]) -> None:
        """After a pass that attended with the model's own cache: makes the entries, if its only block evicts."""
        if _evicts(passed):
            layer.entries = self._first_entries(layer, passed, states)
            layer.entries.append(*states[1:], passed.blocks[0][0])
            layer.entries.apply(passed.kept[0])

    def take(self, blocks: Iterable["Recorded"]) -> None:
        """Takes blocks of a run with the full cache as if the model had run them, up to the first that evicts something, its own
        eviction included; `seen` says how far. A cache that has not run yet."""
        for block in blocks:
            evicts = False
            for number, (states, call) in block.layers.items():
                layer, latent = self.layers[number], self.places[number].latent
                layer.update(*(states[1:] if latent is None else (states[2], states[1][..., latent.rank:])))
                passed = self._decided(layer, states, call)
                self._after_first(layer, passed, states)
                evicts = evicts or layer.entries is not None
                layer.seen, layer.new, layer.before = block.end, None, None
            for number, state in block.states.items():
                for name, value in _copied(state).items():
                    setattr(self.layers[number], name, value)
            self.seen = block.end
            if evicts:
                break

    def _window(self, layer: KeptLayer, call: _Call) -> int:
        window = call.rest.get("sliding_window", getattr(call.module, "sliding_window", None)) or 0
        return int(window) if layer.is_sliding or window else 0

    def _as_own(self, call: _Call, query: Any, key: Any, value: Any) -> Any:
        """What the model's own attention function gives."""
        return call.own(call.module, query, key, value, call.mask, dropout=call.dropout, scaling=call.scaling, **call.rest)

    def _attend_shared(self, number: int, query: Any, key: Any, value: Any, call: _Call) -> Any:
        """A layer that reads another layer's entries: those of each block, before that layer's policy evicted at its end.
        The other layer's queries have decided; these do not. There may be fewer of them than the pass has tokens (Gemma 4):
        its last ones."""
        holder: KeptLayer = self._holder(number)
        self._check_mask(number, call, holder.seen, holder.window)
        if holder.last is None:
            if call.mask is None and 1 < query.shape[2] < key.shape[2]:  # the model's function would take them for the first ones
                new = torch.arange(key.shape[2] - query.shape[2], key.shape[2], device=query.device)
                seen = torch.arange(key.shape[2], device=query.device)[None] <= new[:, None]
                call.mask = torch.zeros_like(seen, dtype=query.dtype).masked_fill(~seen, torch.finfo(query.dtype).min)[None, None]
            result = self._as_own(call, query, key, value)
        else:
            entries = holder.entries if holder.last.start is None else holder.last.start.copy()
            result = self._through(holder, entries, holder.last, query, call, reads=True), None
        if self.observer is not None:
            self.observer(number, holder.window, query, None, None, call, result[0])
        return result

    def _first_entries(self, layer: KeptLayer, passed: Pass, states: tuple[Any, Any, Any]) -> Entries:
        """Of the tokens before the pass that the policy knows: the model's own cache may hold more, of an earlier chunk. The
        model's own layer is empty from then on."""
        count = passed.kept[0][0].entries - (passed.blocks[0][1] - passed.blocks[0][0])
        latent = self.places[layer.number].latent
        if layer.before is None:
            keys, values = (one[:, :, :0] for one in states[1:])
        else:
            keys, values = (one[:, :, one.shape[2] - count:] for one in layer.before)
            if latent is not None:
                keys, values = torch.cat([keys, values], -1), keys
        layer.own.keys = layer.own.values = None
        layer.own.is_initialized = False
        return Entries(keys, values if latent is None or layer.policy.merges else latent.rank, layer.seen - count)

    def _through(self, layer: KeptLayer, entries: Entries, passed: Pass, query: Any, call: _Call, reads: bool = False) -> Any:
        """Block by block: appends it to `entries` of `layer`, attends, and evicts; the output [1, t, query heads, value_dim] of
        `query`, of the last t tokens of the pass. reads: for another layer, which reads the entries of `layer`."""
        first, begin, outputs = passed.blocks[0][0], passed.blocks[-1][1] - query.shape[2], []
        waits = layer.last is not None and passed.start is None  # one block: it is appended once, and evicts after the pass
        for (at, end), kept in zip(passed.blocks, passed.kept):
            if not (reads and waits):
                entries.append(*(states[:, :, at - first:end - first] for states in passed.new), at)
            if end > begin:
                block = max(at, begin), end
                outputs.append(self._block_attention(layer, entries, call, block, query[:, :, block[0] - begin:end - begin]))
            if not waits and not all(one.whole for one in kept):
                entries.apply(kept)
        return torch.cat(outputs, 1)

    def _block_attention(self, layer: KeptLayer, entries: Entries, call: _Call, block: tuple[int, int], query: Any) -> Any:
        keys, values, group = entries.keys, entries.values, query.shape[1] // len(entries.slots)
        latent, chunk, mask = self.places[layer.number].latent, self.layer_shapes[layer.number].chunk, None
        if query.shape[2] > 1 or layer.window or chunk or entries.unused or entries.log_sizes is not None:
            positions = torch.arange(*block, device=query.device)[None, :, None]
            tokens = entries.tokens[:, None, :]
            seen = (tokens >= 0) & (tokens <= positions)
            if layer.window:
                seen = seen & (positions - tokens < layer.window)
            if chunk:
                seen = seen & (positions // chunk == tokens // chunk)
            added = torch.zeros_like(seen, dtype=keys.dtype)
            if entries.log_sizes is not None:
                added = added + entries.log_sizes[:, None, :].to(keys.dtype)
            mask = added.masked_fill(~seen, torch.finfo(keys.dtype).min).repeat_interleave(group, 0)[None]
        if self._positions == "compact":
            places = torch.zeros_like(entries.tokens)
            for head, slots in enumerate(entries.slots):
                places[head, torch.from_numpy(slots)] = torch.arange(len(slots), device=places.device)
            turns = (places - entries.tokens).masked_fill(entries.tokens < 0, 0)
            keys = self._turned(layer, keys, turns)
            query = self._turned(layer, query, turns[:, -query.shape[2]:].repeat_interleave(group, 0))
        named = {name: value for name, value in call.rest.items() if name not in ("is_causal", "position_ids")}
        if latent is not None:  # its module knows of as many key-value heads as query heads
            query, keys, values = query.to(keys.dtype), keys.expand(-1, group, -1, -1), values.expand(-1, group, -1, -1)
        function = ALL_ATTENTION_FUNCTIONS["sdpa"]
        if call.rest.get("softcap") or call.rest.get("s_aux") is not None:  # sdpa ignores or refuses them
            function = eager_of(call.module, "run with a policy")
        output = function(call.module, query, keys, values, mask, dropout=call.dropout, scaling=call.scale, **named)[0]
        return output if latent is None else latent.expanded(output[0].transpose(0, 1).float()).transpose(0, 1)[None].to(keys.dtype)

    def _turned(self, layer: KeptLayer, states: Any, by: Any) -> Any:
        """states [1, heads, n, d] rotated on by [heads, n] positions; what stays is not changed by a bit."""
        if not bool(by.any()):
            return states
        theta, scaling, start, width = rotation_of(self.model_shape, self.layer_shapes[layer.number])
        if not theta:  # this layer does not rotate
            return states
        angles = torch.from_numpy(frequencies(theta, scaling, width or states.shape[3] - start)[0]).to(states.device)
        count = len(angles)
        one, two = ((slice(start, start + 2 * count, 2), slice(start + 1, start + 2 * count, 2))
                    if self.model_shape.rope_pairing == "interleaved" else
                    (slice(start, start + count), slice(start + count, start + 2 * count)))
        turn = by.double()[None, :, :, None] * angles
        cosine, sine = torch.cos(turn), torch.sin(turn)
        x, y = states[..., one].double(), states[..., two].double()
        result = states.clone()
        result[..., one] = (x * cosine - y * sine).to(states.dtype)
        result[..., two] = (x * sine + y * cosine).to(states.dtype)
        return torch.where((by == 0)[None, :, :, None], states, result)
