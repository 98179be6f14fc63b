"""A policy in transformers' own cache decides as kvloupe-capture does in its model: two programs whose models share no line."""
from __future__ import annotations

import copy
import importlib.util
import pickle
import subprocess
import threading
import types
import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
import tiny_models as tiny
from kvloupe import program
from kvloupe.describe import cache_argument
from needs import need

need("DynamicSlidingWindowLayer", "engine")
IDS = np.random.default_rng(5).integers(3, tiny.VOCABULARY, 60).tolist()
MIXED = ["sliding_attention", "full_attention"] * 2
FAMILIES: dict[str, tuple[str, dict[str, Any]]] = {
    "Llama": ("Llama", dict(num_hidden_layers=3)),
    "Qwen3": ("Qwen3", dict(num_hidden_layers=3, head_dim=8)),
    "Mistral, a window": ("Mistral", dict(num_hidden_layers=2, sliding_window=20)),
    "Gemma 2, capped logits": ("Gemma2", dict(num_hidden_layers=4, head_dim=8, sliding_window=16, query_pre_attn_scalar=8)),
    "Gemma 3, two rotations": ("Gemma3", dict(num_hidden_layers=4, head_dim=8, sliding_window=16, layer_types=MIXED)),
    "OLMo 2": ("Olmo2", dict(num_hidden_layers=2)),
    "SmolLM3, layers without rotation": ("SmolLM3", dict(num_hidden_layers=4)),
    "Phi-3": ("Phi3", dict(num_hidden_layers=2)),
    "gpt-oss, sink logits": ("gpt-oss", {})}
# One of each kind: attention, geometry, value-aware, an allocation, merging, selection; then schedules of people.
KINDS = ["h2o", "keydiff", "h2o+caote", "snapkv(window=4)+adakv", "h2o+kvmerger(threshold=0.5)", "snapkv(window=4)+critical"]
MORE = ["expected", "h2o+cam", "tova+recent(20%)+sinks(2)", 'keydiff+keep("3-5", heads="1.1")', 'h2o+drop("7-9", heads="0")',
        "keydiff+tome", "lagkv", "snapkv(window=4)+pyramid", "h2o+every(2)", "vase(4,window=4)+every(3)+only", "raas+slack(3)",
        "random+protect_prompt(1)", "h2o+quant(group=8,residual=4)", "full+quant(2,group=8,residual=8)", "attentionmatching", "attentionmatching(keys=omp)+recent(20%)"]


def made(name: str) -> Any:
    kind, change = FAMILIES[name]
    if kind == "gpt-oss":
        return tiny.made(kind)
    torch.manual_seed(3)
    config = "Gemma3Text" if kind == "Gemma3" else kind
    model = getattr(transformers, f"{kind}ForCausalLM")(
        getattr(transformers, f"{config}Config")(**(tiny.SHAPE | change))).eval()
    if kind == "Gemma2":  # older versions of transformers choose sdpa, which ignores the cap
        model.set_attn_implementation("eager")
    return model


def forward(model: Any, ids: Any, cache: Any, **named: Any) -> Any:
    return model(torch.as_tensor(ids).reshape(-1, np.shape(ids)[-1]), use_cache=True, **{cache_argument(model): cache}, **named)


def greedy(model: Any, cache: Any, count: int, ids: list[int] = IDS) -> list[int]:
    """Runs the prompt in one pass, then `count` tokens of the model's choice, the last one, too."""
    new: list[int] = []
    with torch.inference_mode():
        out = forward(model, ids, cache)
        for at in range(count):
            new.append(int(out.logits[0, -1].argmax()))
            cache.ended = at + 1 == count
            out = forward(model, new[-1:], cache)
    return new


