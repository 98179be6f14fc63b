"""kvloupe.evaluate beside kvloupe-capture study: the same prompts, answers and scores, in a file that both go on with."""
from __future__ import annotations

import hashlib
import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import kvloupe
import tiny_models as tiny
from kvloupe import engine, evaluation, program
from kvloupe.prompt import find_prompts
from needs import need

need("DynamicSlidingWindowLayer", "engine")
MODEL = Path(__file__).resolve().parents[2] / "assets/demo-model"
SET = [
    {"context": "The key to the kettle is 47. The ladder stands in the garden.", "input": "Where does the ladder stand?",
     "answers": ["garden", "in the garden"], "needle": "The ladder stands in the garden."},
    {"context": "The bell is 12. The drum is red. A cat sat on the ladder, and the fox went home to the garden.", "questions": [
        {"question": "What is the drum?", "answers": ["red"], "needle": "The drum is red."},
        {"question": "What is the bell?", "answers": ["12"], "needle": "The bell is 12.", "answer_prefix": "The bell is"},
        {"input": "\nWho sat on the ladder?", "answer": "cat"}]},
    {"input": "A list of words.\nThe bell is 12.\nThe bell is", "outputs": ["12"]},
    {"text": "The drum is red. The drum is red. The", "question": "What is red?", "answer": "The drum", "length": 9}]
PROMPTS = len(SET) + 2  # the line with several questions has three
TASKS: list[Any] = [{"task": "needle", "lengths": [256], "depths": [10, 62.5], "samples": 2, "needles": 2},
                    {"task": "answer", "tokens": 6}, {"task": "perplexity", "lengths": [150], "samples": 2}]
SETTINGS: dict[str, Any] = dict(policies=["h2o+recent(25%)", "keydiff", "snapkv(window=16)+caote"], budgets=["20%", 60], blocks=[64])


@pytest.fixture
def prompts(tmp_path: Path) -> str:
    file = tmp_path / "set.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in SET))
    return str(file)


def rows(path: Path, question: str) -> list[Any]:
    file = sqlite3.connect(path)
    try:
        return list(file.execute(question))
    finally:
        file.close()


def evaluate(model: Any, tokenizer: Any, path: Path, **changes: Any) -> Any:
    return kvloupe.evaluate(model, tokenizer, path, **(SETTINGS | changes), progress=changes.pop("progress", False))


FEW_BITS = {"policies": ["h2o+quant(group=16,residual=16)", "full+quant(2,group=16,residual=16)", "keydiff+quant(8,group=8,residual=0)"]}


@pytest.mark.parametrize("changes", [{}, {"compression": "context-only", "blocks": ["all"], "positions": "compact"}, FEW_BITS,
                                     FEW_BITS | {"compression": "context-only"}])
def test_it_is_the_study_of_kvloupe_capture(changes: dict[str, Any], model: Any, tokenizer: Any, prompts: str,
                                            tmp_path: Path) -> None:
    own, other, study = tmp_path / "own.sqlite", tmp_path / "other.sqlite", tmp_path / "study.json"
    evaluate(model, tokenizer, own, tasks=TASKS, prompts=prompts, **changes)
    study.write_text(json.dumps({"compression": "regular"} | SETTINGS | changes | {
        "dtype": "f32", "model": str(MODEL), "prompts": [prompts], "tasks": TASKS}))
    program.run("study", study, "-o", other, name="kvloupe-capture")
    for table in ("settings", "traces", "measures", "at_once"):
        assert rows(own, f"SELECT * FROM {table} ORDER BY 1") == rows(other, f"SELECT * FROM {table} ORDER BY 1"), table
    items = ("SELECT item, trace, task, policy, budget, block, entries, tokens, compression, state, problem, stored, expected, answer "
             "FROM items JOIN run_prompts USING (item) JOIN prompts USING (prompt) ORDER BY item")
    assert rows(own, items) == rows(other, items)
    assert len(rows(own, items)) == 7 * (4 + PROMPTS + 2)
    names = [name for name, in rows(own, "SELECT name FROM measures ORDER BY measure")]
    for table in ("replay_values", "head_values"):
        found, wanted = (rows(file, f"SELECT * FROM {table}") for file in (own, other))
        assert [row[:-1] for row in found] == [row[:-1] for row in wanted]
        for (_, measure, *_, number), (*_, right) in zip(found, wanted):
            exact = right is None or names[measure].endswith(("found", "f1", "loops", "begin"))
            assert number == right if exact else number == pytest.approx(right, rel=1e-3, abs=1e-4), names[measure]
    # Both programs see that nothing is left to do.
    before = own.read_bytes()
    program.run("study", study, "-o", own, name="kvloupe-capture")
    evaluate(model, tokenizer, other, tasks=TASKS, prompts=prompts, **changes)
    assert rows(own, items) == rows(other, items) and len(before) == own.stat().st_size


