"""kvloupe's policies and kvpress's presses keep the same entries: scripts/test-kvpress.sh."""
from __future__ import annotations

import contextlib
import operator
import types
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("kvpress")
import torch  # noqa: E402
import transformers  # noqa: E402

import kvloupe.program  # noqa: E402
import presses  # noqa: E402
import second_readings  # noqa: E402
from kvloupe.external import _kept, _rows, kept_by_press  # noqa: E402

NAME = operator.attrgetter("name")


def named(name: str) -> presses.Pair:
    return next(pair for pair in presses.pairs() if pair.name.startswith(name))


def check(pair: presses.Pair, cases: list[presses.Case], shares: tuple[float, ...] = (0.8, 0.3), sets_of: Any = presses.policy_sets) -> None:
    found = presses.Likeness()
    for case in cases:
        for kept in presses.budgets(pair, len(case.ids), shares):
            press = presses.press_sets(pair, case, kept)
            found.add(press, sets_of(pair, case, kept))
    assert found.sets > 20
    assert found.equal + found.tied == found.sets, found
    # In some heads of the demo model most scores are equal: theirs are the sets that are tied and share little.
    assert found.shared > 0.9 * found.entries, found
    assert found.equal > 0.7 * found.sets or pair.ties, found


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[presses.Case]:
    folder = tmp_path_factory.mktemp("traces")
    return [*presses.cases(folder, names="needle"), *presses.cases(folder, names="random")]


@pytest.mark.parametrize("pair", presses.pairs(), ids=NAME)
def test_the_policy_keeps_what_the_press_keeps(pair: presses.Pair, cases: list[presses.Case]) -> None:
    check(pair, cases)


@pytest.mark.parametrize("pair", second_readings.reading_pairs(), ids=NAME)
def test_a_policy_that_reads_the_whole_keeps_what_its_press_keeps(pair: Any, cases: list[presses.Case], tmp_path: Path) -> None:
    found = presses.Likeness()
    for case in cases:
        if "four" not in case.name:
            read = second_readings.read_again(pair, case, tmp_path)
            for kept in presses.budgets(pair, len(case.ids), (0.8, 0.3)):
                press = second_readings.press_sets(pair, read, kept)
                assert min(len(head) for layer in press.sets for head in layer) < len(case.ids)  # something is dropped
                found.add(press, presses.policy_sets(pair, read, kept), pair.across)
    assert found.sets == 56
    assert found.equal + found.tied == found.sets, found
    assert found.shared > 0.999 * found.entries and found.equal > 0.9 * found.sets, found


def test_kvzip_press_always_keeps_the_first_tokens(cases: list[presses.Case], tmp_path: Path) -> None:
    """So keep_sinks=0 is another rule; and the comparison across heads can fail."""
    pair = second_readings.reading_pairs()[0]
    read = second_readings.read_again(pair, next(case for case in cases if "Llama" in case.name), tmp_path)
    press = second_readings.press_sets(pair, read, 30)
    assert all(head[:4].tolist() == [0, 1, 2, 3] for layer in press.sets for head in layer)
    pair.policy = lambda n, s: "kvzip(keep_sinks=0)+global"
    found = presses.Likeness()
    found.add(press, presses.policy_sets(pair, read, 30), pair.across)
    assert found.equal + found.tied < found.sets


@pytest.mark.parametrize("pair", presses.preset_pairs(), ids=NAME)
def test_a_preset_keeps_what_the_press_of_that_name_keeps(pair: presses.Pair, cases: list[presses.Case]) -> None:
    check(pair, [max(cases, key=lambda one: len(one.ids))], (0.8, 0.4))