class Program:
    """kvloupe-capture on models in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, program.find("kvloupe-capture")
        (folder / "ids.txt").write_text(" ".join(map(str, IDS)))

    def run(self, name: str, model: Any, policy: str, budget: int | str = 12, **options: Any) -> Path:
        if not (self.folder / name).is_dir():
            model.save_pretrained(self.folder / name)
        words = [word for key, value in options.items() for word in (f"--{key}", value)]
        done = subprocess.run(
            [self.path, "run", "--model", self.folder / name, "--ids", self.folder / "ids.txt", "--block", "9", "--generate", "6",
             "--policy", policy, "--budget", str(budget), "--dtype", "f32", "--progress", "none", *words, "-o",
             self.folder / "t.h5"], capture_output=True, text=True, check=False)
        if done.returncode:
            raise kvloupe.KvloupeError(done.stderr.strip().splitlines()[-1].removeprefix("kvloupe-capture: "))
        return self.folder / "t.h5"


@pytest.fixture(scope="module")
def capture(tmp_path_factory: pytest.TempPathFactory) -> Program:
    need("kvloupe-capture")
    return Program(tmp_path_factory.mktemp("models"))


def compare(trace: Path, model: Any, policy: str, **settings: Any) -> int:
    """Every step at which every token left, every merge and the text; the number of merges."""
    with h5py.File(trace) as file:
        block, prompt = int(file["run"].attrs["block_size"]), int(file["run"].attrs["prompt_length"])
        ids, text = file["tokens/ids"][:prompt].tolist(), file["tokens/ids"][prompt:].tolist()
        layers = {at: file[f"layers/{at}/evicted_at"][:] for at in range(len(file["layers"]))}
        merges = {at: [tuple(map(int, list(one)[:4])) for one in file[f"layers/{at}/merges"][:]]
                  if f"layers/{at}/merges" in file else [] for at in layers}
        blocks = [tuple(map(int, one)) for one in file["run/blocks"][:]]
    with kvloupe.Cache(policy, **({"budget": 12} | settings), model=model, block=block) as cache:
        assert greedy(model, cache, len(text), ids) == text, policy
    assert cache.blocks == blocks
    for at, gone in layers.items():
        assert np.array_equal(cache.evicted_at(at), gone), (policy, at)
        assert sorted(one[:4] for one in cache.merges(at)) == sorted(merges[at]), (policy, at)
        for head in range(len(gone)):
            assert cache.kept(at, head).tolist() == np.flatnonzero(gone[head] < 0).tolist()
    return sum(map(len, merges.values()))


@pytest.mark.parametrize("name", list(FAMILIES))
def test_sets_merges_and_text_are_those_of_kvloupe_capture(name: str, capture: Program) -> None:
    model, merged = made(name), 0
    for policy in KINDS + (MORE if name == "Llama" else []):
        merged += compare(capture.run(name, model, policy), model, policy)
    assert merged > 0


def test_so_they_are_in_the_demo_model(capture: Program, tmp_path: Path) -> None:
    folder = Path(kvloupe.__file__).parents[2] / "assets/demo-model"
    if not folder.is_dir():
        pytest.skip("not in the repository")
    model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    # No text, and states of 32 bits: a repeated phrase has entries whose scores differ by less than the two models' rounding.
    # So have they under the selection `critical`, which is left out.
    ids = np.random.default_rng(4).choice(np.arange(10, model.config.vocab_size), 90, replace=False)
    (tmp_path / "ids.txt").write_text(" ".join(map(str, ids)))
    for policy in KINDS[:5]:
        done = subprocess.run([capture.path, "run", "--model", folder, "--ids", tmp_path / "ids.txt", "--block", "16", "--generate", "12",
                               "--policy", policy, "--budget", "30%", "--dtype", "f32", "--store", "f32", "--progress", "none", "-o",
                               tmp_path / "t.h5"], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        compare(tmp_path / "t.h5", model, policy, budget="30%", store="f32")


@pytest.mark.parametrize("name", ["Llama", "SmolLM3, layers without rotation"])
def test_so_they_are_with_compact_positions(name: str, capture: Program) -> None:
    model = made(name)
    for policy in KINDS:
        compare(capture.run(name, model, policy, positions="compact"), model, policy, positions="compact")


def test_so_they_are_with_a_share_and_with_states_of_32_bits(capture: Program) -> None:
    model = made("Llama")
    compare(capture.run("Llama", model, "h2o", "30%"), model, "h2o", budget="30%")
    compare(capture.run("Llama", model, "h2o", store="f32"), model, "h2o", store="f32")
    compare(capture.run("Llama", model, "h2o", compression="context-only"), model, "h2o", compression="context-only")


def test_a_cadence_needs_tokens_after_which_the_policy_acts() -> None:
    with pytest.raises(kvloupe.KvloupeError, match="every: counts generated tokens"):
        kvloupe.Cache("h2o+every(8)", 12, model=made("Llama"), compression="context-only")


def test_in_bfloat16_a_replay_of_the_same_states_decides_the_same(tmp_path: Path) -> None:
    model = made("Llama").bfloat16()
    path = kvloupe.capture(model, None, IDS, tmp_path / "t.h5", block=9)
    cache = kvloupe.Cache("h2o+recent(20%)", 12, model=model, block=9)
    cache.ended = True
    with torch.inference_mode():
        forward(model, IDS, cache)
    replay = kvloupe.replay(path, "h2o+recent(20%)", 12, measures="none")
    assert np.array_equal(replay.evicted_at[:2], cache.evicted_at(0))  # below layer 0 the states differ


@pytest.mark.parametrize("name", list(FAMILIES))
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_full_budget_gives_the_models_own_logits_bit_for_bit(name: str, attention: str) -> None:
    model = made(name)
    try:
        model.set_attn_implementation(attention)
    except ValueError:
        pytest.skip(f"no {attention}")
    kept = kvloupe.Cache("h2o", 100, model=model, block=9)
    own = transformers.DynamicCache(config=model.config)
    with torch.inference_mode():
        for part in (IDS[:31], IDS[31:40], *([one] for one in IDS[40:])):
            logits = [forward(model, part, cache).logits for cache in (kept, own)]
            assert torch.equal(*logits)
    for at, layer in enumerate(kept.layers):
        assert layer.entries is None, at
        for head in range(2):
            window = layer.window
            assert kept.kept(at, head).tolist() == list(range(max(60 - window + 1, 0) if window else 0, 60))


def test_passes_of_other_lengths_read_the_same_blocks() -> None:
    model = made("Gemma 3, two rotations")
    found = []
    for parts in ([60], [18, 42], [9] * 6 + [6], [27, 27, 6]):
        cache, first = kvloupe.Cache("h2o+recent(20%)", 12, model=model, block=9), 0
        with torch.inference_mode():
            for count in parts:
                out = forward(model, IDS[first:first + count], cache)
                first += count
        found.append((out.logits[0, -1], [cache.evicted_at(at).tolist() for at in range(4)], cache.blocks))
    for logits, gone, blocks in found[1:]:
        assert gone == found[0][1] and blocks == found[0][2]
        assert torch.allclose(logits, found[0][0], atol=1e-4)


def test_generate_takes_it_as_any_cache() -> None:
    model = made("Llama")
    named = cache_argument(model)

    def run(cache: Any, **settings: Any) -> list[int]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return model.generate(torch.tensor([IDS]), **{named: cache}, max_new_tokens=6, do_sample=False, eos_token_id=None,
                                  **settings)[0, len(IDS):].tolist()
    wanted = greedy(model, kvloupe.Cache("h2o", 12, model=model, block=9), 6)
    assert run(kvloupe.Cache("h2o", 12, model=model, block=9)) == wanted
    if named == "cache":  # older versions of transformers begin at the last chunk of a cache that they are given
        assert run(kvloupe.Cache("h2o", 12, model=model, block=9), prefill_chunk_size=18) == wanted
    assert run(kvloupe.Cache("h2o", 12, model=model, block=9)) != run(transformers.DynamicCache(config=model.config))


def test_heads_with_other_numbers_of_entries_see_their_own_alone() -> None:
    model = made("Llama")
    cache = kvloupe.Cache("snapkv(window=4)+adakv(safeguard=0.1)", 12, model=model, block=9)
    greedy(model, cache, 3)
    sizes = {len(cache.kept(at, head)) for at in range(3) for head in range(2)}
    assert len(sizes) > 1
    for layer in cache.layers:
        entries = layer.entries
        assert entries.keys.shape[2] == max(len(one) for one in layer.held)  # nothing is kept beyond the widest head
        for head, held in enumerate(layer.held):
            assert sorted(entries.tokens[head][entries.tokens[head] >= 0].tolist()) == held.tolist()
            assert entries.tokens[head][entries.slots[head]].tolist() == held.tolist()


def state_of(model: Any) -> Any:
    return (model.config._attn_implementation, len(model._forward_hooks), len(model._forward_pre_hooks), model.training,
            [len(part._forward_pre_hooks) for part in model.modules()])


def refused(model: Any, said: str, run: Any) -> None:
    """One exception with this line; the model is as it was, and generates as before."""
    before, text = state_of(model), model.generate(torch.tensor([IDS[:9]]), max_new_tokens=3, do_sample=False).tolist()
    with pytest.raises(kvloupe.KvloupeError, match=said) as caught:
        run()
    assert "\n" not in str(caught.value)
    assert state_of(model) == before
    assert model.generate(torch.tensor([IDS[:9]]), max_new_tokens=3, do_sample=False).tolist() == text


def test_what_cannot_run_is_refused_and_the_model_left_as_it_was(tmp_path: Path) -> None:
    model = made("Llama")
    ids = torch.tensor([IDS])

    def run(ids: Any, policy: str = "h2o", **named: Any) -> Any:
        with kvloupe.Cache(policy, 12, model=model) as cache, torch.inference_mode():
            return forward(model, ids, cache, **named)
    refused(model, "holds one sequence, not a batch of 2", lambda: run(torch.cat([ids, ids])))
    for hidden in (slice(0, 3), slice(57, 60), slice(20, 21)):
        padded = torch.ones_like(ids)
        padded[0, hidden] = 0
        refused(model, "the attention mask hides tokens", lambda: run(ids, attention_mask=padded))
    refused(model, "or ends before the last", lambda: run(ids, attention_mask=torch.ones(1, 59)))
    refused(model, r"of type Tensor with the shape \[1, 60, 60\]", lambda: run(ids, attention_mask=torch.ones(1, 60, 60)))
    refused(model, "the next token is 0", lambda: run(ids, position_ids=torch.arange(5, 65)[None]))
    with kvloupe.Cache("h2o", 12, model=model) as cache:
        for copied in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(kvloupe.KvloupeError, match="cannot be copied or stored"):
                copied(cache)
    (tmp_path / "wrong.py").write_text("def score(step):\n    return 1 / 0\n")
    refused(model, "score at layer 0, head [01], step 0: .*division by zero",
            lambda: run(ids, policy=f'python("{tmp_path}/wrong.py:score")'))
    refused(model, "reads the context a second time", lambda: run(ids, policy="kvzip"))
    refused(model, "needs the following queries", lambda: run(ids, policy="oracle"))
    for policy in ("epikv", "thinkv"):
        refused(model, "decides once all layers have read a block", lambda: run(ids, policy=policy))
    refused(model, "keydif", lambda: run(ids, policy="keydif"))
    for change, said in ((dict(budget=0), "budget"), (dict(budget="x%"), "budget"), (dict(block=0), "block 0"), (dict(block=1.5), "block 1.5"),
                         (dict(positions="near"), "positions"), (dict(compression="some"), "compression"),
                         (dict(store="f8"), "store")):
        refused(model, said, lambda: kvloupe.Cache(**(dict(policy="h2o", budget=12, model=model) | change)))

    def beams(**named: Any) -> None:
        with kvloupe.Cache("h2o", 12, model=model) as cache, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model.generate(ids, max_new_tokens=2, **{cache_argument(model): cache}, **named)
    refused(model, "holds one sequence", lambda: beams(num_beams=2))
    with pytest.raises(ValueError):  # transformers' own line: a cache beside the name of another
        beams(cache_implementation="static")
    assert model.config._attn_implementation == "sdpa"


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_a_mask_that_is_not_the_causal_one_is_refused(attention: str) -> None:
    causal = torch.ones(60, 60, dtype=torch.bool).tril()
    packed, one_pair, both_ways, window = causal.clone(), causal.clone(), torch.ones_like(causal), causal.clone().triu(-15)
    packed[30:, :30] = one_pair[7, 3] = False
    added = lambda seen, least=torch.finfo(torch.float32).min: torch.zeros(1, 1, *seen.shape).masked_fill(~seen, least)
    forms = [added, lambda seen: added(seen, float("-inf")), lambda seen: added(seen).expand(1, 6, -1, -1)]
    forms += [lambda seen: seen[None, None]] if attention == "sdpa" else []  # eager adds truths

    def logits(own: Any, *masks: Any, block: int = 9, by_name: bool = True) -> Any:
        with kvloupe.Cache("h2o", 12, model=own, block=block) as cache, torch.inference_mode():
            for part, mask in zip(torch.tensor([IDS]).chunk(len(masks), 1), masks):
                named = {cache_argument(own): cache} | ({"attention_mask": mask} if by_name else {})
                out = own(part, *([] if by_name else [mask]), use_cache=True, **named)
        return out.logits

    def refused(layer: int, *given: Any, **named: Any) -> None:
        with pytest.raises(kvloupe.KvloupeError, match=f"a token of layer {layer} does not see all earlier ones"):
            logits(*given, **named)
    model, mixed = made("Llama"), made("Gemma 3, two rotations")
    for own in (model, mixed):
        own.set_attn_implementation(attention)
    wanted = {block: logits(model, None, block=block) for block in (9, 60)}
    chunks = logits(model, None, None)
    for form in forms:
        assert torch.allclose(logits(model, form(causal[:30, :30]), form(causal[30:])), chunks, atol=1e-5)
        refused(0, model, None, form(packed[30:]))
        for block in wanted:
            assert torch.allclose(logits(model, form(causal), block=block), wanted[block], atol=1e-5)
            for wrong in (packed, one_pair, both_ways, window):
                refused(0, model, form(wrong), block=block)
    assert torch.equal(logits(model, None, by_name=False), wanted[9])
    refused(0, model, added(packed), by_name=False)
    kinds = lambda full: {"full_attention": added(full), "sliding_attention": added(window)}
    assert torch.allclose(logits(mixed, kinds(causal)), logits(mixed, None), atol=1e-4)
    refused(1, mixed, kinds(packed))
    refused(0, mixed, added(causal))


def test_a_model_in_another_thread_is_said_to_be_there() -> None:
    model, other, found = made("Llama"), made("Qwen3"), []
    wanted = greedy(model, kvloupe.Cache("h2o", 12, model=model), 2)
    inside, go_on = threading.Event(), threading.Event()
    cache, waiting = kvloupe.Cache("h2o", 12, model=model), kvloupe.Cache("h2o", 12, model=other)
    hook = model.model.layers[1].register_forward_pre_hook(lambda *_: (inside.set(), go_on.wait(60), None)[2])
    thread = threading.Thread(target=lambda: found.append(greedy(model, cache, 2)), name="reader")
    thread.start()
    try:
        assert inside.wait(60)
        for run in (lambda: kvloupe.Cache("h2o", 12, model=other), lambda: forward(other, IDS, waiting), lambda: model(torch.tensor([IDS])),
                    lambda: kvloupe.capture(other, None, IDS, "no.h5")):
            with pytest.raises(kvloupe.KvloupeError, match="the thread 'reader' runs a model"):
                run()
    finally:
        go_on.set()
        thread.join()
        hook.remove()
    assert found == [wanted] and len(greedy(other, waiting, 2)) == 2  # neither was disturbed


def test_a_cache_that_failed_is_not_used_again() -> None:
    model = made("Llama")
    cache = kvloupe.Cache("h2o", 12, model=model)
    with torch.inference_mode():
        with pytest.raises(kvloupe.KvloupeError, match="batch"):
            forward(model, [IDS, IDS], cache)
        with pytest.raises(kvloupe.KvloupeError, match="an earlier forward pass failed"):
            forward(model, IDS, cache)
        other = made("Qwen3")
        with pytest.raises(kvloupe.KvloupeError, match="is made for another model, or is closed"):
            forward(other, IDS, kvloupe.Cache("h2o", 12, model=model))
        closed = kvloupe.Cache("h2o", 12, model=model)
        closed.close()
        with pytest.raises(kvloupe.KvloupeError, match="is closed"):
            forward(model, IDS, closed)


def test_models_with_other_attention_are_refused() -> None:
    model = made("Llama")

    def plain(self: Any, hidden_states: Any, **named: Any) -> tuple[Any, None]:  # asks nobody for an attention function
        return self.o_proj(self.q_proj(hidden_states)), None
    for layer in model.model.layers:
        layer.self_attn.forward = types.MethodType(plain, layer.self_attn)
    refused(model, "registry", lambda: kvloupe.Cache("keydiff", 12, model=model))


def test_layers_without_a_cache_stay_the_models_own() -> None:
    need("Qwen3NextForCausalLM", "LinearAttentionLayer")
    model = tiny.made("Qwen3-Next")
    cache = kvloupe.Cache("h2o", 100, model=model, block=100)
    own = transformers.DynamicCache(config=model.config)
    with torch.inference_mode():
        for part in (IDS[:40], *([one] for one in IDS[40:44])):
            assert torch.equal(*(forward(model, part, one).logits for one in (cache, own)))
    small = kvloupe.Cache("h2o", 12, model=model, block=9)
    assert len(greedy(model, small, 3)) == 3 and len(small.kept(2, 0)) == 12
    with pytest.raises(kvloupe.KvloupeError, match="layer 0, head 0"):
        small.kept(0, 0)


def test_a_cache_that_was_emptied_is_as_a_new_one() -> None:
    model = made("Gemma 3, two rotations")
    cache = kvloupe.Cache("h2o", "20%", model=model, block=9)
    wanted = greedy(model, cache, 3)
    gone = cache.evicted_at(1)
    cache.reset()
    greedy(model, cache, 2, IDS[:30])
    assert cache.budget == 6
    cache.reset()
    assert greedy(model, cache, 3) == wanted and np.array_equal(cache.evicted_at(1), gone)


def test_the_forward_is_the_models_own_again_when_its_caches_are_gone() -> None:
    import gc

    model = made("Llama")
    first, second = (kvloupe.Cache("h2o", 12, model=model) for _ in range(2))
    first.close()
    first.close()
    assert "forward" in vars(model) and len(greedy(model, second, 2)) == 2
    for copied in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert torch.equal(copied(torch.tensor([IDS])).logits, model(torch.tensor([IDS])).logits)
    del second
    gc.collect()
    assert "forward" not in vars(model)


def test_without_kvpress_a_press_says_so() -> None:
    if importlib.util.find_spec("kvpress") is not None:
        pytest.skip("kvpress is here")
    with pytest.raises(kvloupe.KvloupeError, match="kvloupe.Press needs the package kvpress .*pip install") as caught:
        kvloupe.Press("keydiff")
    assert "\n" not in str(caught.value)


# ---- kvloupe.run ----

def text(value: Any) -> Any:
    return value.decode() if isinstance(value, bytes) else value


@pytest.mark.parametrize("name, policy, settings", [
    ("Llama", "h2o+kvmerger", {}), ("gpt-oss, sink logits", "keydiff", {}), ("Gemma 2, capped logits", "h2o", {}),
    ("Llama", "snapkv(window=4)+critical", dict(positions="compact", store="f32"))], ids=str)
def test_a_run_writes_the_trace_of_kvloupe_capture(name: str, policy: str, settings: dict[str, Any], capture: Program,
                                                   tmp_path: Path) -> None:
    model = made(name)
    other = capture.run(name, model, policy, **settings)
    before = state_of(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", kvloupe.KvloupeWarning)
        path = kvloupe.run(model, None, IDS, tmp_path / "t.h5", policy=policy, budget=12, block=9, generate=6, **settings)
    assert state_of(model) == before
    with h5py.File(path) as mine, h5py.File(other) as theirs:
        for attribute in ("policy", "budget", "positions", "compression", "block_size", "prompt_length", "generated"):
            assert text(mine["run"].attrs[attribute]) == text(theirs["run"].attrs[attribute]), attribute
        for place in ("tokens/ids", "run/blocks"):
            assert np.array_equal(mine[place][:], theirs[place][:]), place
        for at in range(len(theirs["layers"])):
            own, wanted = mine[f"layers/{at}"], theirs[f"layers/{at}"]
            assert set(own) == set(wanted), at
            assert np.array_equal(own["evicted_at"][:], wanted["evicted_at"][:]), at
            if "merges" in wanted:
                assert own["merges"].dtype == wanted["merges"].dtype
                assert sorted(map(tuple, own["merges"][:][["head", "step", "into", "from"]])) == sorted(
                    map(tuple, wanted["merges"][:][["head", "step", "into", "from"]]))
            for kind in ("query", "key", "value", "output_weight", "value_out_norm_l2", "residual_change"):
                if kind in wanted:
                    x, y = own[kind][:].astype(float), wanted[kind][:].astype(float)
                    assert np.abs(x - y).max() < (1e-4 if settings.get("store") == "f32" else 4e-3) * np.abs(y).max(), (at, kind)
        assert np.abs(mine["predictions/loss"][:-1] - theirs["predictions/loss"][:-1]).max() < 1e-2
    if settings.get("positions") != "compact":
        replay = kvloupe.replay(path, policy, 12, measures="none")
        with h5py.File(path) as mine:
            for row, (layer, head) in enumerate(replay.layer_head):
                assert np.array_equal(replay.evicted_at[row], mine[f"layers/{layer}/evicted_at"][head]), (layer, head)
    assert "policy" in program.run("info", path)


def test_entries_are_refitted_in_the_models_cache(tmp_path: Path) -> None:
    model = made("Llama")
    with kvloupe.Cache("attentionmatching", budget=len(IDS), model=model, block=9) as cache, \
         kvloupe.Cache("full", budget=len(IDS), model=model, block=9) as full, torch.inference_mode():
        assert torch.equal(forward(model, IDS, cache).logits, forward(model, IDS, full).logits), "room for all changes nothing"
        assert all(layer.entries is None or layer.entries.log_sizes is None for layer in cache.layers)
    path = kvloupe.run(model, None, IDS, tmp_path / "t.h5", policy="attentionmatching", budget=12, block=9, generate=6, store="f32")
    replay = kvloupe.replay(path, "attentionmatching", 12, measures="none")
    with h5py.File(path) as file:
        for row, (layer, head) in enumerate(replay.layer_head):
            assert np.array_equal(replay.evicted_at[row], file[f"layers/{layer}/evicted_at"][head]), (layer, head)
            assert "merges" not in file[f"layers/{layer}"] or not len(file[f"layers/{layer}/merges"]), "no set was merged"
    with kvloupe.Cache("attentionmatching", budget=12, model=model, block=9) as cache:
        greedy(model, cache, 4)
        assert all(bool(layer.entries.log_sizes.any()) for layer in cache.layers)


def test_all_of_a_prompt_is_a_block_too(tmp_path: Path) -> None:
    model = made("Llama")
    with kvloupe.open(kvloupe.run(model, None, IDS, tmp_path / "t.h5", policy="h2o", budget=12, block="all")) as trace:
        assert trace.blocks == [(0, 60)] and trace.run["block_size"] == 60


def test_a_compiled_model_is_run_as_it_is(tmp_path: Path) -> None:
    def found(own: Any) -> list[Any]:
        with kvloupe.Cache("h2o", 12, model=own, block=9) as cache:
            text = greedy(own, cache, 2)
        paths = (kvloupe.capture(own, None, IDS, tmp_path / "t.h5"),
                 kvloupe.run(own, None, IDS, tmp_path / "c.h5", policy="h2o", budget=12, block=9, generate=2))
        with h5py.File(paths[0]) as trace, h5py.File(paths[1]) as closed:
            return [text, cache.evicted_at(2).tolist(), closed["layers/2/evicted_at"][:].tolist(), trace["layers/2/query"][:].tolist(),
                    trace["model"].attrs["architecture"]]
    inside = made("Llama")
    inside.model.layers[1].compile(backend="eager")
    inside.model.layers[2].mlp = torch.compile(inside.model.layers[2].mlp, backend="eager")
    wanted = found(made("Llama"))
    assert found(torch.compile(made("Llama"), backend="eager")) == wanted and found(inside) == wanted


def test_a_run_that_fails_leaves_no_file(tmp_path: Path) -> None:
    model = made("Llama")
    (tmp_path / "wrong.py").write_text("def score(step):\n    return [0.0] * len(step) if step.layer == 0 else 1 / 0\n")
    run = lambda **named: kvloupe.run(model, None, IDS, tmp_path / "t.h5", **(dict(policy="h2o", budget=12) | named))
    refused(model, "layer 1, head [01], step 1: .*division by zero", lambda: run(policy=f'python("{tmp_path}/wrong.py:score")', block=9))
    refused(model, "generate -1", lambda: run(generate=-1))
    refused(model, "positions for 256", lambda: run(generate=300))
    refused(model, "reads the context a second time", lambda: run(policy="kvzip"))
    assert [one.name for one in tmp_path.iterdir()] == ["wrong.py"] or not (tmp_path / "t.h5").exists()
