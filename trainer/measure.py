"""The measurements of a demo model, all on newly generated text."""
from __future__ import annotations

import json
import math
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional

from .corpus import Corpus, Vocabulary, question
from .model import Layer, Model
from .recipe import ModelShape

SINK_THRESHOLD = 0.3
_READS = 0.2  # attention that makes a head a reading head


def load_model(folder: str | Path) -> Model:
    """A model folder of the trainer, in float32."""
    config = json.loads((Path(folder) / "config.json").read_text())
    shape = ModelShape(config["num_hidden_layers"], config["hidden_size"], config["num_attention_heads"],
                       config["num_key_value_heads"], config["head_dim"], config["intermediate_size"], config["rope_theta"])
    weights = load_file(Path(folder) / "model.safetensors")
    return Model(shape, {name: weight.float() for name, weight in weights.items()})


def _tensor(model: Model, ids: list[int]) -> Tensor:
    return torch.tensor([ids], device=model.weights["model.norm.weight"].device)


@dataclass
class Sinks:
    """Attention that later queries give to token 0 of one text, and the norm of its value."""

    strength: Tensor  # [L,Hq] mean of A[q,0] over the queries q > 0
    value_ratio: Tensor  # [L,Hk] norm of token 0's value over the median norm of the text's values

    @property
    def head_share(self) -> float:
        """Share of the query heads with a strength above 0.3."""
        return (self.strength > SINK_THRESHOLD).double().mean().item()

    @property
    def strongest(self) -> float:
        return self.strength.max().item()

    @property
    def ratio(self) -> float:
        """Median of value_ratio over the query heads with a sink; NaN without one."""
        group = self.strength.size(1) // self.value_ratio.size(1)
        ratios = self.value_ratio.repeat_interleave(group, 1)[self.strength > SINK_THRESHOLD].tolist()
        return statistics.median_high(ratios) if ratios else math.nan

    def picture(self) -> str:
        """The layer x head picture in text: a row for each layer, a digit of tenths for each query head."""
        rows = [f"layer  query heads 0 to {self.strength.size(1) - 1}: tenths of the attention given to token 0"]
        for layer, row in enumerate(self.strength.tolist()):
            rows.append(f"  {layer}    " + "".join(f" {min(9, int(one * 10))}" for one in row))
        return "\n".join(rows) + "\n"


@torch.no_grad()
def measure_sinks(model: Model, ids: list[int]) -> Sinks:
    strength, ratio = [], []

    def on_layer(layer: Layer) -> None:
        strength.append(layer.attention[0, :, 1:, 0].mean(1).double().cpu())
        norms = layer.values[0].float().norm(dim=-1)  # [Hk,T]
        ratio.append((norms[:, 0] / norms.median(1).values).double().cpu())
    model(_tensor(model, ids), on_layer)
    return Sinks(torch.stack(strength), torch.stack(ratio))


@torch.no_grad()
def needle_accuracy(model: Model, corpus: Corpus, length: int, needles: int, prompts: int, first: int = 1000) -> float:
    """Share of prompts (from index `first`) for which the most probable next token is the right number, with the full
    cache. With several needles the question asks for each in turn, and each question counts."""
    right = []
    for i in range(prompts):
        prompt = corpus.needle_prompt(first + i, length, needles)
        for word, answer in zip(prompt.words, prompt.answers):
            ids = prompt.ids[:prompt.question_begin] + question(corpus.vocabulary, word)
            right.append(model(_tensor(model, ids))[0, -1].argmax().item() == answer)
    return sum(right) / len(right)


@torch.no_grad()
def sink_removal(model: Model, ids: list[int]) -> tuple[float, float]:
    """Mean loss of predicting tokens 2 onwards of a text, in nats (token 1 has only token 0 before it): unchanged, and
    with token 0 masked from every later query in every layer."""
    tokens = _tensor(model, ids)
    return tuple(functional.cross_entropy(model(tokens, first_unseen=without)[0, 1:-1].float(), tokens[0, 2:]).item()
                 for without in (False, True))


