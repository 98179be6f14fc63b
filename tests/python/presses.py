"""Presses of kvpress and the policies of kvloupe that decide alike: models, prompts, and how alike their sets are."""
from __future__ import annotations

import dataclasses
import itertools
import tempfile
from pathlib import Path
from typing import Any, Callable, Iterator

import numpy as np
import torch
import transformers

import kvloupe
from kvloupe import program
from kvloupe.external import kept_by_press

transformers.utils.logging.disable_progress_bar()
ROOT = Path(__file__).resolve().parents[2]
BLOCK = 32  # of BlockPress


@dataclasses.dataclass
class Case:
    """A model and a context: its trace and the model as transformers runs it."""

    name: str
    model: Any
    ids: list[int]
    trace: Path
    words: Any = None  # the tokenizer


@dataclasses.dataclass
class Pair:
    """A press and the policy that decides as it does, for a budget of N of S tokens."""

    name: str
    press: Callable[[int, int], Any]  # N, S
    policy: Callable[[int, int], str]
    block: int = 0  # of the replay; 0: the whole context
    eager: bool = False
    least: int = 1  # smallest N that makes sense
    multiple: int = 1  # N is a multiple of this
    ties: bool = False  # many entries have the same score: ranks within partitions, or keys that are almost alike
    across: str = ""  # who shares places: the heads of a layer, of the model, or the layers by ranks (KVCompose)


def ratio(kept: int, tokens: int) -> float:
    """A compression ratio of which int(tokens (1 - ratio)) is `kept`."""
    found = 1.0 - kept / tokens
    while int(tokens * (1.0 - found)) < kept:
        found = np.nextafter(found, 0.0)
    assert int(tokens * (1.0 - found)) == kept
    return float(found)


SNAP = "snapkv(window={w},kernel=5,range=candidates,pool_before_group=1)"


