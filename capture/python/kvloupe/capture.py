"""Captures a trace of a transformers model: block prefill with the model's own cache, then greedy tokens."""
from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .attention import Sink, captured
from .between import BetweenWatch
from .describe import (RotationCheck, cache_argument, describe, describe_weights, first_device, is_plain_model, layer_rotations,
                       layers_of, positions_of, text_config, with_uncompiled)
from .errors import KvloupeError, KvloupeWarning
from .final_norm import FinalNormWatch
from .latent import WAYS
from .layout import Layer, usual_scale
from .linear import weight_of
from .output_weight import output_weight_of
from .own_attention import LogitsCheck, check_name, check_types, own_logits
from .places import Clock, Place, find_places, mixer_of, state_bytes
from .probe import make_probe, run_probe
from .progress import reporter
from .prompt import WHOLE, block_tokens, checked_prompt, pieces_of
from .residual import ResidualWatch
from .writer import SEGMENTS, TraceWriter

_TOP = 5
_LARGEST_HEAD = 16_000_000  # bytes of an output head, or of its rows, that are stored unasked
# Families that compute something else in blocks of several tokens than in one pass.
ONE_PASS = {"jamba": "Jamba's Mamba layers begin each block of several tokens anew"}
DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16"}


class Predictions:
    """The model's next tokens, losses and last hidden states, block by block."""

    def __init__(self, ids: list[int]) -> None:
        self.ids = ids  # grows with each generated token
        self.last: Any = None  # log-probabilities after the last token so far: [vocabulary]
        self._top: list[tuple[np.ndarray, np.ndarray]] = []
        self._hidden: list[np.ndarray] = []
        self._losses: list[np.ndarray] = []

    def add(self, first: int, logits: Any, hidden: Any) -> None:
        """Those of tokens first …: logits [t, vocabulary], hidden [t, D]."""
        import torch

        count = logits.shape[0]
        logprob = torch.log_softmax(logits.float(), -1)
        values, indices = logprob.topk(min(_TOP, logprob.shape[-1]))
        for states in (hidden, values):
            wrong = (~torch.isfinite(states)).any(-1).nonzero()
            if len(wrong):
                raise KvloupeError(f"token {first + int(wrong[0])}: the model's hidden state or logits are not finite; "
                                   "capture with another dtype")
        self._top.append((indices.cpu().numpy(), values.cpu().numpy()))
        self._hidden.append(hidden.float().cpu().numpy())
        if self.last is not None:
            self._losses.append(-self.last[self.ids[first]][None].cpu().numpy())
        targets = torch.tensor(self.ids[first + 1:first + count], device=logprob.device, dtype=torch.long)
        self._losses.append(-logprob[:len(targets)].gather(1, targets[:, None])[:, 0].cpu().numpy())
        self.last = logprob[-1].clone()

    def arrays(self) -> dict[str, np.ndarray]:
        return {"token_ids": np.concatenate([one[0] for one in self._top]).astype(np.int32),
                "logprob": np.concatenate([one[1] for one in self._top]).astype(np.float32),
                "hidden": np.concatenate(self._hidden).astype(np.float32),
                "loss": np.concatenate([*self._losses, [np.nan]]).astype(np.float32)}


def _head_rows(head: Any, hidden: Any, ids: np.ndarray | None = None) -> np.ndarray | str:
    """The head's rows of some token ids, or all in float16: [n, D]; `hidden`: an input of the head. A text says why there are none."""
    found = weight_of(head, hidden.shape[-1], hidden.dtype, hidden.device, np.float16 if ids is None else np.float32, ids)
    return found if isinstance(found, str) else found.rows.T


def output_head(model: Any) -> Any:
    """The module that makes the logits. Raises KvloupeError for a model without one."""
    found = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    if found is None:
        raise KvloupeError(f"{type(model).__name__}: has no output head that gives next tokens; load the model with AutoModelForCausalLM")
    return found


