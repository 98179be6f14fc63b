"""The engine inside Python gives what the program gives: replays, followed tokens, sweeps, and policies step by step.

The program runs as a child process and speaks JSON and CSV; the engine fills arrays. Only the computation is shared.
"""
from __future__ import annotations

import gc
import json
import os
import re
import subprocess
import sys
import threading
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
from kvloupe import engine, program
from needs import need
from warm_python import Child

need("kvloupe", "engine")
MEASURES = ["retained", "retained_mass", "perturbation_l1", "log_pseudo_determinant"]
# A spec for each part of the catalogue whose name alone is none, or is none here.
SPECS = {"snapkv": "snapkv(window=4)", "expr": 'expr("-abs(age - 3)")', "recent": "keydiff+recent(30%)", "sinks": "h2o+sinks(2)",
         "keep": 'keydiff+keep("3-5", heads="1.1")', "drop": 'h2o+drop("7-9", heads="0")', "adakv": "snapkv(window=4)+adakv",
         "global": "h2o+global", "dms": "h2o+dms(0.01)", "pyramid": "snapkv(window=4)+pyramid", "cake": "cakescore+cake",
         "lava": "lavascore+lava", "zigzag": "h2o+zigzag", "caote": "h2o+caote", "fastcaote": "h2o+fastcaote",
         "chunks": "snapkv(window=4)+chunks(3)", "critical": "snapkv(window=4)+critical", "kvmerger": "h2o+kvmerger",
         "shared": "h2o+shared", "pages": "snapkv(window=4)+pages(4)", "cam": "h2o+cam", "tome": "keydiff+tome", "python": 'python("{folder}/own.py:smallest")',
         "every": "h2o+every(2)", "slack": "h2o+slack(2)", "only": "h2o+only", "boundaries": "keydiff+boundaries",
         "protect_prompt": "h2o+protect_prompt(extra=1)", "quant": "h2o+quant(group=8,residual=4)",
         "external": 'external("{folder}/sets.json")', "headbudgets": 'h2o+headbudgets("{folder}/budgets.json")'}
PROMPT = np.random.default_rng(5).integers(3, tiny.VOCABULARY, 44).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("engine")
    (made / "own.py").write_text("def smallest(step):\n    return [-sum(float(x) ** 2 for x in key) for key in step.keys]\n")
    return made


def capture(model: Any, path: Path, **settings: Any) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return kvloupe.capture(model, None, PROMPT, path, block=9, generate=4, **settings)


@pytest.fixture(scope="module")
def trace(folder: Path) -> Path:
    torch.manual_seed(3)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**(tiny.SHAPE | dict(num_hidden_layers=2)))).eval()
    path = capture(model, folder / "llama.h5")
    kept = np.random.default_rng(1)
    kvloupe.external(path, [[kept.choice(44, 12, replace=False) for _ in range(2)] for _ in range(2)], folder / "sets.json")
    return path


@pytest.fixture(scope="module")
def windowed(folder: Path) -> Path:
    """Windows of 16 in some layers, sink logits, a scaled rotation."""
    return capture(tiny.made("gpt-oss"), folder / "gpt-oss.h5")


def catalogue() -> list[dict[str, Any]]:
    return json.loads(program.run("policies", "--json"))["policies"]


def specs(folder: Path) -> dict[str, str]:
    return {one["name"]: SPECS.get(one["name"], one["name"]).replace("{folder}", str(folder)) for one in catalogue()}


def outcome(run: Any) -> Any:
    """What it gives, or its one line."""
    try:
        return run()
    except kvloupe.KvloupeError as error:
        return str(error)


def test_every_policy_replays_as_in_the_program(trace: Path, folder: Path) -> None:
    replayed, refused = 0, []
    for name, spec in specs(folder).items():
        other = outcome(lambda: program.replay(trace, spec, "30%", measures=MEASURES[1:]))
        mine = outcome(lambda: kvloupe.replay(trace, spec, "30%", measures=MEASURES[1:]))
        assert mine == other, name
        if isinstance(other, str):
            refused.append(f"{name}: {other}")
            continue
        replayed += 1
        assert isinstance(mine, kvloupe.Replay)
        for row, head in enumerate(other["heads"]):
            gone = mine.evicted_at[row]
            for step in head["steps"]:
                place = (head["layer"], head["head"], step["step"])
                assert mine.kept(*place).tolist() == step["retained"], (name, place)
                end = mine.ends[step["step"]]
                assert np.flatnonzero((gone[:end] < 0) | (gone[:end] > step["step"])).tolist() == step["retained"]
    assert replayed >= len(catalogue()) - 5, refused  # those that need a probe, texts, or a file


