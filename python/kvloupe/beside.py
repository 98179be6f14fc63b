"""Answers of a model with policies beside that with the full cache, and the budget that keeps them."""
import dataclasses
import math
import tempfile
from pathlib import Path
from typing import Any, Sequence

import torch
from transformers import DynamicCache

from .cache import Cache
from .describe import text_config, with_uncompiled
from .engine import ask
from .errors import KvloupeError
from .evaluation import Reader
from .full_run import capture
from .functions import AnyPolicy, name_of, spec_of
from .program import listed
from .progress import reporter
from .prompt import block_tokens, checked_prompt, find_prompts, text_after
from .replays import replay
from .tables import table


class _Prompt:
    """One prompt, and what the model answers with the full cache or with a policy."""

    def __init__(self, model: Any, tokenizer: Any, prompt: Any, count: int, block: int | str, compression: str) -> None:
        self.model, self.tokenizer, self.given, self.count, self.compression = model, tokenizer, prompt, count, compression
        if tokenizer is None:
            raise KvloupeError("answers are compared as texts; give the model's tokenizer")
        self.ids, _, question = checked_prompt(text_config(model), tokenizer, prompt, count)
        self.block, self.context = min(block_tokens(block), len(self.ids)), question if compression == "context-only" else len(self.ids)
        self.full = self._said(DynamicCache(config=model.config))

    def _said(self, cache: Any) -> list[int]:
        with torch.inference_mode():
            return Reader(self.model, cache, self.block).answer(self.ids, self.context, self.count)

    def said(self, policy: AnyPolicy, budget: Any) -> list[int]:
        with Cache(policy, budget, model=self.model, block=self.block, compression=self.compression, context=self.context,
                   store="f32", prompt_length=len(self.ids)) as cache:
            return self._said(cache)

    def text(self, said: list[int]) -> str:
        return text_after(self.tokenizer, self.ids, said)


def _parting(one: list[int], other: list[int]) -> int:
    """The first place where two answers differ, -1: none."""
    return next((at for at in range(max(len(one), len(other))) if one[at:at + 1] != other[at:at + 1]), -1)