@pytest.mark.parametrize("name", ["KeyDiffPress", "SnapKVPress", "AdaKVPress(SnapKVPress)"])
def test_so_does_a_replay_that_acts_on_the_context_only(name: str, tmp_path: Path) -> None:
    """From a trace in other blocks, with an answer: every generated token stays, as with a press."""
    if "--compression" not in kvloupe.program.run("replay", "--help"):
        pytest.skip("this kvloupe has no --compression")
    pair = named(name)
    model, ids = presses.random_model("Llama"), np.random.default_rng(4).integers(3, 211, 200).tolist()
    trace = kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=64, generate=5, store="f32")
    with kvloupe.open(trace) as opened:
        count = len(opened)
    press = presses.press_sets(pair, presses.Case("", model, ids, trace), 70).sets
    replay = kvloupe.replay(trace, pair.policy(70, 200), 70, block="all", compression="context-only", steps="last")
    for one in replay["heads"]:
        expected = press[one["layer"]][one["head"]].tolist() + list(range(200, count))
        assert one["steps"][-1]["retained"] == expected


DECODING = {  # the press inside and its policy, with windows that fit a short context
    "KeyDiffPress": (lambda k: k.KeyDiffPress(), "keydiff"),
    "KnormPress": (lambda k: k.KnormPress(), "keynorm"),
    "LagKVPress": (lambda k: k.LagKVPress(lag_size=16), "lagkv(lag=16)"),
    "StreamingLLMPress": (lambda k: k.StreamingLLMPress(), "sink(4)"),
    "TOVAPress": (lambda k: k.TOVAPress(), "tova(aggregate=layer,protect_last=1)"),
}


def left_by_decoding_press(press: Any, model: Any, ids: list[int], prompt: int) -> list[list[np.ndarray]]:
    """The tokens that are left when the press has acted once: at the last of `ids`. Until then no entry has left, so
    the cache of a run without the press tells which they are."""
    def run(outer: Any) -> Any:
        cache = transformers.DynamicCache()
        with torch.no_grad(), outer:
            for first, end in [(0, prompt), *((at, at + 1) for at in range(prompt, len(ids)))]:
                model.model(input_ids=torch.tensor([ids[first:end]]), past_key_values=cache,
                            cache_position=torch.arange(first, end))
        return cache.layers
    full, left = run(contextlib.nullcontext()), run(press(model))
    return [_kept(at, (_rows(full[at].keys), _rows(full[at].values)), left[at], None) for at in range(len(full))]


@pytest.mark.parametrize("name", DECODING)
def test_a_press_that_acts_while_the_model_writes_keeps_what_the_policy_keeps(name: str, tmp_path: Path) -> None:
    import kvpress

    make, policy = DECODING[name]
    model, ids = presses.random_model("Llama"), np.random.default_rng(4).integers(3, 211, 200).tolist()
    trace = kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=200, generate=12, store="f32", progress=False)
    with kvloupe.open(trace) as opened:
        written = opened.ids[:210].tolist()
    inner = make(kvpress)
    scores = presses.noted_scores(inner)
    left = left_by_decoding_press(kvpress.DecodingPress(inner, compression_interval=10, target_size=70), model, written, 200)
    replay = kvloupe.replay(trace, f"{policy}+every(10)+only", 70, block="all", steps="all")
    sets: list[list[np.ndarray]] = [[] for _ in left]
    for one in replay["heads"]:
        acts = [step["retained"] for step in one["steps"] if len(step["retained"]) == 70]
        sets[one["layer"]].append(np.array(acts[0]))
    found = presses.Likeness()
    found.add(presses.Decision(left, scores), sets)
    assert found.sets == sum(len(layer) for layer in left) > 4
    assert found.equal + found.tied == found.sets, found
    assert found.shared > 0.9 * found.entries, found  # ranks within partitions: many of LagKV are equal


def test_another_policy_does_not(cases: list[presses.Case]) -> None:
    """The comparison can fail."""
    pair = named("KeyDiffPress")
    pair.policy = lambda n, s: "keydiff(anchor=rawmean)"
    found = presses.Likeness()
    press = presses.press_sets(pair, cases[0], 100)
    found.add(press, presses.policy_sets(pair, cases[0], 100))
    assert found.equal + found.tied < found.sets