def test_a_measure_is_that_of_the_program_whether_it_was_measured_or_not(trace: Path) -> None:
    other = program.sweep(trace, "h2o+kvmerger", "30%", measures="all")
    bare = kvloupe.replay(trace, "h2o+kvmerger", "30%", measures="none")
    whole = kvloupe.replay(trace, "h2o+kvmerger", "30%", measures="all")
    for name in MEASURES + ["answer_residual_change", "induction"]:
        if name not in other:
            continue
        expected = np.asarray(other[name], float)
        assert np.array_equal(bare.measure(name), expected, equal_nan=True), name
        assert np.array_equal(whole.measure(name), expected, equal_nan=True), name
    steps = program.replay(trace, "h2o+kvmerger", "30%")["heads"][1]["steps"]
    own = bare.measure("retained_mass", per_step=True)
    assert own.shape == (4, len(steps))
    heads = [[head["retained_mass"] for head in step["metrics"]["query_heads"]] for step in steps]
    assert np.allclose(own[1], np.mean(heads, 1), rtol=1e-12)
    with pytest.raises(kvloupe.KvloupeError, match="retained_mas"):
        bare.measure("retained_mas")


@pytest.mark.parametrize("settings", [
    dict(block="all", steps="last"), dict(block=5, layers="1", measures="none"), dict(block=7, heads=1, layers=[0]),
    dict(compression="context-only"), dict(measures=["all"])], ids=str)
def test_options_are_those_of_the_program(windowed: Path, settings: dict[str, Any]) -> None:
    for policy in ("h2o+recent(20%)", "keydiff"):
        assert kvloupe.replay(windowed, policy, "30%", **settings) == program.replay(windowed, policy, "30%", **settings)


@pytest.mark.parametrize("settings", [
    dict(layers="9"), dict(layers="1-0"), dict(heads="7"), dict(block=0), dict(block="many"), dict(steps="some"),
    dict(measures="entropi"), dict(measures="none,retained"), dict(compression="none"), dict(unknown=1)], ids=str)
def test_mistakes_are_refused_as_by_the_program(trace: Path, settings: dict[str, Any]) -> None:
    assert isinstance(outcome(lambda: program.replay(trace, "h2o", "30%", **settings)), str)
    assert outcome(lambda: kvloupe.replay(trace, "h2o", "30%", **settings)) == outcome(
        lambda: program.replay(trace, "h2o", "30%", **settings))


@pytest.mark.parametrize("policy, budget", [("keydif", 5), ("h2o", 0), ("h2o", "200"), ("h2o", "x"), ("kvmerger", 9),
                                            ('keep("1-30")+h2o', 5), ("h2o+h2o", 5)])
def test_so_are_specs_and_budgets(trace: Path, policy: str, budget: Any) -> None:
    assert outcome(lambda: kvloupe.replay(trace, policy, budget)) == outcome(lambda: program.replay(trace, policy, budget))
    mine = outcome(lambda: kvloupe.sweep(trace, policy, budget))
    other = outcome(lambda: program.sweep(trace, policy, budget))
    assert mine == other if isinstance(other, str) else mine.equals(other)


def test_files_that_are_no_traces_are_refused_as_by_the_program(tmp_path: Path, trace: Path) -> None:
    (tmp_path / "text.h5").write_text("no trace")
    (tmp_path / "cut.h5").write_bytes(trace.read_bytes()[:-2000])
    for path in (tmp_path / "text.h5", tmp_path / "none.h5", tmp_path / "cut.h5", tmp_path):
        mine = outcome(lambda: kvloupe.replay(path, "h2o", 5))
        assert isinstance(mine, str) and mine == outcome(lambda: program.replay(path, "h2o", 5))


