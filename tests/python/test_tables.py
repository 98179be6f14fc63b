"""Tables of sweeps, runs and results files; prompts that are given; what a notebook sees; lines of mistakes."""
from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import kvloupe
from kvloupe import program, progress
from needs import need

need("engine")
pandas = pytest.importorskip("pandas")
MODEL = Path(__file__).resolve().parents[2] / "assets/demo-model"


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path, random = tmp_path_factory.mktemp("tables") / "t.h5", np.random.default_rng(1)
    with kvloupe.TraceWriter(path, kvloupe.Model(layers=2, heads=4, kv_heads=2, head_dim=8, hidden=32, vocabulary=100), 400) as writer:
        for layer in range(2):
            writer.add_layer(layer, **{name: random.standard_normal((heads, 400, 8)) for name, heads in (("query", 4), ("key", 2), ("value", 2))})
        writer.finish(np.arange(400) % 100)
    return path


def line_of(said: str, run: Any) -> None:
    with pytest.raises(kvloupe.KvloupeError, match=said) as caught:
        run()
    assert "\n" not in str(caught.value)


def test_a_sweep_has_the_measures_asked_for_and_says_what_is_unknown(trace: Path, tmp_path: Path) -> None:
    table = kvloupe.sweep(trace, ["snapkv(window=16)", "h2o"], np.array([100, 40]), blocks=np.array([8]), measures="retained_mass")
    row = table[(table.policy_given == "snapkv(window=16)") & (table.budget_given == 40)]
    assert len(row) == 4 and set(row.entries) == {40} and set(row.share) == {0.1}
    assert "retained_mass" in table and "perturbation_l1" not in table and table.attrs["version"] == kvloupe.__version__
    assert set(kvloupe.sweep(trace, "h2o", ["10%"]).share) == {0.1}
    with pytest.warns(kvloupe.KvloupeWarning, match="question_residual_change is NaN: the trace has no segment question"):
        table = kvloupe.sweep(trace, "h2o", 9, measures=["question_residual_change"])
    assert "question_residual_change" in table.attrs["reasons"] and table.question_residual_change.isna().all()
    kvloupe.sweep(trace, ["snapkv(window=8)", "tova"], 9, output=tmp_path / "sweep.csv")  # whose rows come first
    table = kvloupe.sweep(trace, ["keydiff", "snapkv(window=16)"], 9, output=tmp_path / "sweep.csv")
    assert table.policy.equals(table.policy_given) and set(table.policy) == {"snapkv(8)", "snapkv(16)", "tova", "keydiff"}


def test_results_of_every_program_are_one_table(trace: Path, model: Any, tmp_path: Path) -> None:
    rows = [{"text": "The bell is 12. The drum is 5.", "question": "The bell is", "answers": ["12"]}]
    settings: dict[str, Any] = dict(policies=["snapkv(window=16)"], budgets=["50%", 24], progress=False)
    run = lambda name, prompts, tasks: kvloupe.evaluate(
        model, kvloupe.Tokenizer(MODEL), tmp_path / f"{name}.sqlite", prompts=prompts, tasks=tasks, **settings)
    tasks = [{"task": "answer", "tokens": 2}, {"task": "perplexity"}]
    table = run("dicts", rows, tasks)
    assert run("frame", pandas.DataFrame(rows), tasks).assign(seconds=table.seconds).equals(table)
    assert len(run("texts", ["The bell is 12.", "The drum is 5."], "perplexity")) == 6
    line_of("is not a file", lambda: run("no", ["nothing.jsonl"], "perplexity"))
    line_of("is not a file, a text or a dictionary", lambda: run("no", [3], "perplexity"))
    assert table[(table.policy_given == "snapkv(window=16)") & (table.budget_given == 24)].entries.tolist() == [24, 24]
    read = kvloupe.results(tmp_path / "dicts.sqlite")
    assert read.drop(columns="policy_given").equals(table.drop(columns="policy_given"))
    assert read.attrs["reasons"]["answer_found"] == "only runs of the task answer have it" and read.attrs["settings"]["version"]
    made = lambda **more: kvloupe.study(tmp_path / "study.sqlite", trace, policies=["h2o"], budgets=["25%", 40], blocks=64, **more)
    replays, by_head = made(), made(heads=True)
    line_of("measure 'nothing': unknown", lambda: made(measures=["nothing"]))
    line_of("no function", lambda: kvloupe.study(tmp_path / "no.sqlite", trace, policies=len, budgets=9))
    line_of("give traces to replay, or a model", lambda: kvloupe.study(tmp_path / "no.sqlite", policies="h2o", budgets=9))
    assert replays.share.tolist() == [0.25, 0.1] and len(by_head) == 8 and set(by_head["layer"]) == set(by_head["head"]) == {0, 1}
    program.run("eval", "--model", MODEL, "--task", "needle", "--lengths", 200, "--depths", 50, "--samples", 1, "--policies", "h2o",
                "--budgets", "25%,60", "-o", tmp_path / "eval.json", "--progress", "none", name="kvloupe-capture")
    found = kvloupe.results(tmp_path / "eval.json")
    assert found.budget_given.tolist() == ["full", "25%", 60] and found.needle_found.isin([0, 1]).all() and found.share[1] == 0.25
    shared = {"task", "prompt", "policy", "policy_given", "budget", "budget_given", "entries", "share", "block", "compression"}
    assert all(shared <= set(one) for one in (table, read, replays, by_head, found))
    for path in (MODEL / "config.json", trace, tmp_path / "none.json"):
        line_of("results file", lambda: kvloupe.results(path))