def end_tokens(model: Any) -> set[int]:
    found = getattr(getattr(model, "generation_config", None), "eos_token_id", None)
    return set(found if isinstance(found, (list, tuple)) else [] if found is None else [found])


@with_uncompiled
def capture(model: Any, tokenizer: Any, prompt: Any, path: str | os.PathLike[str], *, block: int | str = 128,
            generate: int = 0, store: str = "f16", lm_head: bool = False, layers: int | None = None,
            probe: str | None = None, mla: str = "latent", progress: Any = True) -> Path:
    """Runs `prompt` through `model` and writes the trace `path`.

    prompt: a text, a list of (segment, text), or token ids. The prompt runs in blocks of `block` tokens (or "all") through
    the model's own cache, then up to `generate` tokens are generated greedily, one at a time. `store`: f16 or f32 for
    the states. `lm_head`: True stores the output head; False stores it only if it takes at most 16 MB and less than
    the states, and otherwise its rows of the tokens in the trace, up to 16 MB.
    `layers`: the number of first layers in the trace (default: all); predictions are always those of the whole
    model. `probe`: repeat or reread, a second reading of the context, which kvzip and kvcompose need; the context ends
    at the segment `question`, or at the prompt's end. `mla`: for models with latent attention (DeepSeek), latent: the
    latents that the model caches, as one key-value head; expanded: keys and values of every head. `progress`: True
    shows a line if stderr is a terminal; a function is called with (stage, tokens done, tokens in all).

    The model may be quantised or have adapters: W_O is the output of its output projections for unit vectors. Raises
    KvloupeError with one line; after an error or Ctrl-C the unfinished file is gone. Warns if the trace lacks a part.
    """
    import torch
    import transformers
    from transformers import DynamicCache, cache_utils

    block = block_tokens(block)
    ids, segments, end = checked_prompt(text_config(model), tokenizer, prompt, generate)
    block, context = len(ids) if block == WHOLE else block, ids[:end]
    if mla not in WAYS:
        raise KvloupeError(f"mla: {mla!r} is not {' or '.join(WAYS)}")
    modules, head = layers_of(model), output_head(model)
    count = len(modules)
    if layers is not None and (not hasattr(layers, "__index__") or not 1 <= layers <= count):
        raise KvloupeError(f"layers {layers}: the model has {count}; give a number from 1 to {count}, of the first layers")
    if probe is not None:
        make_probe(probe, context, tokenizer)  # refused before the model runs
        if text_config(model).model_type in ONE_PASS:
            raise KvloupeError(f"probe {probe}: {type(model).__name__} cannot read a second text after a first one, "
                               f"because {ONE_PASS[text_config(model).model_type]}; capture it without a probe")
    start, prompt_length, ends = time.monotonic(), len(ids), end_tokens(model)
    device = first_device(model)
    named = cache_argument(model)
    check_types(text_config(model), type(model).__name__)
    check_name(modules, type(model).__name__, str(model.config._attn_implementation))
    # Quantised projections may round by the largest number of a block: then the same tokens must run together.
    logits = LogitsCheck(own_logits(model, ids if is_plain_model(model) else ids[:block], device), type(model).__name__)
    places, shapes = find_places(model, modules, ids[0], device, mla)
    attending = {place.number for place in places if place.attention is not None}
    mixers = [mixer_of(place.layer, place.attention) for place in places]
    if any(mixers) and not hasattr(cache_utils, "LinearAttentionLayer"):
        raise KvloupeError(f"{type(model).__name__} has layers with {next(filter(None, mixers))}, whose states the "
                           f"cache of transformers {transformers.__version__} does not hold; install 5.24 or newer")
    shapes = shapes[:layers]
    shape = describe(model, shapes)
    describe_weights(model, shape)
    if any(place.latent is not None for place in places[:shape.layers]):
        shape.mla = mla
    block, notes = _block(text_config(model), block, prompt_length)
    report, clear = reporter(progress)
    # How many tokens there will be is known only at the end: the file is made for the most and cut.
    with TraceWriter(path, shape, prompt_length + generate, store, shapes) as writer:
        clock, predictions = Clock(modules), Predictions(ids)
        watch = BetweenWatch(places[:shape.layers], clock, lambda layer, gate: writer.add(
            layer, sink.first, "gate", gate.cpu().numpy()))
        sink = Sink(writer, places, clock, watch.heads)
        residual = ResidualWatch(modules[:shape.layers], clock, shape.hidden)
        blocks: list[tuple[int, int]] = []
        inputs: list[Any] = []
        hook = head.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        norm = FinalNormWatch(model, next(place for place in places if place.attention is not None), head)
        end_watch = lambda: [end() for end in (hook.remove, norm.close, watch.close, residual.close)]
        rotation: RotationCheck | None = RotationCheck(places[:shape.layers], clock)
        cache = DynamicCache(config=model.config)
        for text in notes:
            writer.note(text)

        def run(first: int, end: int) -> None:
            nonlocal rotation
            sink.begin(first)
            inputs.clear()
            try:
                out = model(torch.tensor([ids[first:end]], device=device), use_cache=True, **{named: cache},
                            **positions_of(model, first, end, device))
            except (ValueError, TypeError, AttributeError) as error:
                if blocks:
                    raise
                why = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
                raise KvloupeError(f"{type(model).__name__} does not run with the DynamicCache of transformers "
                                   f"({why}); this model cannot be captured") from error
            if sink.seen != attending:
                raise KvloupeError(f"{len(sink.seen)} of {count} layers of {type(model).__name__} call their "
                                   f"attention function through transformers' registry, but {len(attending)} did for "
                                   "the first token; this model cannot be captured")
            if not blocks:
                layer_rotations(model, shape, writer.layers)
                for layer, described in enumerate(writer.layers):
                    described.state_bytes = state_bytes(cache, layer)
                    if described.state_bytes and described.attends:
                        described.mixer = mixer_of(modules[layer], places[layer].attention)
            if rotation is not None and end > 1:
                rotation.close()
                rotation.apply(shape, writer.layers, sink.last_key, end - 1)
                rotation = None
            predictions.add(first, out.logits[0], inputs[0][0])
            logits.add(first, out.logits[0], next(iter(sink.output_kind.values()))[0])
            norm.add(inputs[0][0], out.logits[0])
            blocks.append((first, end))

        try:
            for place in places[:shape.layers]:
                if place.latent is not None:
                    place.latent.open()
            with torch.inference_mode(), captured(model, sink):
                for first in range(0, prompt_length, block):
                    report("prompt", first, prompt_length)
                    run(first, min(first + block, prompt_length))
                for made in range(generate):
                    report("answer", made, generate)
                    token = int(predictions.last.argmax())
                    if token in ends:
                        break
                    ids.append(token)
                    segments.append("answer")
                    run(len(ids) - 1, len(ids))
            logits.end()
            end_watch()
            writer.cut(len(ids))
            write_residual_changes(writer, residual)
            if probe is not None:
                run_probe(model, tokenizer, shape, writer, places, clock, probe, context, block, report)
            write_end(writer, tokenizer, places, sink, watch, head, inputs[0], norm, ids, segments, predictions, lm_head, report, blocks,
                      {"block_size": block, "prompt_length": prompt_length, "device": str(device), "seconds": start})
        finally:
            end_watch()
            clock.close()
            if rotation is not None:
                rotation.close()
            for place in places:
                if place.latent is not None:
                    place.latent.close()
            clear()
    for note in writer.notes:
        warnings.warn(note, KvloupeWarning, stacklevel=3)  # the caller of with_uncompiled's
    return Path(path)