def pairs() -> list[Pair]:
    import kvpress as k

    snap = lambda w: SNAP.format(w=w)
    w = 16  # window of the presses with windows, so that short contexts will do

    return [
        Pair("KeyDiffPress", lambda n, s: k.KeyDiffPress(ratio(n, s)), lambda n, s: "keydiff"),
        Pair("BlockPress(KeyDiffPress)", lambda n, s: k.BlockPress(k.KeyDiffPress(ratio(n, s)), block_size=BLOCK),
             lambda n, s: "keydiff", block=BLOCK, least=BLOCK, multiple=BLOCK),
        Pair("KnormPress", lambda n, s: k.KnormPress(ratio(n, s)), lambda n, s: "keynorm"),
        Pair("TOVAPress", lambda n, s: k.TOVAPress(ratio(n, s)), lambda n, s: "tova(aggregate=layer,protect_last=1)"),
        Pair("SnapKVPress", lambda n, s: k.SnapKVPress(ratio(n, s), window_size=w), lambda n, s: snap(w), least=w + 1),
        Pair("SnapKVPress, window 64", lambda n, s: k.SnapKVPress(ratio(n, s)), lambda n, s: snap(64), least=65),
        Pair("ObservedAttentionPress", lambda n, s: k.ObservedAttentionPress(ratio(n, s)),
             lambda n, s: "h2o(normalise=visible)", eager=True),
        Pair("StreamingLLMPress", lambda n, s: k.StreamingLLMPress(ratio(n, s)), lambda n, s: "sink(4)", least=5),
        Pair("PyramidKVPress", lambda n, s: k.PyramidKVPress(ratio(n, s), window_size=4, beta=8),
             lambda n, s: f"{snap(4)}+pyramid(8,window=4)", least=8),
        Pair("AdaKVPress(SnapKVPress)", lambda n, s: k.AdaKVPress(k.SnapKVPress(ratio(n, s), window_size=w)),
             lambda n, s: f"{snap(w)}+adakv(safeguard=0.2,mode=pin)", least=w + 1),
        Pair("CriticalKVPress(SnapKVPress)",
             lambda n, s: k.CriticalKVPress(k.SnapKVPress(ratio(n, s), window_size=w)), lambda n, s: f"{snap(w)}+critical(of=budget)", least=2 * w + 2),
        Pair("ExpectedAttentionPress", lambda n, s: k.ExpectedAttentionPress(ratio(n, s)), lambda n, s: "expected",
             least=5),
        Pair("ExpectedAttentionPress, mean only",
             lambda n, s: k.ExpectedAttentionPress(ratio(n, s), n_future_positions=64, use_covariance=False,
                                                   use_vnorm=False),
             lambda n, s: "expected(64,covariance=0,value_norm=0)", least=5),
        Pair("AdaKVPress(ExpectedAttentionPress)",
             lambda n, s: k.AdaKVPress(k.ExpectedAttentionPress(ratio(n, s), epsilon=1e-2)),
             lambda n, s: "expected(epsilon=0.01)+adakv(safeguard=0.2,mode=pin)", least=25),
        Pair("LagKVPress", lambda n, s: k.LagKVPress(ratio(n, s), lag_size=32), lambda n, s: "lagkv(lag=32)", least=5,
             ties=True),
        Pair("AdaKVPress(LagKVPress)",
             lambda n, s: k.AdaKVPress(k.LagKVPress(ratio(n, s), lag_size=32, cross_scoring=True)),
             lambda n, s: "lagkv(lag=32,cross=1)+adakv(safeguard=0.2,mode=pin)", least=100),
        Pair("NonCausalAttnPress", lambda n, s: k.NonCausalAttnPress(ratio(n, s), chunk_size=64),
             lambda n, s: "noncausal(64,scaled=0,padded=1)"),
        Pair("CompactorPress, attention only",
             lambda n, s: k.CompactorPress(ratio(n, s), chunk_size=64, blending=0.0),
             lambda n, s: "compactor(0,chunk=64,scaled=0,padded=1)", least=13),
        Pair("EntropyGatedChunkKVPress(KeyDiffPress)",
             lambda n, s: k.EntropyGatedChunkKVPress(k.KeyDiffPress(ratio(n, s))),
             lambda n, s: "keydiff+chunks(10,few=4)", least=5),
        Pair("CURPress", lambda n, s: k.CURPress(ratio(n, s)), lambda n, s: "cur", least=5),
        Pair("CapPress", lambda n, s: k.CapPress(ratio(n, s)), lambda n, s: "capkv", least=5),
    ]


def preset_pairs() -> list[Pair]:
    """The presets of `kvloupe policies` that name no difference: the press with its own defaults, the policy by its name."""
    import json

    import kvpress as k

    def build(name: str, kept: int, tokens: int) -> Any:
        outer, _, inner = name.partition("(")
        if inner:
            wrapped = build(inner[:-1], kept, tokens)
            return getattr(k, outer)(wrapped)
        return getattr(k, outer)(ratio(kept, tokens))

    listed = json.loads(program.run("policies", "--json", name="kvloupe"))["presets"]
    return [Pair(one["name"], lambda n, s, name=one["name"]: build(name, n, s), lambda n, s, name=one["name"]: name,
                 eager="Observed" in one["name"], least=130,
                 ties=one["name"] in ("LagKVPress", "NonCausalAttnPress"))
            for one in listed if not one["differs"]]


SHAPE = dict(vocab_size=211, hidden_size=48, intermediate_size=64, num_hidden_layers=3, num_attention_heads=6,
             num_key_value_heads=2, head_dim=8, max_position_embeddings=512, initializer_range=0.3)


class Letters:
    """A tokenizer with an id for each letter, for the random models."""

    all_special_ids: list[int] = []

    def encode(self, text: str, add_special_tokens: bool) -> list[int]:
        assert not add_special_tokens
        return [3 + ord(letter) % (SHAPE["vocab_size"] - 3) for letter in text]

    def __len__(self) -> int:
        return SHAPE["vocab_size"]

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [f"<{token}>" for token in ids]


def random_model(family: str) -> Any:
    torch.manual_seed(7)
    config = getattr(transformers, f"{family}Config")(**(SHAPE | ({"use_sliding_window": False} if "Qwen" in family else {})))
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model