def test_progress_is_a_bar_of_tqdm_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    tqdm, bars = pytest.importorskip("tqdm.auto"), []

    class Bar(tqdm.tqdm):
        def __init__(self, **named: Any) -> None:
            super().__init__(**named, file=open(os.devnull, "w"), disable=False)
            bars.append(self)
    monkeypatch.setattr(tqdm, "tqdm", Bar)
    monkeypatch.setattr(progress, "in_notebook", lambda: True)
    say, clear = progress.reporter(True)
    for call in (("prompt", 0, 90), ("prompt", 30, 90), ("answer", 1, 4)):
        say(*call)
    assert [bar.disable for bar in bars] == [True, False]
    clear()
    assert [(bar.desc, bar.n, bar.total, bar.disable) for bar in bars] == [("prompt", 30, 90, True), ("answer", 1, 4, True)]


def test_a_notebook_without_a_screen_shows_a_figure(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(program, "in_notebook", lambda: True)
    with pytest.warns(kvloupe.KvloupeWarning, match="no display"):
        shown = kvloupe.view(trace)
    assert isinstance(shown, kvloupe.Figure) and shown._repr_svg_().startswith("<")
    line_of("did you mean filmstrip", lambda: kvloupe.figure(trace, "filmstripp"))
    line_of("did you mean policy", lambda: kvloupe.figure(trace, "filmstrip", polcy="h2o"))


def test_the_folders_tokenizer_is_called_and_decodes() -> None:
    own = kvloupe.Tokenizer(MODEL)
    plain, tensors = own("The bell is 12."), own("The bell is 12.", return_tensors="pt")
    assert tensors["input_ids"].tolist() == [plain["input_ids"]] and isinstance(tensors["attention_mask"], torch.Tensor)
    assert own.decode(tensors["input_ids"][0], skip_special_tokens=True).strip() == "The bell is 12."
    line_of("takes one text", lambda: own(["a", "b"]))


def test_small_things_of_a_session(trace: Path, model: Any) -> None:
    with kvloupe.open(trace) as opened:  # has no texts
        assert opened.text[:2] == ["#0", "#1"] and len(opened.text) == 400
    with kvloupe.Cache("h2o", 20, model=model, block=16) as cache, torch.no_grad():
        assert "nothing has run" in repr(cache)
        model(torch.arange(3, 67)[None], past_key_values=cache)
        assert "64 tokens so far; a head holds 20 to 20" in repr(cache)
    assert "keydiff" in repr(kvloupe.Policy("keydiff", heads=2, key_dim=8, budget=5))
    assert kvloupe.replay(trace, "h2o", 9) == kvloupe.replay(trace, "h2o", 9) != kvloupe.replay(trace, "h2o", 8)
    done = subprocess.run([sys.executable, "-m", "kvloupe", "--version"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, f"kvloupe {kvloupe.__version__}\n")
