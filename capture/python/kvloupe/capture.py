"""Captures a trace of a transformers model: block prefill with the model's own cache, then greedy tokens."""
from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from .attention import Sink, captured
from .describe import RotationCheck, cache_argument, describe, first_device, layer_rotations, layers_of, text_config
from .errors import KvloupeError, KvloupeWarning
from .final_norm import FinalNormWatch
from .linear import Weight, weight_of
from .own_attention import PROJECTIONS, ProjectionWatch, check_logits, check_name, own_logits
from .probe import make_probe, run_probe
from .progress import reporter
from .prompt import encoded, pieces_of
from .writer import SEGMENTS, Model, TraceWriter

_TOP = 5
_LARGEST_HEAD = 16_000_000  # bytes of an output head, or of its rows, that are stored unasked
_DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16"}


class _Predictions:
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


def _output_weight(layer: Any, shape: Model, sink: Sink, number: int) -> Weight | str:
    """[Hq d, D]: output = Σ (A V) · slice; a text says why there is none."""
    for name in PROJECTIONS:
        projection = getattr(layer.self_attn, name, None)
        if projection is not None:
            found = weight_of(projection, shape.heads * shape.head_dim, *sink.output_kind[number])
            return f"{name} {found}" if isinstance(found, str) else found
    return "its output projection has another name than " + ", ".join(PROJECTIONS[:-1]) + f" or {PROJECTIONS[-1]}"


def _head_weight(head: Any, hidden: Any) -> np.ndarray | str:
    """[vocabulary, D] in float16; `hidden`: an input of the head. A text says why there is none."""
    found = weight_of(head, hidden.shape[-1], hidden.dtype, hidden.device, np.float16)
    return found if isinstance(found, str) else found.rows.T


def _head_rows(head: Any, hidden: Any, ids: np.ndarray) -> np.ndarray | str:
    """The same of some token ids alone: [n, D]."""
    found = weight_of(head, hidden.shape[-1], hidden.dtype, hidden.device, outputs=ids)
    return found if isinstance(found, str) else found.rows.T


def _end_tokens(model: Any) -> set[int]:
    found = getattr(model.generation_config, "eos_token_id", None)
    return set(found if isinstance(found, (list, tuple)) else [] if found is None else [found])