def test_ties_of_two_stages() -> None:
    most = np.finfo(np.float32).max
    first = np.array([5.0, 4.0, 3.99999, 3.0, 2.0, 1.0, 0.5])
    second = np.array([most, most, 0.3, 0.5, 0.200001, 0.2, 0.1])  # two by the first stage, then two of the others
    tied = lambda *policy: presses.tied_in_two_stages(first, second, np.array(policy))
    assert tied(0, 1, 2, 3)  # the press's own
    assert tied(0, 2, 3, 4) and tied(0, 2, 3, 5)  # 2 for 1 in the first stage: 4 or 5 follow in the second
    assert not tied(0, 2, 3, 6) and not tied(0, 1, 3, 4) and not tied(1, 2, 3, 4) and not tied(0, 2, 4, 5)


def test_a_rule_of_another_first_stage_is_told_from_ties(cases: list[presses.Case]) -> None:
    pair = named("CriticalKV")
    found = presses.Likeness()
    press = presses.press_sets(pair, cases[0], 200)
    pair.policy = lambda n, s: f"{presses.SNAP.format(w=16)}+critical"
    found.add(press, presses.policy_sets(pair, cases[0], 200))
    assert found.equal + found.tied < found.sets


def test_close_scores() -> None:
    assert presses.close(np.array([1.0, 1.000009])) and not presses.close(np.array([1.0, 1.00002]))
    assert presses.close(np.array([7.0906e-37, 7.0900e-37])) and not presses.close(np.array([7.1e-37, 7.0e-37]))
    assert presses.close(np.array([1e-39, 9e-39])) and presses.close(np.array([]))


def test_its_sets_are_shown_by_external(cases: list[presses.Case], tmp_path: Path) -> None:
    import kvpress

    case = next(case for case in cases if "random Llama" in case.name)
    for press in (kvpress.ExpectedAttentionPress(0.5), kvpress.AdaKVPress(kvpress.ExpectedAttentionPress(0.5)),
                  kvpress.ChunkKVPress(kvpress.SnapKVPress(0.6, window_size=16), chunk_length=20)):
        kept = kept_by_press(press, case.model, case.ids)
        for trace in (case.trace, None):
            file = kvloupe.from_kvpress(press, case.model, case.ids, tmp_path / "sets.json", trace=trace)
            replay = kvloupe.replay(case.trace, f'external("{file}")', "100%", block=len(case.ids), steps="last")
            for one in replay["heads"]:
                assert one["steps"][-1]["retained"] == kept[one["layer"]][one["head"]].tolist()
        assert getattr(case.model.model.layers[0].self_attn, "masked_key_indices", None) is None
    sizes = {len(head) for layer in kept_by_press(kvpress.AdaKVPress(kvpress.ExpectedAttentionPress(0.5)), case.model,
                                                  case.ids) for head in layer}
    assert len(sizes) > 1  # head by head


def test_a_trace_with_an_answer_keeps_it(tmp_path: Path) -> None:
    import kvpress

    model, ids = presses.random_model("Llama"), list(range(5, 105))
    trace = kvloupe.capture(model, None, ids, tmp_path / "t.h5", block=25, generate=4)
    file = kvloupe.from_kvpress(kvpress.KnormPress(0.5), model, ids, tmp_path / "x.json", trace=trace)
    kept = kept_by_press(kvpress.KnormPress(0.5), model, ids)
    replay = kvloupe.replay(trace, f'external("{file}")', "100%")
    with kvloupe.open(trace) as opened:
        count = len(opened)
    for one in replay["heads"]:
        assert one["steps"][-1]["retained"] == kept[one["layer"]][one["head"]].tolist() + list(range(100, count))
    with pytest.raises(kvloupe.KvloupeError, match="no step ends with token 79"):
        kvloupe.from_kvpress(kvpress.KnormPress(0.5), model, ids[:80], tmp_path / "y.json", trace=trace)
    with pytest.raises(kvloupe.KvloupeError, match="does not begin with these ids"):
        kvloupe.from_kvpress(kvpress.KnormPress(0.5), model, [7] * 100, tmp_path / "y.json", trace=trace)
    assert not (tmp_path / "y.json").exists()