@torch.no_grad()
def _readers(model: Model, ids: list[int], position: int) -> list[tuple[int, int]]:
    """(layer, query head) of every head that reads the needle at the end of the question."""
    found: list[tuple[int, int]] = []

    def on_layer(layer: Layer) -> None:
        found.extend((layer.number, head) for head, row in enumerate(layer.attention[0, :, -1])
                     if row[position] >= _READS)
    model(_tensor(model, ids), on_layer)
    return found


def _capture(folder: str | Path, ids: list[int], work: Path) -> Path:
    """Captures a text given as token ids, BOS first. Returns the trace's path."""
    from kvloupe import program
    # The tokenizer puts BOS first again.
    (work / "prompt.txt").write_text("\n".join(map(str, ids[1:])))
    trace = work / "prompt.h5"
    program.run("run", "--model", folder, "--ids", work / "prompt.txt", "--attention", "none", "--progress", "none",
                "-o", trace, name="kvloupe-capture")
    return trace


def retention(folder: str | Path, model: Model, corpus: Corpus, policies: list[str], budget: str, length: int,
              prompts: int, work: Path) -> tuple[dict[str, float], int]:
    """Whether policies keep the entries that a question needs: open-loop replay of single-needle prompts, captured in
    blocks of 128. A query head is a reading head if the question's last token gives the number at least 0.2 of its
    attention with the full cache. The share counts how often its key-value head still holds that entry at the end.
    Returns the share by policy, NaN without a reader, and the number of readers over all prompts."""
    import kvloupe
    group = model.shape.heads // model.shape.kv_heads
    kept, readers = dict.fromkeys(policies, 0), 0
    for i in range(prompts):
        prompt = corpus.needle_prompt(5000 + i, length, 1)
        position = prompt.answer_positions[0]
        reading = _readers(model, prompt.ids, position)
        readers += len(reading)
        trace = _capture(folder, prompt.ids, work)
        for policy in policies:
            heads = kvloupe.replay(trace, policy, budget, steps="last", measures="none")["heads"]
            left = {(head["layer"], head["head"]): head["steps"][-1]["retained"] for head in heads}
            kept[policy] += sum(position in left[layer, head // group] for layer, head in reading)
    return {policy: count / readers if readers else math.nan for policy, count in kept.items()}, readers


def report(folder: str | Path, say: Callable[[str], None]) -> None:
    """Measures a model folder on newly generated text and hands over the report line by line: sinks, their values and
    picture, needle accuracy, the loss without token 0, whether policies keep the entries that the reading heads need,
    and the seconds that a capture takes."""
    model = load_model(folder)
    corpus = Corpus(Vocabulary(), 20260101)  # unlike any recipe's
    for i in range(4):
        ids = corpus.needle_prompt(i, 1000, 1).ids
        sinks, (loss, without) = measure_sinks(model, ids), sink_removal(model, ids)
        say(f"sinks, prompt {i} ({len(ids)} tokens): {100 * sinks.head_share:.0f} % of the query heads give token 0 more "
            f"than 0.3, the strongest {sinks.strongest:.2f}")
        say(f"  value norm of token 0 over the median, in heads with a sink: {sinks.ratio:.2f}")
        say(f"  loss of later tokens: {loss:.3f} nats, {without:.3f} without token 0 ({without - loss:+.3f})")
        if i == 0:
            say(sinks.picture())
    for needles in (1, 4):
        for length in (256, 512, 1024):
            share = needle_accuracy(model, corpus, length, needles, 100 // needles)
            say(f"{'needle' if needles == 1 else 'four needles'}, {length} tokens: {100 * share:.0f} % right")
    with tempfile.TemporaryDirectory() as work:
        shares, readers = retention(folder, model, corpus, ["full", "sink", "tova", "h2o", "snapkv", "keydiff", "keynorm",
                                                            "random"], "25%", 1000, 10, Path(work))
        say(f"the needle's number, kept at a budget of 25 % in the {readers} query heads that attend to it in 10 prompts "
            "of 1000 tokens (replay, blocks of 128):")
        for policy, share in shares.items():
            say(f"  {policy:<8} {100 * share:.0f} %")
        ids, begin = corpus.needle_prompt(0, 1000, 1).ids, time.monotonic()
        _capture(folder, ids, Path(work))
        say(f"captured {len(ids)} tokens in {time.monotonic() - begin:.2f} s")