def capture(model: Any, tokenizer: Any, prompt: Any, path: str | os.PathLike[str], *, block: int = 128,
            generate: int = 0, store: str = "f16", lm_head: bool = False, layers: int | None = None,
            probe: str | None = None, progress: Any = True) -> Path:
    """Runs `prompt` through `model` and writes the trace `path`.

    prompt: a text, a list of (segment, text), or token ids. The prompt runs in blocks of `block` tokens through the
    model's own cache, then up to `generate` tokens are generated greedily, one at a time. `store`: f16 or f32 for
    the states. `lm_head`: True stores the output head; False stores it only if it takes at most 16 MB and less than
    the states, and otherwise its rows of the tokens in the trace, up to 16 MB.
    `layers`: the number of first layers in the trace (default: all); predictions are always those of the whole
    model. `probe`: repeat or reread, a second reading of the context, which kvzip and kvcompose need; the context ends
    at the segment `question`, or at the prompt's end. `progress`: True shows a line if stderr is a terminal; a
    function is called with (stage, tokens done, tokens in all).

    The model may be quantised or have adapters: W_O is the output of its output projections for unit vectors. Raises
    KvloupeError with one line; after an error or Ctrl-C the unfinished file is gone. Warns if the trace lacks a part.
    """
    import torch
    from transformers import DynamicCache

    if block < 1 or generate < 0:
        raise KvloupeError(f"block {block}, generate {generate}: give a block of at least 1 and at least 0 tokens")
    ids, segments = encoded(tokenizer, prompt)
    if not ids:
        raise KvloupeError("the prompt has no tokens; give some text")
    shape = describe(model)
    count = shape.layers
    if layers is not None:
        if not 1 <= layers <= count:
            raise KvloupeError(f"layers {layers}: the model has {count}; give a number from 1 to {count}")
        shape.layers = layers
    if max(ids) >= shape.vocabulary or min(ids) < 0:
        wrong = max(ids) if max(ids) >= shape.vocabulary else min(ids)
        raise KvloupeError(f"token {wrong} is outside the model's vocabulary of {shape.vocabulary}")
    context = ids[:segments.index("question") if "question" in segments else len(ids)]
    if probe is not None:
        make_probe(probe, context, tokenizer)  # refused before the model runs
    longest = getattr(text_config(model), "max_position_embeddings", 0) or 0
    if longest and len(ids) + generate > longest:
        raise KvloupeError(f"{len(ids) + generate} tokens, but the model has positions for {longest}; shorten the run")
    start, prompt_length, ends = time.monotonic(), len(ids), _end_tokens(model)
    device = first_device(model)
    head = model.get_output_embeddings()
    named = cache_argument(model)
    check_name(layers_of(model), type(model).__name__)
    own = own_logits(model, ids[:block], device)
    report, clear = reporter(progress)
    # How many tokens there will be is known only at the end: the file is made for the most and cut.
    with TraceWriter(path, shape, prompt_length + generate, store) as writer:
        sink, predictions = Sink(writer, shape), _Predictions(ids)
        blocks: list[tuple[int, int]] = []
        inputs: list[Any] = []
        hook = head.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        norm = FinalNormWatch(model, layers_of(model)[0], head)
        watch = ProjectionWatch(layers_of(model)[:shape.layers], sink.heads)
        rotation: RotationCheck | None = RotationCheck(model)
        cache = DynamicCache(config=model.config)

        def run(first: int, end: int) -> None:
            nonlocal rotation
            sink.first, sink.seen = first, set()
            inputs.clear()
            out = model(torch.tensor([ids[first:end]], device=device), use_cache=True, **{named: cache})
            if len(sink.seen) != count:
                raise KvloupeError(f"{len(sink.seen)} of {count} layers of {type(model).__name__} call their "
                                   "attention function through transformers' registry; this model cannot be captured")
            if not blocks:
                watch.close()
                sink.heads.clear()
                layer_rotations(model, shape, sink.layers)
            if rotation is not None and end > 1:
                rotation.close()
                rotation.apply(shape, sink.layers, sink.last_key, end - 1)
                rotation = None
            predictions.add(first, out.logits[0], inputs[0][0])
            if not blocks:
                check_logits(own, out.logits[0], type(model).__name__, sink.output_kind[0][0])
            norm.add(inputs[0][0], out.logits[0])
            blocks.append((first, end))

        try:
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
            hook.remove()
            norm.close()
            writer.cut(len(ids))
            if probe is not None:
                run_probe(model, tokenizer, shape, writer, probe, context, block, report)
            scale = _scale(sink)
            shape.sliding_window = _window(sink)
            without: dict[str, list[int]] = {}
            for layer, module in enumerate(layers_of(model)[:shape.layers]):
                report("writing", layer, shape.layers)
                writer.add_layer(layer, sink.layers[layer], scale)
                weight = ("something between its heads and its output projection, such as a gate or a norm, changes them"
                          if layer in watch.between else _output_weight(module, shape, sink, layer))
                if isinstance(weight, str):
                    without.setdefault(weight, []).append(layer)
                    continue
                rows = weight.rows.reshape(shape.heads, shape.head_dim, -1)
                writer.add_output_weight(layer, rows, _product, half=writer.half or weight.bits <= 16)
            for why, where in without.items():
                more = f" and {len(where) - 1} more" if len(where) > 1 else ""
                writer.note(f"layer {where[0]}{more}: {why}; the trace has no W_O there")
            head_bytes = 2 * shape.vocabulary * shape.hidden
            whole = lm_head or (head_bytes <= _LARGEST_HEAD and head_bytes < writer.bytes_of_states())
            if whole:
                rows = _head_weight(head, inputs[0])
                if isinstance(rows, str):
                    writer.note(f"the output head {rows}; the trace has none")
                else:
                    writer.add_lm_head(rows)
            final = norm.found()
            if final is not None:
                writer.add_final_norm(final.weight, final.bias, final.centred, final.rms)
                used = np.unique(np.array(ids, np.int64))
                if not whole and 2 * len(used) * shape.hidden <= _LARGEST_HEAD:
                    rows = _head_rows(head, inputs[0], used)
                    if isinstance(rows, str):
                        writer.note(f"the output head {rows}; the trace has none of its rows")
                    else:
                        writer.add_lm_head_rows(used, rows)
            elif lm_head:
                writer.note(f"the effect of a change on the logits is not known of this model: {norm.why}")
            pieces = pieces_of(tokenizer, shape.vocabulary) if tokenizer is not None else None
            if pieces is not None:
                writer.add_vocabulary(pieces)
            writer.add_predictions(**predictions.arrays())
            names = list(dict.fromkeys([*SEGMENTS, *segments]))
            writer.finish(
                np.array(ids), None if pieces is None else [pieces[token] for token in ids],
                [names.index(segment) for segment in segments], blocks,
                {"block_size": block, "prompt_length": prompt_length, "generated": len(ids) - prompt_length,
                 "attention_scale": scale, "dtype": _DTYPES.get(str(sink.output_kind[0][0]), str(sink.output_kind[0][0])),
                 "device": str(device), "threads": torch.get_num_threads(), "seed": 0,
                 "seconds": time.monotonic() - start}, names)
        finally:
            hook.remove()
            norm.close()
            watch.close()
            if rotation is not None:
                rotation.close()
            clear()
    for note in writer.notes:
        warnings.warn(note, KvloupeWarning, stacklevel=2)
    return Path(path)


def _product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    import torch

    return torch.mm(torch.from_numpy(a), torch.from_numpy(b)).numpy()


def _scale(sink: Sink) -> float:
    """The attention scale of most layers: the run's."""
    scales = [layer.scale for layer in sink.layers.values()]
    return max(dict.fromkeys(scales), key=scales.count)


def _window(sink: Sink) -> int:
    """The window of all layers; where they differ, 0, and each layer says its own."""
    windows = {layer.window for layer in sink.layers.values()}
    return windows.pop() if len(windows) == 1 else 0
