"""Functions as policies, and what a cache and a model say beside generate()."""
from __future__ import annotations

import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kvloupe
from needs import need

need("engine")
TEXT = "The bell is 12. The drum is 5. The lamp is 90. " * 8 + "The bell is"
SCALE = 1.0


def small_keys(step: kvloupe.Step) -> Any:
    return -SCALE * np.linalg.norm(step.keys, axis=1)


class LastAttention:
    """h2o of one block, as torch."""

    def __call__(self, step: kvloupe.Step) -> Any:
        assert len(step.queries) == step.query_heads // step.heads and step.queries[0].shape[1] == step.values.shape[1]
        return torch.stack([torch.from_numpy(step.attention(query)).sum(0) for query in range(len(step.queries))]).mean(0)


@pytest.fixture(scope="module")
def trace(model: Any, tokenizer: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("functions") / "t.h5"
    kvloupe.capture(model, tokenizer, TEXT, path, generate=2, progress=False)
    return path


def test_a_function_decides_as_the_policy_that_it_repeats(trace: Path, model: Any, tokenizer: Any, tmp_path: Path) -> None:
    spec = kvloupe.spec_of(small_keys)
    for mine, own in ((small_keys, "keynorm"), (spec + "+sinks(4)+recent(10%)", "keynorm+sinks(4)+recent(10%)"), (LastAttention(), "h2o")):
        ours, theirs = (kvloupe.replay(trace, policy, "30%", block="all") for policy in (mine, own))
        ours, theirs = (one.evicted_at == 0 if own == "h2o" else one.evicted_at for one in (ours, theirs))  # h2o sums over steps
        assert np.array_equal(ours, theirs) and (ours != ours[0, 0]).any()
    table = kvloupe.sweep(trace, [small_keys, "keynorm"], ["30%"], measures="retained_mass")
    assert len({tuple(one.retained_mass) for _, one in table.groupby("policy_given")}) == 1 and "small_keys" in set(table.policy_given)
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    held = []
    for policy in (small_keys, "keynorm"):
        with kvloupe.Cache(policy, 40, model=model, block=32) as cache:
            model(ids, past_key_values=cache)
            held.append([cache.kept(layer, head) for layer in range(4) for head in range(4)])
    assert np.array_equal(*held)
    kvloupe.run(model, tokenizer, TEXT, tmp_path / "run.h5", policy=small_keys, budget=40, progress=False)
    assert kvloupe.open(tmp_path / "run.h5").run["policy"] == spec


def test_another_function_has_another_name(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def made(factor: float) -> Any:
        def score(step: kvloupe.Step) -> Any:
            return factor * step.tokens
        return score
    names = [kvloupe.spec_of(made(factor)) for factor in (1.0, 1.0, 2.0)] + [kvloupe.spec_of(lambda step: step.tokens)]
    assert names[0] == names[1] and len(set(names)) == 3 and all(re.fullmatch(r'function\("\w+-[0-9a-f]{8}"\)', name) for name in names)
    policies = [small_keys, LastAttention(), lambda step: [SCALE * token for token in step.tokens]]  # the last one names it inside
    before = list(map(kvloupe.spec_of, policies))
    assert before == list(map(kvloupe.spec_of, policies)) and kvloupe.spec_of("h2o") == "h2o"
    monkeypatch.setitem(globals(), "SCALE", 3.0)
    monkeypatch.setattr(LastAttention, "__call__", lambda self, step: step.tokens)
    assert not set(before) & set(map(kvloupe.spec_of, policies))


def test_a_wrong_function_is_one_line_and_the_model_is_whole(trace: Path, model: Any, tokenizer: Any) -> None:
    kept: list[kvloupe.Step] = []

    def fails(step: kvloupe.Step) -> Any:
        kept.append(step)
        return 1 / 0

    def stops(step: kvloupe.Step) -> Any:
        raise KeyboardInterrupt
    for policy, said in ((fails, r"layer \d, head \d, step 0: fails-\w+, line \d+: ZeroDivisionError"),
                         (lambda step: step.keys, r"an array of shape \(\d+, 32\), not \(\d+,\)"), (lambda step: None, r"an array of shape \(\)"), (lambda step: "no", "returned str"),
                         (lambda step: step.tokens * np.nan, "is not a finite number"), (lambda step: step.attention(9), "query heads 0 to 1"),
                         ('function("nothing")', "no function of this program")):
        with pytest.raises(kvloupe.KvloupeError, match=said) as caught:
            kvloupe.replay(trace, policy, "30%", block="all")
        assert "\n" not in str(caught.value)
    with pytest.raises(kvloupe.KvloupeError, match="only be read during the call"):
        kept[0].keys
    with pytest.raises(kvloupe.KvloupeError, match='elsewhere give python'):
        kvloupe.figure(trace, "filmstrip", policy=fails, budget="30%").save("never.svg")
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    wanted = model(ids).logits
    for policy, error in ((fails, kvloupe.KvloupeError), (stops, KeyboardInterrupt)):
        with pytest.raises(error):
            model(ids, past_key_values=kvloupe.Cache(policy, 40, model=model))
        assert torch.equal(model(ids).logits, wanted)


def test_a_cache_explains_why_a_token_left(model: Any, tokenizer: Any) -> None:
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    with kvloupe.Cache("keynorm", 40, model=model, block=32) as cache:
        model(ids, past_key_values=cache)
        seen: list[Any] = []
        for token in (20, 60, -1):
            why = cache.explain(token)
            assert len(why) == 16 and list(why.columns)[:3] == ["layer", "head", "evicted_at"]
            for row in why.itertuples():
                assert row.evicted_at == cache.evicted_at(row.layer)[row.head][token]
                assert (row.score < row.threshold) == (row.evicted_at >= 0) and np.isnan(row.score) == (row.evicted_at < 0)
                if row.evicted_at >= 0:
                    seen.append((token, row))
                    assert row.tokens == cache.blocks[row.evicted_at][1] and row.rival != token
                    assert row.rival >= 0 and cache.evicted_at(row.layer)[row.head][row.rival] not in range(row.evicted_at + 1)
        keys = [layer.keys for layer in model(ids).past_key_values.layers]
        first = [(token, row) for token, row in seen if row.layer == 0]  # its keys are those of a run without eviction
        for token, row in first:  # keynorm's scores, by torch
            for which, score in ((token, row.score), (row.rival, row.threshold)):
                assert score == pytest.approx(-float(keys[0][0, row.head, which].norm().detach()), rel=1e-3)
        assert first and cache._repr_html_().count("<svg") == 16
        with pytest.raises(kvloupe.KvloupeError, match="token 999: the cache has read"):
            cache.explain(999)


def test_answers_beside_each_other_and_the_budget_that_keeps_them(model: Any, tokenizer: Any) -> None:
    table = kvloupe.compare(model, tokenizer, TEXT, ["full", small_keys], [600, "10%"], generate=4, progress=False)
    ids = torch.tensor([tokenizer(TEXT)["input_ids"]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = model.generate(ids, max_new_tokens=4, do_sample=False)[0, ids.shape[1]:].tolist()
    assert table.policy.tolist() == ["full", "full", "full", "small_keys", "small_keys"]
    assert table.answer[0] == tokenizer.text_of(said) and (table.parts_at[:4] == -1).all() and (table.answer[:4] == table.answer[0]).all()
    last = table.iloc[4]
    assert last.parts_at >= 0 and last.full_says != last.says and last.measure == "answer_logit_part" and last.part < 0
    with kvloupe.Cache(small_keys, "10%", model=model, store="f32", prompt_length=ids.shape[1]) as cache, torch.inference_mode():
        token = int(model(ids, past_key_values=cache).logits[0, -1].argmax())
    assert (token == said[0]) == (last.parts_at > 0)
    found = kvloupe.budget_for(model, tokenizer, [{"text": TEXT, "answers": [tokenizer.text_of(said[:1])]}, TEXT], small_keys, generate=2, progress=False)
    kept = dict(zip(found.runs["share"], found.runs["kept"]))
    assert found.prompts == found.kept == 2 == kept[found.share] and kept[found.lost_at] < 2
    assert found.share - found.lost_at == pytest.approx(0.01) and found.interval == pytest.approx((0.342, 1.0), abs=1e-3)
    assert f"keeps 2 of 2 answers" in repr(found)
    with pytest.raises(kvloupe.KvloupeError, match="nothing to keep"):
        kvloupe.budget_for(model, tokenizer, {"text": TEXT, "answers": ["a whale"]}, generate=2, progress=False)
    with pytest.raises(kvloupe.KvloupeError, match="give the model's tokenizer"):
        kvloupe.compare(model, None, [3, 4, 5], "h2o", 2, progress=False)
    with pytest.raises(kvloupe.KvloupeError, match="the list is empty"):
        kvloupe.budget_for(model, tokenizer, [], progress=False)
    with pytest.raises(kvloupe.KvloupeError, match="keep: 2"):
        kvloupe.budget_for(model, tokenizer, [TEXT], keep=2)