def test_it_goes_on_where_ctrl_c_stopped_it(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    path, done = tmp_path / "stopped.sqlite", []

    def stop(stage: str, at: int, total: int) -> None:
        done.append(at)
        if len(done) == 5:
            raise KeyboardInterrupt
    tasks = {"task": "perplexity", "lengths": [100], "samples": 2}
    with pytest.raises(KeyboardInterrupt):
        kvloupe.evaluate(model, tokenizer, path, tasks=tasks, progress=stop, **SETTINGS)
    assert rows(path, "SELECT state, COUNT(*) FROM items GROUP BY state") == [("done", 4), ("waiting", 10)]
    assert not Path(f"{path}.lock").exists()
    table = kvloupe.evaluate(model, tokenizer, path, tasks=tasks, progress=lambda _, at, total: done.append(at), **SETTINGS)
    assert done == [0, 1, 2, 3, 4, *range(4, 14)]
    whole = evaluate(model, tokenizer, tmp_path / "whole.sqlite", tasks=tasks)
    for name in ("policy", "budget", "perplexity_loss", "perplexity_kl"):
        assert np.array_equal(np.array(table[name]), np.array(whole[name]), equal_nan=name.startswith("perplexity"))


def test_a_model_that_was_changed_in_memory_is_another_one(tokenizer: Any, tmp_path: Path) -> None:
    own, tasks = transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32), {"task": "perplexity", "lengths": [60]}
    settings = {"tasks": tasks, "policies": ["h2o"], "budgets": [30]}
    evaluate(own, tokenizer, tmp_path / "r.sqlite", **settings)
    own.model.layers[0].self_attn.o_proj.weight.data[3, 7] += 0.5
    with pytest.raises(kvloupe.KvloupeError, match="or the model was before a change"):
        evaluate(own, tokenizer, tmp_path / "r.sqlite", **settings)


def test_what_is_wrong_is_said_in_one_line(model: Any, tokenizer: Any, prompts: str, tmp_path: Path) -> None:
    path = tmp_path / "wrong.sqlite"

    def refused(said: str, **changes: Any) -> None:
        with pytest.raises(kvloupe.KvloupeError, match=said) as error:
            evaluate(model, tokenizer, path, **({"tasks": {"task": "perplexity", "lengths": [60]}} | changes))
        assert "\n" not in str(error.value)
    refused("needle needs lengths", tasks="needle")
    refused("answer needs prompts", tasks="answer")
    refused("'drift' is not one of", tasks="drift")
    refused("'depth' is not a field", tasks={"task": "needle", "lengths": [100], "depth": 3})
    refused("lengths and depths lists of numbers", tasks={"task": "needle", "lengths": ["long"]})
    refused("lengths and depths lists of numbers", tasks={"task": "needle", "lengths": 512})
    refused("h2oo", policies="h2oo")
    refused("oracle", policies="oracle")
    refused("budget", budgets="0")
    refused("block '0'", blocks=[0])
    assert not path.exists()
    (tmp_path / "bad.jsonl").write_text('{"text": "The bell is 12.", "answer": "12"}\n{"text": 3}\n')
    refused("line 2 has a \"text\" that is not a text", tasks="answer", prompts=str(tmp_path / "bad.jsonl"))
    states = rows(path, "SELECT state, COUNT(*) FROM items GROUP BY state")
    assert states == [("done", 7), ("failed", 7)]
    (tmp_path / "bad.jsonl").write_text('{"text": "The bell is 12.", "answer": "12"}\n{"text": "The", "answer": "a"}\n')
    refused("before a change", tasks="answer", prompts=str(tmp_path / "bad.jsonl"))
    refused("other prompts")