def test_a_trace_that_is_written_again_is_read_again(trace: Path, tmp_path: Path) -> None:
    path = tmp_path / "t.h5"
    path.write_bytes(trace.read_bytes())
    before = dict(kvloupe.replay(path, "keydiff", 9))
    with h5py.File(path, "a") as file:  # while the engine has it open
        file["layers/0/key"][...] = file["layers/0/key"][:][:, ::-1]
    os.utime(path, ns=(1, 1))
    after = kvloupe.replay(path, "keydiff", 9)
    assert after != before and after == program.replay(path, "keydiff", 9)


def test_followed_tokens_are_those_of_the_program(trace: Path, folder: Path) -> None:
    for settings in (dict(tokens="3-6,20"), dict(tokens=[4, 5]), dict(tokens="3", block="all"), dict(tokens="99"),
                     dict(segment="needle"), dict(), dict(tokens="3", segment="context")):
        mine, other = (outcome(lambda: one(trace, "h2o", "30%", **settings)) for one in (kvloupe.follow, program.follow))
        assert mine == other, settings


def test_a_sweep_is_the_programs_table(trace: Path, windowed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = pytest.importorskip("pandas")
    for path in (trace, windowed):
        for settings in (dict(), dict(measures="none"), dict(measures="all", blocks=[9, "all"]),
                         dict(compression="context-only", blocks="7")):
            words = (path, ["h2o+recent(20%)", "keydiff", "random(3)"], ["20%", 11])
            pandas.testing.assert_frame_equal(kvloupe.sweep(*words, **settings), program.sweep(*words, **settings))
    monkeypatch.setitem(sys.modules, "pandas", None)
    mine, other = kvloupe.sweep(trace, "h2o", 9), program.sweep(trace, "h2o", 9)
    assert list(mine) == list(other)
    for name, column in other.items():
        assert [type(cell) for cell in mine[name]] == [type(cell) for cell in column], name
        assert repr(mine[name]) == repr(column), name


def test_a_replay_is_a_dictionary(trace: Path) -> None:
    import copy
    import pickle

    other = program.replay(trace, "h2o", 9)
    for read in (dict, json.loads, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one)), lambda one: {**one},
                 lambda one: one | {}, lambda one: one.copy()):
        fresh = kvloupe.replay(trace, "h2o", 9)
        assert read(json.dumps(fresh) if read is json.loads else fresh) == other
    fresh = kvloupe.replay(trace, "h2o", 9)
    assert len(fresh) == len(other) and "heads" in kvloupe.replay(trace, "h2o", 9)
    assert fresh.get("nothing", 3) == 3 and sorted(fresh) == sorted(other)
    with pytest.raises(KeyError):
        fresh["nothing"]
    for read in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        assert np.array_equal(read(fresh).evicted_at, fresh.evicted_at)
    kept, old = pickle.dumps(fresh), trace.read_bytes()
    with h5py.File(trace, "r+") as file:
        file["layers/0/key"][:] = np.random.default_rng(1).standard_normal(file["layers/0/key"].shape)
    try:
        with pytest.raises(kvloupe.KvloupeError, match="has changed since this replay"):
            pickle.loads(kept)
    finally:
        trace.write_bytes(old)


def test_a_replay_shows_itself_in_a_line(trace: Path) -> None:
    shown = kvloupe.replay(trace, "h2o", 9)
    heads, _, tokens = (len(shown.layer_head), len(shown.ends), shown.evicted_at.shape[1])
    assert repr(shown) == (f"<kvloupe.Replay of {trace.name}: h2o, budget 9; {heads} heads, {len(shown.ends)} steps; 9 of {tokens} "
                           "tokens stay; .kept(layer, head), .measure(name)>")
    assert shown._repr_html_().count("<svg") == min(heads, 16)


def test_lists_may_be_arrays_and_ranges(trace: Path) -> None:
    wanted = kvloupe.sweep(trace, "h2o", [8, 9])
    for budgets in (np.array([8, 9]), range(8, 10), (8, 9)):
        assert kvloupe.sweep(trace, "h2o", budgets).equals(wanted)
        assert program.sweep(trace, "h2o", budgets).equals(wanted)