def test_rotated_keys_are_known_by_their_values(tmp_path: Path) -> None:
    import kvpress

    model = presses.random_model("Llama")
    ids = np.random.default_rng(1).permutation(200)[:150].tolist()
    press = kvpress.KnormPress(0.5)
    plain = kept_by_press(press, model, ids)
    turned = kept_by_press(kvpress.KeyRerotationPress(press), model, ids)
    for a, b in zip(plain, turned):
        for x, y in zip(a, b):
            assert x.tolist() == y.tolist()
    with pytest.raises(kvloupe.KvloupeError, match="layer 0, head 0: the press changes its keys, and some tokens"):
        kept_by_press(kvpress.KeyRerotationPress(press), model, ids[:100] + ids[:50])
    with pytest.raises(kvloupe.KvloupeError, match="StreamingLLMPress: .*more tokens than n_sink"):
        kept_by_press(kvpress.StreamingLLMPress(0.5), model, [5, 6])


def test_a_block_press_scores_an_uncompressed_run(cases: list[presses.Case], tmp_path: Path) -> None:
    """With the same policy, block and budget, a run that evicts has other keys above layer 0."""
    pair = named("BlockPress")
    case, kept = cases[0], 96
    press = presses.press_sets(pair, case, kept).sets
    closed = presses.closed_loop_sets(case, "keydiff", kept, presses.BLOCK, tmp_path)
    equal = [np.mean([x.tolist() == y.tolist() for x, y in zip(a, b)]) for a, b in zip(press, closed)]
    assert equal[0] == 1.0 and np.mean(equal[1:]) < 0.5, equal


# ---- kvloupe.Press ----

@pytest.mark.parametrize("pair", [pair for pair in presses.pairs() if not pair.block], ids=NAME)
def test_a_policy_as_a_press_keeps_what_the_press_keeps(pair: presses.Pair, cases: list[presses.Case]) -> None:
    check(pair, cases, sets_of=lambda pair, case, kept: kept_by_press(kvloupe.Press(
        pair.policy(kept, len(case.ids)), compression_ratio=presses.ratio(kept, len(case.ids))), case.model, case.ids))


def generated(press: Any, model: Any, ids: list[int]) -> list[int]:
    with press(model):
        return model.generate(torch.tensor([ids]), max_new_tokens=12, do_sample=False, eos_token_id=None)[0, len(ids):].tolist()


@pytest.mark.parametrize("name", ["KeyDiffPress", "SnapKVPress", "AdaKVPress(SnapKVPress)", "CriticalKVPress(SnapKVPress)"])
def test_generate_says_the_same_with_either(name: str, cases: list[presses.Case]) -> None:
    pair = named(name)
    for case in cases:
        kept, count = len(case.ids) * 4 // 10, len(case.ids)
        wanted = generated(pair.press(kept, count), case.model, case.ids)
        assert generated(kvloupe.Press(pair.policy(kept, count), kept), case.model, case.ids) == wanted
        assert all(getattr(layer.self_attn, "masked_key_indices", None) is None or "Ada" in name
                   for layer in case.model.model.layers)


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_padding_is_refused_and_a_batch_is_as_its_sequences(attention: str) -> None:
    model, ids = presses.random_model("Llama"), np.random.default_rng(4).integers(3, 211, (2, 40))
    model.set_attn_implementation(attention)

    def keys(ids: Any, **named: Any) -> Any:
        cache = transformers.DynamicCache()
        with torch.no_grad(), kvloupe.Press("h2o", 12)(model):
            model(torch.tensor(ids), past_key_values=cache, use_cache=True, **named)
        return cache.layers[0].keys
    alone = torch.cat([keys(one[None]) for one in ids])
    for mask in (None, torch.ones(2, 40), torch.ones(2, 40, dtype=torch.bool)):
        assert torch.allclose(keys(ids, attention_mask=mask), alone, atol=1e-6)
    for hidden in (slice(0, 3), slice(37, 40)):
        mask = torch.ones(2, 40, dtype=torch.long)
        mask[1, hidden] = 0
        for given in (ids, ids[1:]):
            with pytest.raises(kvloupe.KvloupeError, match="layer 0: the attention mask hides tokens"):
                keys(given, attention_mask=mask[-len(given):])