def test_a_file_of_prompts_is_indexed_and_hashed_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, asked, real = tmp_path / "set.jsonl", [], engine.call
    file.write_bytes(b"\xef\xbb\xbf" + b"".join(json.dumps({"text": f"Zahl für {at}"}, ensure_ascii=False).encode() + b"\r\n\n" for at in range(99)))
    monkeypatch.setattr(engine, "call", lambda name, function, *rest: asked.append(function) or real(name, function, *rest))
    places = find_prompts(file)
    assert [place.read()[0][0][1] for place in places] == [f"Zahl für {at}" for at in range(99)]
    assert asked == [b"find_prompts"] + [b"read_prompt"] * 99 and places[98].at > 98 * 20  # read at its own place
    assert {place.identity for place in places} == {hashlib.sha256(file.read_bytes()).hexdigest()} and places[7].name == f"{file}#14"
    file.write_bytes(file.read_bytes()[:-9])
    with pytest.raises(kvloupe.KvloupeError, match="has changed since the runs began"):
        places[3].read()
    with pytest.warns(kvloupe.KvloupeWarning, match="nothing of the fields l, score"):
        assert find_prompts({"text": "a", "score": float("inf"), "l": [float("nan")]})[0].read() == ([("context", "a")], [])


def test_scores_and_loops_are_asked_of_the_engine() -> None:
    assert engine.ask("first_number", "it is 047, not 5") == "047" and engine.ask("first_number", "none") == ""
    assert engine.ask("has_answer", ["In the ΟΔΟΣ\0", ["x", "οδος"]]) and not engine.ask("has_answer", ["garden", ["", "gate"]])
    assert engine.ask("found_share", ["x and Gate", ["x", "gate", "hall", ""]]) == 2 / 3
    assert engine.ask("answer_f1", ["The red drum!", ["a red bell", "drum"]]) == 2 / 3
    assert engine.ask("first_loop", [9, 8] + [1, 2, 3, 4] * 4) == 2 and engine.ask("first_loop", [9, 8] + [1, 2, 3, 4] * 3) is None


@pytest.mark.parametrize("changes", [{}, {"compression": "context-only", "positions": "compact"}, {"blocks": ["all"]}], ids=str)
def test_runs_that_follow_the_full_cache_give_the_same_bits(changes: dict[str, Any], model: Any, tokenizer: Any, prompts: str,
                                                            tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"policies": ["h2o+kvmerger", "snapkv(window=16)+adakv"], "budgets": ["20%", 100], "blocks": [32]} | changes
    tasks = [{"task": "needle", "lengths": [140], "depths": [50]}, {"task": "answer", "tokens": 4}, {"task": "perplexity", "lengths": [120]}]
    blocks: dict[str, int] = {}
    real = evaluation.Cache.take
    for name, room in (("shared", 1 << 30), ("some", 3_000_000), ("alone", 0)):
        def take(cache: Any, recorded: Any, name: str = name) -> None:
            real(cache, recorded)
            blocks[name] = blocks.get(name, 0) + cache.seen
        monkeypatch.setattr(evaluation.Cache, "take", take)
        monkeypatch.setattr(evaluation, "_SHARED_ROOM", room)
        kvloupe.evaluate(model, tokenizer, tmp_path / f"{name}.sqlite", tasks=tasks, prompts=prompts, progress=False, **settings)
    assert blocks.get("alone", 0) == 0 < blocks["some"] <= blocks["shared"]
    for question in ("SELECT item, state, problem, entries FROM items ORDER BY 1", "SELECT * FROM replay_values ORDER BY 1, 2",
                     "SELECT * FROM head_values ORDER BY 1, 2, 3, 4", "SELECT * FROM run_prompts ORDER BY 1"):
        found = [rows(tmp_path / f"{name}.sqlite", question) for name in ("shared", "some", "alone")]
        assert found[0] == found[1] == found[2] and found[0]