def write_end(writer: TraceWriter, tokenizer: Any, places: list[Place], sink: Any, watch: BetweenWatch, head: Any, hidden: Any,
              norm: FinalNormWatch, ids: list[int], segments: list[str], predictions: Predictions, lm_head: bool, report: Any,
              blocks: list[tuple[int, int]], run: dict[str, Any]) -> None:
    """What follows the states, and the end of the file. `run`: attributes; its `seconds` are when the run began."""
    import torch

    shape = writer.model
    windows = {layer.window or 0 for layer in writer.layers if layer.attends}
    shape.sliding_window = windows.pop() if len(windows) == 1 else 0  # where they differ, each layer says its own
    write_output_weights(writer, places, sink, watch, report)
    write_head(writer, head, hidden, norm, ids, lm_head)
    pieces = pieces_of(tokenizer, shape.vocabulary) if tokenizer is not None else None
    if pieces is not None:
        writer.add_vocabulary(pieces)
    writer.add_predictions(**predictions.arrays())
    kind, names = str(next(iter(sink.output_kind.values()))[0]), list(dict.fromkeys([*SEGMENTS, *segments]))
    writer.finish(
        np.array(ids), None if pieces is None else [pieces[token] for token in ids], [names.index(segment) for segment in segments], blocks,
        {"generated": len(ids) - run["prompt_length"], "given": 0, "attention_scale": usual_scale(writer.layers),
         "dtype": DTYPES.get(kind, kind), "threads": torch.get_num_threads(), "seed": 0} | run
        | {"seconds": time.monotonic() - run["seconds"]}, names, spelled=True)


