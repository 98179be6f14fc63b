"""kvloupe.evaluate beside kvloupe-capture study: the same prompts, answers and scores, in a file that both go on with."""
from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
if not hasattr(transformers.cache_utils, "DynamicSlidingWindowLayer"):
    pytest.skip("this transformers has other caches", allow_module_level=True)

import kvloupe  # noqa: E402
from kvloupe import answer_score, engine, program  # noqa: E402

MODEL = Path(__file__).resolve().parents[3] / "assets/demo-model"
SET = [
    {"context": "The key to the kettle is 47. The ladder stands in the garden.", "input": "Where does the ladder stand?",
     "answers": ["garden", "in the garden"], "needle": "The ladder stands in the garden."},
    {"input": "A list of words.\nThe bell is 12.\nThe bell is", "outputs": ["12"]},
    {"text": "The drum is red. The drum is red. The", "question": "What is red?", "answer": "The drum", "length": 9}]
TASKS: list[Any] = [{"task": "needle", "lengths": [256], "depths": [10, 62.5], "samples": 2, "needles": 2},
                    {"task": "answer", "tokens": 6}, {"task": "perplexity", "lengths": [150], "samples": 2}]
SETTINGS: dict[str, Any] = dict(policies=["h2o+recent(25%)", "keydiff", "snapkv(window=16)+caote"], budgets=["20%", 60], blocks=[64])


@pytest.fixture(scope="module")
def model() -> Any:
    if engine.library() is None:
        pytest.skip("the engine is not built")
    return transformers.AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)


@pytest.fixture(scope="module")
def tokenizer() -> kvloupe.Tokenizer:
    return kvloupe.Tokenizer(MODEL)


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


@pytest.mark.parametrize("changes", [{}, {"compression": "context-only", "blocks": ["all"], "positions": "compact"}])
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
    assert len(rows(own, items)) == 7 * (4 + len(SET) + 2)
    names = [name for name, in rows(own, "SELECT name FROM measures ORDER BY measure")]
    for table in ("replay_values", "head_values"):
        found, wanted = (rows(file, f"SELECT * FROM {table}") for file in (own, other))
        assert [row[:-1] for row in found] == [row[:-1] for row in wanted]
        for (_, measure, *_, number), (*_, right) in zip(found, wanted):
            exact = names[measure].endswith(("found", "f1"))
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


def test_scores_are_those_of_the_papers() -> None:
    assert answer_score.first_number("it is 047, not 5") == "047" and answer_score.first_number("none") == ""
    assert answer_score.has_answer("In the GARDEN.", ["x", "garden"]) and not answer_score.has_answer("garden", ["", "gate"])
    assert answer_score.answer_f1("The red drum!", ["a red bell", "drum"]) == pytest.approx(2 / 3)
    assert answer_score.answer_f1("", ["a"]) == 0.0
