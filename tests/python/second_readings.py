"""Presses of kvpress that look at the whole model before they decide: by a second reading of the context, or by each
head's mean query and key. They ask the network for a tokenizer and for texts; here they get the test's own."""
from __future__ import annotations

import contextlib
import dataclasses
import types
from pathlib import Path
from typing import Any, Iterator
from unittest import mock

import numpy as np
import torch
from transformers import DynamicCache

import kvloupe
import kvloupe.full_run
from kvloupe.external import kept_by_press
from presses import Case, Decision, Pair


@dataclasses.dataclass
class ReadingPair(Pair):
    probe: str = ""  # which second reading the policy's trace has
    part: int = 2048  # tokens of the context that one pass repeats


class _PressTokenizer:
    """What KVzipPress asks of a tokenizer of transformers; without a chat template."""

    chat_template = None

    def __init__(self, words: Any) -> None:
        self.words = words

    def encode(self, text: str, return_tensors: str, add_special_tokens: bool) -> torch.Tensor:
        assert return_tensors == "pt" and not add_special_tokens
        return torch.tensor([kvloupe.full_run._ids_within(self.words, text) if text else []], dtype=torch.long)


def dropping(kept: int, tokens: int) -> float:
    """A compression ratio of which int(k tokens ratio) is k (tokens - kept), for every k up to some thousands."""
    return (tokens - kept) / tokens + 1e-9


def keeping(kept: int, tokens: int) -> float:
    """A compression ratio of which int(k tokens (1 - ratio)) is k kept, for every k up to some thousands."""
    return (tokens - kept) / tokens - 1e-9


def reading_pairs() -> list[ReadingPair]:
    import kvpress as k

    class SmallDuo(k.DuoAttentionPress):
        """With fewer first and last tokens, so that short contexts have something to drop."""

        def post_init_from_model(self, model: Any) -> None:
            super().post_init_from_model(model)
            self.sink_size, self.recent_size = 4, 64

    zip_press = lambda n, s, **more: k.KVzipPress(dropping(n, s), **more)
    return [
        ReadingPair("KVzipPress", zip_press, lambda n, s: "kvzip+global", least=5, probe="repeat", across="model"),
        ReadingPair("KVzipPress, parts of 100", lambda n, s: zip_press(n, s, chunk_size=100), lambda n, s: "kvzip+global",
                    least=5, probe="repeat", part=100, across="model"),
        ReadingPair("KVzipPress, layerwise", lambda n, s: zip_press(n, s, layerwise=True), lambda n, s: "kvzip+adakv(0)",
                    least=5, probe="repeat", across="layer"),
        ReadingPair("KVzipPress, KVzip+", lambda n, s: zip_press(n, s, kvzip_plus_normalization=True),
                    lambda n, s: "kvzip(plus=1)+global", least=5, probe="repeat", across="model"),
        ReadingPair("KVComposePress", lambda n, s: k.KVComposePress(compression_ratio=keeping(n, s)),
                    lambda n, s: "kvcompose+global(by=layer)", probe="reread", across="ranks"),
        ReadingPair("KVComposePress, unstructured",
                    lambda n, s: k.KVComposePress(structured=False, compression_ratio=keeping(n, s)),
                    lambda n, s: "kvcompose+global", probe="reread", across="model"),
        ReadingPair("KVComposePress, without the mean",
                    lambda n, s: k.KVComposePress(compression_ratio=keeping(n, s), add_mean_across_heads=False),
                    lambda n, s: "kvcompose(mean=0)+global(by=layer)", probe="reread", across="ranks"),
        ReadingPair("DuoAttentionPress, on the fly",
                    lambda n, s: SmallDuo(head_compression_ratio=1.0 - n / s, on_the_fly_scoring=True),
                    lambda n, s: f"duo(streaming={1.0 - n / s!r},sinks=4,recent=64)"),
    ]


def read_again(pair: ReadingPair, case: Case, folder: Path) -> Case:
    """The case with a trace that has the second reading; written once."""
    if not pair.probe:
        return case
    trace = folder / f"{case.trace.stem}-{pair.probe}-{pair.part}.h5"
    if not trace.exists():
        with mock.patch.object(kvloupe.full_run, "_PART", pair.part):
            kvloupe.capture(case.model, case.words, case.ids, trace, block=len(case.ids), store="f32",
                            probe=pair.probe, progress=False)
    return dataclasses.replace(case, trace=trace)


@contextlib.contextmanager
def _without_network(case: Case) -> Iterator[None]:
    """The tokenizer that KVzipPress loads is the case's own; the texts of DuoAttentionPress are its context."""
    from kvpress.presses import duo_attention_press as duo
    from kvpress.presses import kvzip_press

    class Texts:
        def to_pandas(self) -> "Texts":
            return self

        def sample(self, count: int, random_state: int) -> dict[str, np.ndarray]:
            return {"chapter": np.array(["the context"] * count)}

    class Ids(dict):
        def to(self, device: Any) -> "Ids":
            return self

    tokenize = lambda text, return_tensors: Ids(input_ids=torch.tensor([case.ids]))
    on_the_fly = duo.duo_attention_on_the_fly.__wrapped__  # without its cache, which goes by the model's name
    with mock.patch.object(kvzip_press, "AutoTokenizer",
                           types.SimpleNamespace(from_pretrained=lambda name: _PressTokenizer(case.words))), \
            mock.patch.object(duo, "AutoTokenizer", types.SimpleNamespace(from_pretrained=lambda name: tokenize)), \
            mock.patch.object(duo, "load_dataset", lambda *names, **named: Texts()), \
            mock.patch.object(duo, "duo_attention_on_the_fly", lambda model: on_the_fly(model, num_samples=1)):
        yield


def press_sets(pair: ReadingPair, case: Case, kept: int) -> Decision:
    press = pair.press(kept, len(case.ids))
    scores: list[np.ndarray] = []
    masks: list[list[np.ndarray]] = []
    # Both presses forget their scores when they are done.
    if hasattr(press, "compress_post"):
        post = press.compress_post

        def compress_post(model: Any) -> None:
            post(model)
            scores.extend(press.score_val[:, 0].double().numpy().copy())
        press.compress_post = compress_post
    if hasattr(press, "compress_cache"):
        compress = press.compress_cache

        def compress_cache(model: Any) -> None:
            scores.extend(press.scores.double().numpy().copy())
            masks.extend([np.flatnonzero(head.numpy()) for head in layer] for layer in press.important_mask_per_kv_head)
            compress(model)
        press.compress_cache = compress_cache
    with _without_network(case):
        if getattr(press, "structured", True):
            return Decision(kept_by_press(press, case.model, case.ids), scores)
        # The unstructured KVComposePress leaves the second reading in the cache, so the sets are its own masks.
        try:
            with torch.no_grad(), press(case.model):
                case.model.model(input_ids=torch.tensor([case.ids]), past_key_values=DynamicCache())
        finally:
            for layer in case.model.model.layers:
                layer.self_attn.masked_key_indices = None
        return Decision(masks, scores)