def test_rows_are_found_by_the_words_of_the_call(trace: Path) -> None:
    policies, budgets = ["snapkv(window=4)", "h2o", "keydiff"], [12, "20%"]
    for sweep in (kvloupe.sweep, program.sweep):
        rows = sweep(trace, policies, budgets)
        for policy in policies:
            assert set(rows[rows.policy_given == policy].policy) == {"snapkv(4)" if policy == policies[0] else policy}
        entries = [set(rows[rows.budget_given == budget].budget) for budget in budgets]
        assert entries[0] == {12} and len(entries[1]) == 1 and min(entries[1]) < 12
        rows = sweep(trace, ["h2o,snapkv(4,avg)", "h2o"], 9)
        assert set(rows.policy_given) == set(rows.policy) == {"h2o", "snapkv(4)"}


def test_a_function_is_run_by_this_python(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "own.py").write_text("import sys\nassert sys.prefix == %r, sys.prefix\ndef all(step):\n"
                                     "    return [0.0] * len(step.keys)\n" % sys.prefix)
    policy = f'python("{tmp_path}/own.py:all")'
    assert kvloupe.replay(trace, policy, 9)["heads"]
    monkeypatch.setenv("KVLOUPE_PYTHON3", str(tmp_path / "none"))
    with pytest.raises(kvloupe.KvloupeError, match=f"{tmp_path}/none cannot be started"):
        kvloupe.replay(trace, policy, 9)