def demo_ids(prompt: str) -> list[int]:
    return kvloupe.Tokenizer(ROOT / "assets/demo-model").encode(
        kvloupe.read_prompt(ROOT / f"assets/prompts/{prompt}.txt"))[0]


def cases(folder: Path, store: str = "f32", names: str = "") -> Iterator[Case]:
    """Those whose name contains `names`."""
    demo = transformers.AutoModelForCausalLM.from_pretrained(ROOT / "assets/demo-model", dtype=torch.float32).eval()
    words = kvloupe.Tokenizer(ROOT / "assets/demo-model")
    random = np.random.default_rng(11)
    inputs = [(f"demo model, {name}", demo, demo_ids(name)) for name in ("needle", "four-needles")]
    inputs.append(("demo model, long (first 1024)", demo, demo_ids("long")[:1024]))
    for family in ("Llama", "Qwen3"):
        inputs.append((f"random {family}", random_model(family), random.integers(3, SHAPE["vocab_size"], 300).tolist()))
    for name, model, ids in (one for one in inputs if names in one[0]):
        trace = folder / f"{''.join(filter(str.isalnum, name))}-{store}.h5"
        kvloupe.capture(model, None, ids, trace, block=len(ids), store=store, progress=False)
        yield Case(name, model, ids, trace, words if model is demo else Letters())


def noted_scores(scorer: Any) -> list[np.ndarray]:
    """A list to which each call of the press's score() will add its result, [heads, tokens]."""
    scores: list[np.ndarray] = []
    own = scorer.score

    def score(*positional: Any, **named: Any) -> Any:
        result = own(*positional, **named)
        scores.append(result[0].detach().double().numpy().copy())
        return result
    scorer.score = score
    return scores


@dataclasses.dataclass
class Decision:
    """The sets that a press keeps, by layer and head, and the scores that decided, [heads, tokens] for each layer."""

    sets: list[list[np.ndarray]]
    scores: list[np.ndarray]  # none: BlockPress
    first: list[np.ndarray] = dataclasses.field(default_factory=list)  # of the first of two stages (CriticalKV)


def press_sets(pair: Pair, case: Case, kept: int) -> Decision:
    press = pair.press(kept, len(case.ids))
    wraps = any(outer in pair.name for outer in ("AdaKV", "Merging", "EntropyGated"))
    scorer = getattr(press, "press", press) if wraps else press
    scores = noted_scores(scorer) if hasattr(scorer, "score") else []
    first = noted_scores(scorer.press) if "CriticalKV" in pair.name else []
    before = case.model.config._attn_implementation
    if pair.eager:
        case.model.set_attn_implementation("eager")
    try:
        return Decision(kept_by_press(press, case.model, case.ids), scores, first)
    finally:
        case.model.set_attn_implementation(before)


def policy_sets(pair: Pair, case: Case, kept: int) -> list[list[np.ndarray]]:
    tokens = len(case.ids)
    with tempfile.TemporaryDirectory() as folder:
        replay = kvloupe.replay(case.trace, pair.policy(kept, tokens), kept, block=pair.block or tokens, steps="last")
    found: dict[int, dict[int, np.ndarray]] = {}
    for one in replay["heads"]:
        found.setdefault(one["layer"], {})[one["head"]] = np.array(one["steps"][-1]["retained"])
    return [[found[layer][head] for head in sorted(found[layer])] for layer in sorted(found)]


def close(scores: np.ndarray) -> bool:
    """Whether these are equal but for float32's rounding: to 5 digits; for small ones, such as probabilities, whose
    relative error is the error of a logit, to 5 digits of the logarithm. Below the smallest normal number of float32
    hardly a digit is left: such scores are equal."""
    largest = np.abs(scores).max(initial=0.0)
    if largest < np.finfo(np.float32).tiny:
        return True
    return bool(np.ptp(scores) <= 1e-5 * largest * max(1.0, -np.log(largest)))