def _head_to_blame(prompt: _Prompt, cases: list[tuple[AnyPolicy, Any, int]], block: int | str) -> list[tuple[int, int, float, str]]:
    """For each policy, budget and place where its answer parts: layer, head, the number that ranks it first, and its name."""
    found: list[tuple[int, int, float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        for policy, budget, at in cases:
            if at < 0:
                found.append((-1, -1, math.nan, ""))
                continue
            path = Path(folder) / f"{at}.h5"
            if not path.exists():
                capture(prompt.model, prompt.tokenizer, prompt.given, path, block=block, generate=at + 1, lm_head=True, progress=False)
            made = replay(path, policy, budget, compression=prompt.compression, measures="none")
            for name, sign in (("answer_logit_part", -1.0), ("answer_residual_part", 1.0)):
                values = sign * made.measure(name)
                if not all(map(math.isnan, values)):
                    break
            head = max(range(len(values)), key=lambda one: -math.inf if math.isnan(values[one]) else values[one])
            found.append((*map(int, made.layer_head[head]), sign * float(values[head]), name))
    return found


@with_uncompiled
def compare(model: Any, tokenizer: Any, prompt: Any, policies: AnyPolicy | Sequence[AnyPolicy], budgets: Any = "25%", *,
            generate: int = 48, block: int | str = 128, compression: str = "regular", progress: Any = True) -> Any:
    """What the model answers with the full cache and with each policy at each budget: a row for each, the full cache's first, as a
    pandas DataFrame or, without pandas, a dictionary of columns.

    answer: at most `generate` greedy tokens as text; tokens: how many; parts_at: the first token of the answer that is another than
    the full cache's, from 0, -1: none; full_says, says: these two tokens. layer, head, part, measure: the head whose evictions, in a
    replay on the full cache's states, lower most the logit of the full cache's token there (answer_logit_part, a first-order mean over
    the answer so far; where it is not known the head with the largest answer_residual_part); no proof: kvloupe-capture rescue
    gives one. Raises KvloupeError as kvloupe.Cache."""
    report, clear = reporter(progress)
    cases = [(policy, budget) for policy in listed(policies) for budget in listed(budgets)]
    report("full", 0, len(cases) + 1)
    whole = _Prompt(model, tokenizer, prompt, generate, block, compression)
    answers = []
    for at, (policy, budget) in enumerate(cases, 1):
        report(name_of(policy), at, len(cases) + 1)
        answers.append(whole.said(policy, budget))
    parts = [_parting(whole.full, said) for said in answers]
    blamed = _head_to_blame(whole, [(policy, budget, at) for (policy, budget), at in zip(cases, parts)], block)
    clear()
    rows: list[tuple[Any, ...]] = [("full", "full", whole.text(whole.full), len(whole.full), -1, "", "", -1, -1, math.nan, "")]
    for (policy, budget), said, at, blame in zip(cases, answers, parts, blamed):
        says = [whole.text(one[at:at + 1]) or "(the end)" if at >= 0 else "" for one in (whole.full, said)]
        rows.append((name_of(policy), budget, whole.text(said), len(said), at, *says, *blame))
    names = ("policy", "budget", "answer", "tokens", "parts_at", "full_says", "says", "layer", "head", "part", "measure")
    return table(dict(zip(names, map(list, zip(*rows)))), prompt_tokens=len(whole.ids), block=whole.block, compression=compression)


@dataclasses.dataclass(frozen=True)
class Budget:
    """The smallest budget of budget_for()."""

    budget: str  # "34%" of the prompt
    share: float  # 0.34
    lost_at: float  # the largest smaller share that was tried, at which too many answers were lost; 0.0: none was
    kept: int  # answers at this budget
    prompts: int  # whose answers could be kept
    interval: tuple[float, float]  # 95 % for the share of answers that this budget keeps (Wilson), as if these prompts were a sample
    runs: Any  # a table: share, kept, prompts of each budget that was tried

    def __repr__(self) -> str:
        low, high = self.interval
        return (f"<kvloupe.Budget {self.budget}: keeps {self.kept} of {self.prompts} answers (95 %: {low:.2f} to {high:.2f}); "
                f"{f'{self.lost_at:.0%} keeps too few' if self.lost_at else 'no smaller one was tried'}>")


def _wilson(kept: int, count: int) -> tuple[float, float]:
    z = 1.959963984540054
    middle, wide = kept / count + z * z / (2 * count), z * math.sqrt(kept * (count - kept) / count + z * z / 4) / count
    return tuple(max(0.0, min(1.0, (middle + sign * wide) / (1 + z * z / count))) for sign in (-1, 1))  # type: ignore[return-value]


@with_uncompiled
def budget_for(model: Any, tokenizer: Any, prompts: Any, policy: AnyPolicy = "snapkv", *, keep: float | str = "answers",
               generate: int = 32, block: int | str = 128, compression: str = "regular", progress: Any = True) -> Budget:
    """The smallest budget, in whole percent of each prompt, with which `policy` keeps the answers to `prompts` (as evaluate() takes
    them): bisection, about eight runs of each prompt.

    An answer is kept if one of the prompt's "answers" stands in it, as with the full cache (a prompt whose answer does not with the
    full cache is left out); of a prompt without "answers", if its text is that of the full cache. keep: "answers", all of them, or
    their share, such as 0.9. More budget does not always keep more answers: `runs` of the Budget says what was tried. Raises
    KvloupeError where there is nothing to keep."""
    share = 1.0 if keep == "answers" else keep
    if not isinstance(share, (int, float)) or not 0.0 < share <= 1.0:
        raise KvloupeError(f'keep: {keep!r} is neither "answers" nor a share above 0 and at most 1, such as 0.9')
    (report, clear), cases = reporter(progress), []
    places = find_prompts(prompts)
    if not places:
        raise KvloupeError("prompts: the list is empty; give at least one")
    for at, place in enumerate(places):
        report("full", at, len(places))
        parts, answers = place.read()
        one = _Prompt(model, tokenizer, parts, generate, block, compression)
        if not answers or ask("has_answer", [one.text(one.full), answers]):
            cases.append((one, answers))
    if not cases:
        raise KvloupeError(f"prompts: with the full cache none of the {len(places)} has its answer; there is nothing to keep")
    tried: dict[int, int] = {}

    def enough(percent: int) -> bool:
        report(f"{percent}%", len(tried), 8)
        said = [(one, answers, one.said(policy, f"{percent}%")) for one, answers in cases]
        tried[percent] = sum(ask("has_answer", [one.text(own), answers]) if answers else one.text(own) == one.text(one.full)
                             for one, answers, own in said)
        return tried[percent] >= share * len(cases)
    low, high = 0, 100
    if not enough(100):
        raise KvloupeError(f"{spec_of(policy)}: keeps {tried[100]} of {len(cases)} answers with a budget of 100% of the prompt, because the "
                           "answer's own tokens take entries, too; ask for a smaller share of answers (keep=), or take another policy")
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    clear()
    shares = sorted(tried)
    runs = table({"share": [percent / 100 for percent in shares], "kept": [tried[percent] for percent in shares],
                  "prompts": [len(cases)] * len(shares)}, policy=spec_of(policy), left_out=len(places) - len(cases))
    return Budget(f"{high}%", high / 100, low / 100, tried[high], len(cases), _wilson(tried[high], len(cases)), runs)
