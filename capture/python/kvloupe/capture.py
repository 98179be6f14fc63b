"""Captures a trace of a transformers model: block prefill with the model's own cache, then greedy tokens.

Queries, keys and values are taken where every modern model calls its attention function: after the rotation, the
normalisation of heads and the update of the cache.
"""
from __future__ import annotations

import contextlib
import hashlib
import os
import re
import time
from pathlib import Path
from typing import Any, Iterator

import numpy as np

from .errors import KvloupeError
from .writer import SEGMENTS, Model, TraceWriter, shown

_TOP = 5
_LARGEST_HEAD = 64 << 20  # bytes of an output head that is stored unasked
_INTERLEAVED = {"cohere", "cohere2", "glm", "glm4", "ernie4_5"}  # turn coordinates 2j and 2j + 1 together
_sink: "_Sink | None" = None


class _Sink:
    """Writes what the attention function of each layer receives."""

    def __init__(self, writer: TraceWriter, scale: float, window: int) -> None:
        self.writer = writer
        self.scale = scale
        self.window = window
        self.first = 0  # token of the block that runs now
        self.seen: set[int] = set()

    def take(self, layer: int, query: Any, key: Any, value: Any) -> None:
        fresh = query.shape[-2]
        q = query[0].float().cpu().numpy()
        k = key[0].float().cpu().numpy()
        self.seen.add(layer)
        self.writer.add(layer, self.first, "query", q)
        self.writer.add(layer, self.first, "key", k[:, -fresh:])
        self.writer.add(layer, self.first, "value", value[0, :, -fresh:].float().cpu().numpy())
        self.writer.add(layer, self.first, "attention_logsumexp", self._logsumexp(q, k))

    def _logsumexp(self, q: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Of each query's scaled logits over the keys that it sees, from the states as stored: [Hq, t]."""
        q, k = self.writer.stored(q), self.writer.stored(k)
        end = self.first + q.shape[1]
        distance = np.arange(self.first, end)[:, None] - np.arange(end - k.shape[1], end)
        hidden = distance < 0
        if self.window > 0:
            hidden |= distance >= self.window
        result = np.empty(q.shape[:2], np.float32)
        group = q.shape[0] // k.shape[0]
        for head in range(q.shape[0]):
            logits = (q[head] @ k[head // group].T).astype(np.float64) * self.scale
            logits[hidden] = -np.inf
            most = logits.max(-1, keepdims=True)
            result[head] = (np.log(np.exp(logits - most).sum(-1)) + most[:, 0]).astype(np.float32)
        return result


def _attention(module: Any, query: Any, key: Any, value: Any, attention_mask: Any, scaling: float | None = None,
               dropout: float = 0.0, **rest: Any) -> Any:
    from transformers.integrations.sdpa_attention import sdpa_attention_forward

    if _sink is not None:
        for name, why in (("softcap", "caps its logits"), ("s_aux", "has sink logits")):
            if rest.get(name) is not None:
                raise KvloupeError(f"layer {module.layer_idx}: the model {why}, which a trace cannot say yet")
        scale = query.shape[-1] ** -0.5 if scaling is None else scaling
        if abs(scale - _sink.scale) > 1e-6 * _sink.scale:
            raise KvloupeError(f"layer {module.layer_idx}: attention scale {scale}, but {_sink.scale} in another layer")
        _sink.take(module.layer_idx, query, key, value)
    return sdpa_attention_forward(module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **rest)


@contextlib.contextmanager
def _captured(model: Any, sink: _Sink) -> Iterator[None]:
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import sdpa_mask

    global _sink
    AttentionInterface.register("kvloupe", _attention)
    AttentionMaskInterface.register("kvloupe", sdpa_mask)  # else the causal mask is lost
    before = model.config._attn_implementation
    model.set_attn_implementation("kvloupe")
    _sink = sink
    try:
        yield
    finally:
        _sink = None
        model.set_attn_implementation(before)


def _text_config(model: Any) -> Any:
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def _model(model: Any) -> Model:
    config = _text_config(model)
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    theta = rope.get("rope_theta", getattr(config, "rope_theta", 0.0)) or 0.0
    scaling = {name: value for name, value in rope.items() if name != "rope_theta"}
    kind = scaling.get("rope_type", scaling.get("type", "default"))
    window = getattr(config, "sliding_window", None) or 0
    types = set(getattr(config, "layer_types", None) or [])
    if getattr(config, "use_sliding_window", True) is False or types == {"full_attention"}:
        window = 0
    elif window and len(types) > 1:
        raise KvloupeError("the model has layers with and without a sliding window, which a trace cannot say yet")
    partial = rope.get("partial_rotary_factor", getattr(config, "partial_rotary_factor", None)) or 1.0
    scaling.pop("partial_rotary_factor", None)
    if partial < 1.0:  # kvloupe cannot undo it, and says so
        kind, scaling = "partial", {"partial_rotary_factor": partial}
    folder = Path(str(getattr(config, "_name_or_path", "") or model.config._name_or_path or "model"))
    file = folder / "config.json"
    return Model(
        layers=config.num_hidden_layers, heads=config.num_attention_heads,
        kv_heads=getattr(config, "num_key_value_heads", None) or config.num_attention_heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        hidden=config.hidden_size, vocabulary=config.vocab_size, name=folder.name,
        architecture=type(model).__name__, rope_theta=float(theta),
        rope_scaling=None if kind == "default" else scaling | {"rope_type": kind},
        rope_pairing="interleaved" if config.model_type in _INTERLEAVED else "half", sliding_window=int(window),
        config=file.read_text(encoding="utf-8") if file.is_file() else config.to_json_string(use_diff=False),
        fingerprint=fingerprint(folder) if file.is_file() else "")


def fingerprint(folder: str | os.PathLike[str]) -> str:
    """Identifies the model in a folder by content, as docs/trace-format.md says; empty without weights."""
    import json

    folder = Path(folder)
    config = (folder / "config.json").read_bytes()
    names = ["model.safetensors"]
    if not (folder / names[0]).is_file():
        index = folder / "model.safetensors.index.json"
        if not index.is_file():
            return ""
        names = sorted(set(json.loads(index.read_text())["weight_map"].values()), key=lambda name: name.encode())
    number = lambda n: int(n).to_bytes(8, "little")
    digest = hashlib.sha256(b"kvloupe model fingerprint 1\n" + number(len(config)) + config)
    for name in names:
        path = folder / name
        size = path.stat().st_size
        digest.update(number(len(name.encode())) + name.encode() + number(size))
        with open(path, "rb") as file:
            if size <= 64 << 20:
                digest.update(file.read())
                continue
            head = file.read(8)
            digest.update(head + file.read(min(int.from_bytes(head, "little"), 100_000_000)))
            for at in range(0, size, 4 << 20):
                file.seek(at)
                digest.update(file.read(4096))
            file.seek(size - 4096)
            digest.update(file.read(4096))
    return "v1:" + digest.hexdigest()


def read_prompt(path: str | os.PathLike[str]) -> list[tuple[str, str]]:
    """The segments of a prompt file as (name, text): a line @@name starts a segment and is not text."""
    text = Path(path).read_text(encoding="utf-8-sig")
    if text.endswith("\n"):
        text = text[:-1]
    parts: list[tuple[str, str]] = [("context", "")]
    for line in text.splitlines(keepends=True):
        mark = re.fullmatch(r"@@([A-Za-z0-9_-]+)\r?\n?", line)
        if mark:
            parts.append((mark[1], ""))
        else:
            parts[-1] = (parts[-1][0], parts[-1][1] + line)
    return [part for part in parts if part[1]]


def _byte_table() -> dict[str, int]:
    """What byte-level tokenizers write for each byte (GPT-2)."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {chr(byte): byte for byte in plain}, 256
    for byte in range(256):
        if byte not in plain:
            table[chr(extra)] = byte
            extra += 1
    return table


def _pieces(tokenizer: Any, count: int) -> list[str]:
    """The text of every token id, as kvloupe shows it."""
    table = _byte_table()
    words = tokenizer.convert_ids_to_tokens(list(range(min(count, len(tokenizer)))))
    special = set(tokenizer.all_special_ids)
    byte_level = sum("\u0120" in word for word in words if word) > len(words) // 50
    pieces = []
    for at, word in enumerate(words):
        if word is None:
            pieces.append("")
        elif at in special:
            pieces.append(word)
        elif byte_level and all(c in table for c in word):
            pieces.append(shown(bytes(table[c] for c in word)))
        elif byte := re.fullmatch(r"<0x([0-9A-Fa-f]{2})>", word):
            pieces.append(shown(bytes([int(byte[1], 16)])))
        else:
            pieces.append(word.replace("\u2581", " "))
    return pieces + [""] * (count - len(pieces))


def _encode(tokenizer: Any, prompt: Any) -> tuple[list[int], list[str]]:
    """Ids and the segment of each. `prompt`: a text, segments (name, text), or ids."""
    if not isinstance(prompt, str) and len(prompt) and not isinstance(prompt[0], (tuple, list)):
        return [int(token) for token in prompt], ["context"] * len(prompt)
    parts = [("context", prompt)] if isinstance(prompt, str) else [(name, text) for name, text in prompt]
    text = "".join(part for _, part in parts)
    encoded = tokenizer(text, return_offsets_mapping=tokenizer.is_fast)
    ids = list(encoded["input_ids"])
    special = set(tokenizer.all_special_ids)
    if not tokenizer.is_fast:
        if len(parts) > 1:
            raise KvloupeError("segments need a fast tokenizer (tokenizer.json); give a text or ids")
        return ids, ["special" if token in special else "context" for token in ids]
    ends, names = [], []
    for name, part in parts:
        ends.append((ends[-1] if ends else 0) + len(part))
        names.append(name)
    segments = []
    for token, (first, last) in zip(ids, encoded["offset_mapping"]):
        if token in special and first == last:
            segments.append("special")
        else:
            segments.append(next(name for name, end in zip(names, ends) if first < end or end == ends[-1]))
    return ids, segments


def _layers(model: Any) -> list[Any]:
    base = model.get_decoder() if hasattr(model, "get_decoder") else model.model
    return list(base.layers)


def _output_weight(layer: Any, heads: int, width: int) -> np.ndarray | None:
    """[Hq, d, D]: output = Σ (A V) · slice; None where the projection has another form."""
    for name in ("o_proj", "dense", "out_proj"):
        projection = getattr(layer.self_attn, name, None)
        if projection is not None and projection.weight.shape[1] == heads * width:
            return projection.weight.detach().float().cpu().numpy().T.reshape(heads, width, -1)
    return None


def capture(model: Any, tokenizer: Any, prompt: Any, path: str | os.PathLike[str], *, block: int = 128,
            generate: int = 0, store: str = "f16", lm_head: bool = False) -> Path:
    """Runs `prompt` through `model` and writes the trace `path`.

    prompt: a text, a list of (segment, text), or token ids. The prompt runs in blocks of `block` tokens through the
    model's own cache, then up to `generate` tokens are generated greedily, one at a time. `store`: f16 or f32 for
    the states. Raises KvloupeError: one line; then no file is left.
    """
    import torch
    from transformers import DynamicCache

    ids, segments = _encode(tokenizer, prompt)
    if not ids:
        raise KvloupeError("the prompt has no tokens; give some text")
    shape = _model(model)
    if max(ids) >= shape.vocabulary or min(ids) < 0:
        raise KvloupeError(f"token {max(ids)} is outside the model's vocabulary of {shape.vocabulary}")
    longest = getattr(_text_config(model), "max_position_embeddings", 0) or 0
    if longest and len(ids) + generate > longest:
        raise KvloupeError(f"{len(ids) + generate} tokens, but the model has positions for {longest}; shorten the run")
    attention = getattr(_layers(model)[0].self_attn, "scaling", None)
    scale = float(attention) if attention is not None else shape.head_dim ** -0.5
    end_ids = getattr(model.generation_config, "eos_token_id", None)
    ends = set(end_ids if isinstance(end_ids, (list, tuple)) else [] if end_ids is None else [end_ids])
    start, prompt_length = time.monotonic(), len(ids)
    device = model.get_input_embeddings().weight.device
    # How many tokens there will be is known only at the end: the file is made for the most and cut.
    writer = TraceWriter(path, shape, prompt_length + generate, store)
    with writer:
        sink = _Sink(writer, scale, shape.sliding_window)
        blocks: list[tuple[int, int]] = []
        hidden: list[np.ndarray] = []
        top: list[tuple[np.ndarray, np.ndarray]] = []
        losses: list[float] = []
        head = model.get_output_embeddings()
        inputs: list[Any] = []
        hook = head.register_forward_pre_hook(lambda _, args: inputs.append(args[0]))
        cache = DynamicCache(config=model.config)
        last: Any = None  # log-probabilities after the last token so far

        def run(first: int, end: int) -> None:
            nonlocal last
            sink.first, sink.seen = first, set()
            inputs.clear()
            out = model(torch.tensor([ids[first:end]], device=device), past_key_values=cache, use_cache=True)
            if len(sink.seen) != shape.layers:
                raise KvloupeError(f"{len(sink.seen)} of {shape.layers} layers call their attention function through "
                                   "transformers' registry; this model cannot be captured")
            logprob = torch.log_softmax(out.logits[0].float(), -1)
            values, indices = logprob.topk(min(_TOP, logprob.shape[-1]))
            top.append((indices.cpu().numpy(), values.cpu().numpy()))
            hidden.append(inputs[0][0].float().cpu().numpy())
            before = [last] if last is not None else []
            targets = ids[first if before else first + 1:end]
            rows = torch.stack(before + list(logprob[:len(targets) - len(before)])) if targets else None
            if rows is not None:
                losses.extend((-rows[range(len(targets)), targets]).tolist())
            last = logprob[-1]
            blocks.append((first, end))

        try:
            with torch.inference_mode(), _captured(model, sink):
                for first in range(0, prompt_length, block):
                    run(first, min(first + block, prompt_length))
                for _ in range(generate):
                    token = int(last.argmax())
                    if token in ends:
                        break
                    ids.append(token)
                    segments.append("answer")
                    run(len(ids) - 1, len(ids))
        finally:
            hook.remove()
        writer.cut(len(ids))
        for layer, module in enumerate(_layers(model)):
            weight = _output_weight(module, shape.heads, shape.head_dim)
            if weight is not None:
                writer.add_output_weight(layer, weight)
        if head.weight.numel() * 2 <= _LARGEST_HEAD or lm_head:
            writer.add_lm_head(head.weight.detach().float().cpu().numpy())
        pieces = _pieces(tokenizer, shape.vocabulary) if tokenizer is not None else None
        if pieces is not None:
            writer.add_vocabulary(pieces)
        writer.add_predictions(token_ids=np.concatenate([one[0] for one in top]).astype(np.int32),
                               logprob=np.concatenate([one[1] for one in top]).astype(np.float32),
                               hidden=np.concatenate(hidden).astype(np.float32),
                               loss=np.array(losses + [np.nan], np.float32))
        names = list(dict.fromkeys([*SEGMENTS, *segments]))
        writer.finish(
            np.array(ids), None if pieces is None else [pieces[token] for token in ids],
            [names.index(segment) for segment in segments], blocks,
            {"block_size": block, "prompt_length": prompt_length, "generated": len(ids) - prompt_length,
             "attention_scale": scale, "dtype": {"torch.float32": "f32", "torch.bfloat16": "bf16",
                                                 "torch.float16": "f16"}.get(str(model.dtype), str(model.dtype)),
             "device": str(device), "threads": torch.get_num_threads(), "seed": 0,
             "seconds": time.monotonic() - start}, names)
    return Path(path)