def test_the_pipeline_takes_it(cases: list[presses.Case]) -> None:
    import kvpress

    case = cases[0]
    pipeline = kvpress.KVPressTextGenerationPipeline.__new__(kvpress.KVPressTextGenerationPipeline)
    pipeline.model = case.model
    said: list[list[int]] = []
    pipeline.tokenizer = types.SimpleNamespace(decode=lambda ids, **named: said.append(ids.tolist()) or "")
    given = {"context_ids": torch.tensor([case.ids[:-5]]), "questions_ids": [torch.tensor([case.ids[-5:]])] * 2}
    for press in (kvpress.KnormPress(0.5), kvloupe.Press("keynorm", compression_ratio=0.5)):
        with torch.no_grad():
            pipeline._forward(dict(given), 8, press)
    assert len(said) == 4 and said[0] == said[1] == said[2] == said[3]


def test_merged_entries_are_in_the_presss_cache(cases: list[presses.Case]) -> None:
    case = next(case for case in cases if "Llama" in case.name)
    caches = []
    for policy in ("h2o", "h2o+cam"):
        cache = transformers.DynamicCache()
        with torch.no_grad(), kvloupe.Press(policy, 60)(case.model):
            case.model.model(torch.tensor([case.ids]), past_key_values=cache)
        caches.append(cache)
    assert all(cache.layers[0].keys.shape[2] == 60 for cache in caches)
    assert torch.equal(caches[0].layers[0].keys, caches[1].layers[0].keys)
    other = kvloupe.Cache("h2o+cam", 60, model=case.model, block=300, store="f32")
    with torch.no_grad():
        case.model(torch.tensor([case.ids]), past_key_values=other)
    for layer in range(3):
        for head in range(2):
            entries = other.layers[layer].entries
            mine, theirs = caches[1].layers[layer].values[0, head], entries.values[0, head][entries.slots[head]]
            assert torch.equal(mine, theirs), (layer, head)
    assert not torch.equal(caches[0].layers[0].values, caches[1].layers[0].values)
    with pytest.raises(kvloupe.KvloupeError, match="adds log-biases of synthetic entries"):
        generated(kvloupe.Press("h2o+kvmerger(threshold=0.3,log_size=1)", 60), case.model, case.ids)


def test_a_press_that_cannot_be_is_refused(cases: list[presses.Case]) -> None:
    case = cases[-1]
    for given, said in (((), "a budget or a compression_ratio"), ((3, 0.5), "a budget or a compression_ratio"),
                        ((None, 1.0), "compression_ratio 1.0")):
        budget, ratio = (*given, None, None)[:2]
        with pytest.raises(kvloupe.KvloupeError, match=said):
            kvloupe.Press("keydiff", budget, compression_ratio=ratio)
    # transformers leaves hooks of its own after a call that asks for all attention.
    hooks_before = list(case.model.model.layers[0].self_attn._forward_hooks)
    for policy, said in (("keydif", "keydif"), ("kvzip", "reads the context a second time"), ("oracle", "following queries")):
        with pytest.raises(kvloupe.KvloupeError, match=said):
            generated(kvloupe.Press(policy, 30), case.model, case.ids)
        assert list(case.model.model.layers[0].self_attn._forward_hooks) == hooks_before
    case.model.set_attn_implementation("eager")
    try:
        with pytest.raises(kvloupe.KvloupeError, match='"eager"'):
            generated(kvloupe.Press("snapkv(window=4)+adakv(safeguard=0.1)", 30), case.model, case.ids)
    finally:
        case.model.set_attn_implementation("sdpa")