def tied_in_two_stages(first: np.ndarray, second: np.ndarray, policy: np.ndarray) -> bool:
    """Whether the policy's set is that of the press but for ties in either stage. `second`: the largest float32 for
    those that the first stage kept."""
    by_first = np.flatnonzero(second == np.finfo(np.float32).max)
    bar = first[by_first].min()
    doubtful = [entry for entry in range(len(first)) if close(np.array([bar, first[entry]]))]
    sure = np.setdiff1d(by_first, doubtful)
    known = np.setdiff1d(np.arange(len(first)), by_first)  # by their second score
    dropped = np.setdiff1d(known, policy)
    choices = itertools.combinations(np.intersect1d(doubtful, policy), len(by_first) - len(sure))
    for chosen in itertools.islice(choices, 10000):
        taken = np.union1d(sure, chosen)
        others = np.intersect1d(np.setdiff1d(policy, taken), known)
        if not np.isin(taken, policy).all():
            continue
        if len(others) == 0 or len(dropped) == 0:
            return True
        least, most = second[others].min(), second[dropped].max()
        if least >= most or close(np.array([least, most])):
            return True
    return False


@dataclasses.dataclass
class Likeness:
    sets: int = 0
    equal: int = 0
    tied: int = 0  # not equal, but only entries with scores equal to a few units of float32 differ
    entries: int = 0  # kept by the press
    shared: int = 0

    def add(self, press: Decision, policy: list[list[np.ndarray]], across: str = "") -> None:
        """`across`: as of the pair. An entry of one head may then be tied with that of another."""
        scores = press.scores
        apart: dict[int, list[np.ndarray]] = {}  # what sets that differ were decided by, for those who share places
        if across == "ranks" and scores:
            ranks = np.array([np.sort(layer, axis=1)[:, ::-1].mean(0) for layer in scores])
            ranks[0] = ranks.max(0)  # so that layer 0 is tied with the layer of the largest
        for layer, (a, b) in enumerate(zip(press.sets, policy)):
            for head, (x, y) in enumerate(zip(a, b)):
                both = len(np.intersect1d(x, y))
                same = len(x) == len(y) == both
                self.sets += 1
                self.equal += same
                self.entries += len(x)
                self.shared += both
                if same or not scores:
                    continue
                differ = np.setxor1d(x, y)
                if across in ("layer", "model"):
                    apart.setdefault(layer if across == "layer" else 0, []).append(scores[layer][head][differ])
                elif len(x) == len(y) and press.first:
                    self.tied += tied_in_two_stages(press.first[layer][head], scores[layer][head], y)
                elif len(x) == len(y):
                    self.tied += close(scores[layer][head][differ])
                elif across == "ranks":
                    nested = both == min(len(x), len(y))
                    between = ranks[layer][both:max(len(x), len(y))]
                    apart.setdefault(0, []).append(between if nested else np.array([np.nan]))
        for found in apart.values():
            self.tied += len(found) * close(np.concatenate(found))

    def __iadd__(self, other: "Likeness") -> "Likeness":
        for field in dataclasses.fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))
        return self


def budgets(pair: Pair, tokens: int, shares: Any = (0.9, 0.5, 0.25, 0.1)) -> list[int]:
    """These shares of the context, where the press takes them."""
    found = []
    for share in shares:
        kept = int(tokens * share) // pair.multiple * pair.multiple
        if kept >= pair.least and kept not in found:
            found.append(kept)
    return found


def closed_loop_sets(case: Case, policy: str, kept: int, block: int, folder: Path) -> list[list[np.ndarray]]:
    """What the demo model's own cache holds after the context, run by kvloupe-capture with the policy in its cache."""
    import h5py

    ids = folder / "ids.txt"
    ids.write_text(" ".join(map(str, case.ids)))
    out = folder / "closed.h5"
    program.run("run", "--model", ROOT / "assets/demo-model", "--ids", ids, "--block", block, "--policy", policy,
                "--budget", kept, "--dtype", "f32", "--store", "f32", "--attention", "none", "--progress", "none",
                "-o", out, name="kvloupe-capture")
    with h5py.File(out) as file:
        return [[np.flatnonzero(head < 0) for head in file[f"layers/{layer}/evicted_at"][:]]
                for layer in range(file["model"].attrs["num_layers"])]