def write_residual_changes(writer: TraceWriter, residual: ResidualWatch) -> None:
    """Those of all tokens, unless the model has several residual streams."""
    changes = residual.changes(writer.tokens)
    if changes is not None:
        writer.add_residual_changes(changes)


def write_output_weights(writer: TraceWriter, places: list[Place], sink: Any, watch: BetweenWatch, report: Any) -> None:
    """W_O of every layer, or in the layer why there is none. `sink`: has output_kind and rows, as Sink."""
    without: dict[str, list[int]] = {}
    for layer, described in enumerate(writer.layers):
        report("writing", layer, writer.model.layers)
        if not described.attends:
            continue
        weight = output_weight_of(places[layer], writer, sink, watch)
        if isinstance(weight, str):
            described.without_output_weight = weight
            without.setdefault(weight, []).append(layer)
            continue
        writer.add_output_weight(layer, weight[0], _product, half=writer.half or weight[1] <= 16)
    for why, where in without.items():
        more = f" and {len(where) - 1} more" if len(where) > 1 else ""
        writer.note(f"layer {where[0]}{more}: {why}; the trace has no W_O there")


def write_head(writer: TraceWriter, head: Any, hidden: Any, norm: FinalNormWatch, ids: list[int], lm_head: bool) -> None:
    """The output head, or its rows of the trace's tokens, and the last norm. `hidden`: an input of the head."""
    shape = writer.model
    head_bytes = 2 * shape.vocabulary * shape.hidden
    whole = lm_head or (head_bytes <= _LARGEST_HEAD and head_bytes < writer.bytes_of_states())
    if whole:
        rows = _head_rows(head, hidden)
        if isinstance(rows, str):
            writer.note(f"the output head {rows}; the trace has none")
        else:
            writer.add_lm_head(rows)
    final = norm.found()
    if final is not None:
        writer.add_final_norm(final.weight, final.bias, final.centred, final.rms)
        used = np.unique(np.array(ids, np.int64))
        if not whole and 2 * len(used) * shape.hidden <= _LARGEST_HEAD:
            rows = _head_rows(head, hidden, used)
            if isinstance(rows, str):
                writer.note(f"the output head {rows}; the trace has none of its rows")
            else:
                writer.add_lm_head_rows(used, rows)
    elif lm_head:
        writer.note(f"the effect of a change on the logits is not known of this model: {norm.why}")


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    import torch

    return torch.mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()


def _block(config: Any, block: int, prompt: int) -> tuple[int, list[str]]:
    """The size of a block that the model can run, and a note where it is another than the one asked for."""
    if config.model_type in ONE_PASS and 1 < block < prompt:
        return prompt, [f"the prompt runs as one block of {prompt} tokens: {ONE_PASS[config.model_type]} (block=1 "
                        "works, too)"]
    return block, []