def test_runs_of_a_model_with_states_and_latents_give_the_same_bits(tmp_path: Path, tokenizer: Any,
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    need("LinearAttentionLayer")
    vocabulary = json.loads((MODEL / "config.json").read_text())["vocab_size"]
    for name in ("Kimi Linear", "Falcon-H1", "Gemma 4, shared caches", "Llama 4"):
        kind, change, *classes = tiny.FAMILIES[name]
        sizes = {"vocab_size": vocabulary, "max_position_embeddings": 512}
        own = tiny.made(name, {name: (kind, change | sizes | (
            {"vocab_size_per_layer_input": vocabulary} if "vocab_size_per_layer_input" in change else {}), *classes)})
        for room in (1 << 30, 0):
            monkeypatch.setattr(evaluation, "_SHARED_ROOM", room)
            kvloupe.evaluate(own, tokenizer, tmp_path / f"{kind}{room}.sqlite", policies=["h2o", "keydiff"], budgets=[20, 50], blocks=[16],
                             tasks=[{"task": "perplexity", "lengths": [80]}, {"task": "needle", "lengths": [90], "depths": [50]}],
                             progress=False)
        for question in ("SELECT * FROM replay_values ORDER BY 1, 2", "SELECT * FROM head_values ORDER BY 1, 2, 3, 4",
                         "SELECT * FROM run_prompts ORDER BY 1"):
            shared, alone = (rows(tmp_path / f"{kind}{room}.sqlite", question) for room in (1 << 30, 0))
            assert shared == alone and shared, (name, question)


def test_a_policy_that_reads_a_file_is_another_one_when_the_file_changes(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    table, layers, heads = tmp_path / "table.csv", model.config.num_hidden_layers, model.config.num_key_value_heads
    table.write_text("".join(",".join(str(1 + layer + head) for head in range(heads)) + "\n" for layer in range(layers)))
    run = lambda: evaluate(model, tokenizer, tmp_path / "r.sqlite", tasks={"task": "perplexity", "lengths": [100]},
                           policies=[f'h2o+headbudgets("{table}")'], budgets=[40])
    run()
    assert str(table) in rows(tmp_path / "r.sqlite", "SELECT value FROM settings WHERE name = 'policy files'")[0][0]
    table.write_text(table.read_text() + "\n")
    with pytest.raises(kvloupe.KvloupeError, match="other policy files"):
        run()


def test_measures_that_a_newer_version_adds_get_their_names(tmp_path: Path) -> None:
    from kvloupe.evaluation import Item, Outcome, StudyResults
    from kvloupe.tables import read_study

    def results(*measures: str) -> StudyResults:
        return StudyResults(tmp_path / "s.sqlite", {}, [("prompt", "v1:a b")], list(measures),
                            [Item(0, "answer", "h2o", "20%", "64", 64, "regular")])
    results("answer_found").close()
    later = results("answer_found", "answer_loops")
    later.record(0, Outcome(values={"answer_found": 1.0, "answer_loops": 0.0}))
    assert read_study(tmp_path / "s.sqlite")[0]["answer_loops"] == [0.0]
    later.close()
    assert rows(tmp_path / "s.sqlite", "SELECT name FROM measures ORDER BY measure") == [("answer_found",), ("answer_loops",)]
    with pytest.raises(kvloupe.KvloupeError, match='measure other things ."answer_found" there, "answer_f1" now'):
        results("answer_f1", "answer_loops")