def test_without_the_engine_the_program_does_it(trace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = dict(kvloupe.replay(trace, "h2o", 9))
    monkeypatch.setenv("KVLOUPE_ENGINE", "none")
    assert engine.library() is None
    other = kvloupe.replay(trace, "h2o", 9)
    assert not isinstance(other, kvloupe.Replay) and other == mine
    with pytest.raises(kvloupe.KvloupeError, match="KVLOUPE_ENGINE"):
        kvloupe.Policy("h2o", heads=1, key_dim=8, budget=4)
    (trace.parent / "other.so").write_text("no library")
    monkeypatch.setenv("KVLOUPE_ENGINE", str(trace.parent / "other.so"))
    with pytest.raises(kvloupe.KvloupeError, match="other.so: is no engine that can be loaded"):
        kvloupe.replay(trace, "h2o", 9)


def test_threads_may_replay_at_the_same_time(trace: Path) -> None:
    wanted = dict(kvloupe.replay(trace, "h2o", 9))
    found: list[Any] = []
    threads = [threading.Thread(target=lambda: found.append(dict(kvloupe.replay(trace, "h2o", 9)))) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert found == [wanted] * 4


def test_ctrl_c_stops_the_engine(trace: Path, tmp_path: Path) -> None:
    slow = tmp_path / "slow.py"
    slow.write_text("import time\ndef wait(step):\n    time.sleep(0.5)\n    return [0.0] * len(step)\n")
    code = (f"import kvloupe, sys\nprint('go', flush=True)\ntry:\n"
            f"    kvloupe.replay({str(trace)!r}, 'python(\"{slow}:wait\")', 9)\n"
            "except KeyboardInterrupt:\n    print('stopped', flush=True)\n")
    import signal
    import time

    child = Child(code)
    assert child.stdout.readline() == "go\n"
    time.sleep(1.0)
    begin = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "stopped\n" and child.returncode == 0 and time.monotonic() - begin < 5.0


# ---- a policy step by step ----

RUNS_IN_A_MODEL = ["full", "sink", "tova", "h2o", "snapkv(window=4)", "keydiff", "keynorm", "expected", "lagkv", "leverage",
                   "cur", "rkv", "vatp", "random(3)", "h2o+recent(30%)", "h2o+sinks(2)", 'keydiff+keep("3-5", heads="1.1")',
                   'h2o+drop("7-9", heads="0")', "snapkv(window=4)+adakv", "h2o+caote", "h2o+fastcaote",
                   "snapkv(window=4)+critical", "h2o+kvmerger", "h2o+cam", "keydiff+tome", "snapkv(window=4)+pyramid",
                   "valuerange", "vase(4,window=4)", "raas", "longflow", "centrality", "h2o+every(2)", "vase(4,window=4)+every(3)",
                   "raas+slack(3)", "keydiff+only(prompt)", "h2o+only+every(2)", "random+protect_prompt(1)", "h2o+quant(group=8,residual=4)"]


def policy_of(file: h5py.File, layer: int, spec: str, budget: int) -> kvloupe.Policy:
    model, group = dict(file["model"].attrs), file[f"layers/{layer}"]
    own = dict(group.attrs)
    scaling = json.loads(own.get("rope_scaling", model.get("rope_scaling", "null")))
    weight = group["output_weight"][:]
    return kvloupe.Policy(
        spec, heads=len(group["key"]), query_heads=len(group["query"]), key_dim=group["key"].shape[2],
        value_dim=group["value"].shape[2], budget=budget, layer=layer, layers=int(model["num_layers"]),
        window=int(own.get("sliding_window", model["sliding_window"])), scale=float(file["run"].attrs["attention_scale"]),
        sink_logits=group["sink_logits"][:] if "sink_logits" in group else None, rope_theta=float(model["rope_theta"]),
        rope_scaling=scaling, output_weight=weight, prompt_length=int(file["run"].attrs["prompt_length"]))


@pytest.mark.parametrize("which", ["llama.h5", "gpt-oss.h5"])
def test_a_policy_that_is_given_a_traces_states_decides_as_its_replay(trace: Path, windowed: Path, which: str) -> None:
    path = trace if which == "llama.h5" else windowed
    merged = 0
    for spec in RUNS_IN_A_MODEL:
        other = outcome(lambda: program.replay(path, spec, 12, measures="none"))
        with h5py.File(path) as file:
            blocks = file["run/blocks"][:]
            for layer in range(int(file["model"].attrs["num_layers"])):
                query, key, value = (file[f"layers/{layer}/{name}"][:] for name in ("query", "key", "value"))
                assert key.dtype == np.float16
                policy = outcome(lambda: policy_of(file, layer, spec, 12))
                if isinstance(other, str):  # rkv and sink logits
                    assert spec == "rkv" and policy == other
                    continue
                heads = [one for one in other["heads"] if one["layer"] == layer]
                held: list[list[int]] = [[] for _ in heads]  # a cache that does what the policy says
                for step, (first, end) in enumerate(blocks):
                    part = slice(first, end)
                    kept = policy.step(key[:, part], value[:, part] if "values" in policy.reads else None,
                                       query[:, part] if "queries" in policy.reads else None, last=np.bool_(step + 1 == len(blocks)))
                    for head, one in enumerate(kept):
                        held[head] += range(first, end)
                        assert one.entries == len(held[head])
                        tokens = [held[head][row] for row in one.rows]
                        expected = heads[head]["steps"][step]
                        assert tokens == one.tokens.tolist() == expected["retained"], (spec, layer, head, step)
                        into = sorted(held[head][merge.into] for merge in one.merges)
                        assert into == sorted(merge["into"] for merge in expected["merged"]), (spec, layer, head, step)
                        merged += len(into)
                        held[head] = tokens
                assert policy.tokens == len(PROMPT) + 4
    assert merged > 20


def random_states(*shape: int) -> np.ndarray:
    return np.random.default_rng(8).standard_normal(shape).astype(np.float32)


def sets_of(kept: list[kvloupe.Kept]) -> list[list[int]]:
    return [one.tokens.tolist() for one in kept]


def test_states_are_read_where_they_lie_in_every_type() -> None:
    whole = random_states(2, 30, 8).astype(np.float16).astype(np.float32)
    wide = torch.from_numpy(whole).to(torch.bfloat16)
    strided = np.zeros((30, 2, 12), np.float32)
    strided[:, :, :8] = whole.transpose(1, 0, 2)
    apart = torch.zeros(1, 2, 40, 8)
    apart[0, :, 5:35] = torch.from_numpy(whole)

    class OnlyDlpack:
        def __init__(self, array: np.ndarray) -> None:
            self._array = array

        def __dlpack__(self, **named: Any) -> Any:
            return self._array.__dlpack__(**named)

        def __dlpack_device__(self) -> Any:
            return self._array.__dlpack_device__()

    step = lambda keys: sets_of(kvloupe.Policy("keydiff", heads=2, key_dim=8, budget=9).step(keys))
    wanted = step(whole)
    for same in (whole.astype(np.float16), torch.from_numpy(whole), torch.from_numpy(whole).half(), apart[:, :, 5:35],
                 strided[:, :, :8].transpose(1, 0, 2), np.asfortranarray(whole), whole[:, ::-1][:, ::-1],
                 torch.from_numpy(whole).transpose(1, 2).contiguous().transpose(1, 2), OnlyDlpack(whole)):
        assert step(same) == wanted, type(same)
    assert step(wide) == step(wide.float())
    assert step(torch.from_numpy(whole).requires_grad_()) == wanted


def test_without_copies_a_view_gives_its_own_memory() -> None:
    from kvloupe.policy import states_of

    for array in (random_states(2, 30, 8), random_states(2, 30, 8).astype(np.float16)):
        states, held = states_of(array[:, 3:9], "keys")
        assert states.data == array.ctypes.data + 3 * 8 * array.itemsize
        assert (states.heads, states.rows, states.columns, states.head_stride, states.row_stride) == (2, 6, 8, 240, 8)
    tensor = torch.randn(1, 2, 30, 8, dtype=torch.bfloat16)
    assert states_of(tensor[:, :, 3:9], "keys")[0].data == tensor.data_ptr() + 3 * 8 * 2


@pytest.mark.parametrize("change, said", [
    (dict(budget=0), "budget is 0; give 1 to"), (dict(heads=0), "heads is 0"), (dict(query_heads=3), "3 query heads for 2 heads"),
    (dict(key_dim=-1), "key_dim"), (dict(layer=4), "layer is 4; give 0 to 0"), (dict(scale=float("nan")), "attention_scale"),
    (dict(rope_theta=-1.0), "rope_theta"), (dict(rotary_dim=9), "rotary_dim is 9; give 0 to 8"), (dict(heads=2.5), "heads: 2.5"),
    (dict(heads=1 << 40), "heads: 1099511627776"), (dict(positions="some"), "positions"), (dict(sink_logits=[1.0]), "sink_logits"),
    (dict(spec="keydif"), "keydif"), (dict(spec="oracle"), "needs the following queries"),
    (dict(spec="kvzip"), "reads the context a second time"), (dict(spec="h2o+critical"), "give output_weights"),
    (dict(spec="h2o+critical", output_weight=np.zeros((2, 7, 16), np.float32)), "give \\[2, 8, 16\\]"),
    (dict(spec="h2o+critical", output_weight=np.zeros((2, 8), np.float32)), "give \\[heads, tokens, channels\\]"),
    (dict(spec='keydiff+keep("1-9")', budget=3), "keep"), (dict(spec="h2o+every(4)"), "give prompt_length"),
    (dict(spec="h2o+protect_prompt", prompt_length=9), "the prompt of 9 tokens leaves no place in the budget of 5 entries"),
    (dict(spec="h2o+boundaries"), "texts of the tokens, which are not known here")], ids=str)
def test_a_policy_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    settings = dict(spec="keydiff", heads=2, key_dim=8, budget=5) | change
    with pytest.raises(kvloupe.KvloupeError, match=said):
        kvloupe.Policy(settings.pop("spec"), **settings)


def test_states_that_cannot_be_are_refused() -> None:
    def step(*given: Any, spec: str = "h2o", **named: Any) -> Any:
        return kvloupe.Policy(spec, heads=2, query_heads=4, key_dim=8, budget=5).step(*given, **named)
    k, q = random_states(2, 9, 8), random_states(4, 9, 8)
    assert len(step(k, queries=q)) == 2
    bad = k.copy()
    bad[1, 4, 2] = np.nan
    for run, said in ((lambda: step(k), "queries: h2o reads them"), (lambda: step(k[:1], queries=q), r"shape \[1, 9, 8\]"),
                      (lambda: step(k, queries=q[:, :5]), "queries: has the shape"),
                      (lambda: step(k[:, :0], queries=q[:, :0]), "a block has at least one"),
                      (lambda: step(k[..., :7], queries=q), r"\[2, 9, 7\]; give \[2, 9, 8\]"),
                      (lambda: step(k.astype(np.float64), queries=q), "type float64; give float32"),
                      (lambda: step(k.astype(">f4"), queries=q), "other byte order"),
                      (lambda: step(bad, queries=q), "keys of head 1, row 4: has a number that is not finite"),
                      (lambda: step("keys", queries=q), "keys"), (lambda: step(k[0], queries=q), "give \\[heads")):
        with pytest.raises(kvloupe.KvloupeError, match=said):
            run()
    policy = kvloupe.Policy("keydiff", heads=2, key_dim=8, budget=5)
    policy.step(k, acts=False)
    with pytest.raises(kvloupe.KvloupeError, match="did not act at an earlier step"):
        policy.step(k)
    policy.step(k, acts=False, last=True)
    with pytest.raises(kvloupe.KvloupeError, match="the last step has been"):
        policy.step(k, acts=False)


def test_an_exception_in_a_python_score_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text("def score(step):\n    return 1 / 0\n")
    policy = kvloupe.Policy(f'python("{tmp_path}/wrong.py:score")', heads=2, key_dim=8, budget=5)
    with pytest.raises(kvloupe.KvloupeError, match="layer 0, head [01], step 0: .*division by zero.*line 2") as caught:
        policy.step(*[random_states(2, 9, 8)] * 3)
    assert "\n" not in str(caught.value)
    with pytest.raises(kvloupe.KvloupeError, match="an earlier step failed"):
        policy.step(*[random_states(2, 9, 8)] * 3)


def test_a_program_in_c_decides_as_python(tmp_path: Path) -> None:
    import shutil

    compiler = shutil.which("cc")
    source = Path(kvloupe.__file__).parents[2] / "tests/examples/engine/keep.c"
    header = Path(kvloupe.__file__).parents[2] / "analysis/engine/kvloupe_engine.h"
    if compiler is None or not source.is_file():
        pytest.skip("no C compiler, or not in the repository")
    (tmp_path / "kvloupe").mkdir()
    (tmp_path / "kvloupe" / header.name).write_text(header.read_text())
    library = Path(engine.needed()._name)
    subprocess.run([compiler, "-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", source, "-I", tmp_path, library,
                    f"-Wl,-rpath,{library.parent}", "-o", tmp_path / "keep"], check=True)
    run = lambda *words: subprocess.run([tmp_path / "keep", *words], capture_output=True, text=True, check=False)
    lines = run("keydiff+recent(25%)", "8").stdout.splitlines()
    import ctypes

    random = ctypes.CDLL(None)  # the same numbers
    random.srand(1)
    policy = kvloupe.Policy("keydiff+recent(25%)", heads=2, key_dim=16, budget=8, scale=0.25)
    for step in range(3):
        numbers = [np.float32(random.rand()) / np.float32(0x7FFFFFFF) - np.float32(0.5) for _ in range(2 * 12 * 16)]
        kept = policy.step(np.array(numbers, np.float32).reshape(2, 12, 16))
        for head, one in enumerate(kept):
            assert lines[2 * step + head] == f"step {step}, head {head}: " + " ".join(map(str, one.tokens))
    failed = run("keydif", "8")
    assert failed.returncode == 1 and "keydif" in failed.stderr and not failed.stdout


def test_each_function_of_the_header_has_its_types() -> None:
    library = engine.needed()
    text = library.kvloupe_engine_declarations().decode()
    names = re.findall(r"KVLOUPE_ENGINE_EXPORT [^;(]*?(kvloupe_engine_\w+)\(", text)
    assert len(names) > 30 and all(getattr(library, name).argtypes is not None for name in names)
    assert {"states", "layer", "block", "retained"} <= {name.removeprefix("kvloupe_engine_") for name in library.structs}


def test_the_objects_of_the_engine_go_with_those_of_python(trace: Path) -> None:
    destroyed: list[str] = []
    own = engine.Handle.close

    class Watched:
        def __enter__(self) -> None:
            engine.Handle.close = lambda handle: (destroyed.append(handle._destroy.__name__), own(handle))[1]  # type: ignore

        def __exit__(self, *_: Any) -> None:
            engine.Handle.close = own  # type: ignore[method-assign]
    with Watched():
        policy = kvloupe.Policy("keydiff", heads=2, key_dim=8, budget=5)
        replay = kvloupe.replay(trace, "h2o", 9)
        kvloupe.sweep(trace, "h2o", 9)
        del policy, replay
        gc.collect()
    for name in ("policy_destroy", "replay_destroy", "sweep_destroy"):
        assert f"kvloupe_engine_{name}" in destroyed
