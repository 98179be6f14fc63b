"""Prompts, pieces and segments; the reader's refusals; the program's figures and replays."""
from __future__ import annotations

import copy
import json
import os
import pickle
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

import kvloupe
from kvloupe import program
from kvloupe.prompt import encoded, pieces_of
from needs import need
from tiny_models import llama as model

need("kvloupe")
PACKAGE = Path(kvloupe.__file__).parent
ROOT = PACKAGE.parents[1]
TEXT = "The owl of Ida was grey — naïve, 37 µm. 猫が鳴く。 The code for kettle is: 47. Then Ida slept.\n"


def tokenizer(folder: Path):
    """A byte-level BPE with BOS, as Llama 3 and Qwen have one."""
    from tokenizers import ByteLevelBPETokenizer
    from tokenizers.processors import TemplateProcessing

    made = ByteLevelBPETokenizer()
    made.train_from_iterator([TEXT] * 4, vocab_size=300, special_tokens=["<s>", "</s>"], show_progress=False)
    made._tokenizer.post_processor = TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    made.save(str(folder / "tokenizer.json"))
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), bos_token="<s>",
                                                eos_token="</s>")


@pytest.fixture(scope="module")
def trace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("trace")
    prompt = folder / "prompt.txt"
    prompt.write_text("@@context\n" + TEXT + "@@needle\n The code for kettle is: 47.\n@@question\n What is it?\n")
    return kvloupe.capture(model(), tokenizer(folder), kvloupe.read_prompt(prompt), folder / "t.h5", block=16,
                           generate=3)


def test_pieces_are_the_text_and_segments_their_parts(trace: Path) -> None:
    with kvloupe.open(trace) as t:
        assert t.text[0] == "<s>"
        prompt = "".join(t.text[1:int(t.run["prompt_length"])]).replace("\\n", "\n")
        # Pieces that cut a character in two are written as bytes: join them again.
        joined = re.sub(r"(?:\\x[0-9A-F]{2})+", lambda m: bytes.fromhex(m[0].replace("\\x", "")).decode(), prompt)
        assert joined == TEXT + " The code for kettle is: 47.\n What is it?"
        first, end = t.segments["needle"]
        assert "".join(t.text[first:end]).replace("\\n", "\n").strip() == "The code for kettle is: 47."
        assert t.segments["special"][0] == 0
        assert t.segments["answer"] == (int(t.run["prompt_length"]), len(t))
        assert len(t) == t.run["prompt_length"] + t.run["generated"]


def test_a_text_that_begins_with_the_start_tokens_gets_no_others(tmp_path: Path) -> None:
    from tokenizers.processors import TemplateProcessing

    words, parts = tokenizer(tmp_path), [("context", TEXT), ("question", "What?")]
    for start in ("<s>", "</s><s>"):
        words.backend_tokenizer.post_processor = TemplateProcessing(
            single=" ".join([*re.findall("<.*?>", start), "$A"]), special_tokens=[("<s>", 0), ("</s>", 1)])
        wanted = encoded(words, parts)
        assert wanted[0][:2].count(0) == 1 and len(wanted[0]) == len(wanted[1])
        assert encoded(words, [("context", start + TEXT), parts[1]]) == wanted


def test_a_probe_asks_in_words_and_ends_before_the_question(tmp_path: Path) -> None:
    own, words = model(), tokenizer(tmp_path)
    prompt = [("context", TEXT), ("question", " What is it?")]
    path = kvloupe.capture(own, words, prompt, tmp_path / "t.h5", block=16, generate=2, probe="repeat")
    with kvloupe.open(path) as t:
        probe = t.probe
        question = t.segments["question"][0]
        assert probe["kind"] == "repeat" and probe["context_end"] == question
        request = words.encode("\n\nRepeat the previous context exactly.", add_special_tokens=False)
        request += words.encode("\n", add_special_tokens=False)
        assert probe["ids"].tolist() == request + t.ids[:question].tolist()
        assert probe["passes"].tolist() == [[0, len(probe["ids"]), 0, question]]
        assert t.probe_query(1, 3).shape == t.probe_key(1, 1).shape == (len(probe["ids"]), 8)
        keys = t.probe_key(0, 0)
    plain = kvloupe.capture(own, words, prompt, tmp_path / "plain.h5", block=16, generate=2)
    with kvloupe.open(plain) as t, kvloupe.open(path) as other:
        assert t.probe is None
        assert np.array_equal(t.query(1, 2), other.query(1, 2))  # the probe leaves the run alone
    # The model that reads the context and then the probe's tokens has these keys.
    with kvloupe.open(path) as t:
        joined = t.ids[:question].tolist() + probe["ids"].tolist()
    whole = kvloupe.capture(own, None, joined, tmp_path / "whole.h5", block=len(joined))
    with kvloupe.open(whole) as t:
        assert np.allclose(t.key(0, 0)[question:], keys, atol=2e-3)
    with pytest.raises(kvloupe.KvloupeError, match="needs a tokenizer"):
        kvloupe.capture(own, None, [5, 6, 7], tmp_path / "no.h5", probe="repeat")
    with pytest.raises(kvloupe.KvloupeError, match="repeat .* or reread"):
        kvloupe.capture(own, words, prompt, tmp_path / "no.h5", probe="twice")
    assert not (tmp_path / "no.h5").exists()


def test_a_long_context_is_repeated_in_parts() -> None:
    from kvloupe.full_run import make_probe

    class Letters:
        def encode(self, text: str, add_special_tokens: bool) -> list[int]:
            assert not add_special_tokens
            return [ord(letter) for letter in text]

    context = [number % 200 for number in range(5000)]
    ids, passes = make_probe("repeat", context, Letters())
    assert [one[2:] for one in passes] == [(0, 2048), (2048, 4096), (4096, 5000)]
    for begin, end, first, last in passes:
        start = "\n\nRepeat the part of the previous context exactly, starting with" if first else \
            "\n\nRepeat the previous context exactly."
        wanted = [*map(ord, start), *context[max(first - 8, 0):first], ord("\n"), *context[first:last]]
        assert ids[begin:end] == wanted


def test_rows_of_attention_sum_to_one(trace: Path) -> None:
    with kvloupe.open(trace) as t:
        rows = t.attention(1, 3)
        assert rows.shape == (len(t), len(t))
        assert np.allclose(rows.sum(-1), 1.0, atol=1e-5)
        assert np.triu(rows, 1).max() == 0.0
        with pytest.raises(kvloupe.KvloupeError, match="heads 0 to 1, not 2"):
            t.key(0, 2)
        with pytest.raises(kvloupe.KvloupeError, match="has no layers/2"):
            t.key(2, 0)


def test_a_trace_says_what_it_is_and_that_it_is_closed(trace: Path) -> None:
    with kvloupe.open(trace) as t:
        assert repr(t).startswith(f"<kvloupe.Trace {trace.name}: ") and f"{len(t)} tokens (" in repr(t)
        json.dumps([t.model, t.run])
        wanted = t.key(0, 0)
        for copied in (copy.copy(t), pickle.loads(pickle.dumps(t))):
            assert np.array_equal(copied.key(0, 0), wanted)
        with pytest.raises(kvloupe.KvloupeError, match=f"has tokens 0 to {len(t) - 1}, not 999"):
            t.attention(0, 0, [0, 999])
    assert "closed" in repr(t)
    for read in (lambda: t.ids, lambda: t.key(0, 0), lambda: t.text, lambda: len(t)):
        with pytest.raises(kvloupe.KvloupeError, match="is closed; open it again"):
            read()


def test_tools_see_the_public_names(tmp_path: Path) -> None:
    """Tab completion, help(), and a type checker that reads what docs/python.md shows."""
    import pydoc

    public = {name for name in dir(kvloupe) if not name.startswith("_")}
    assert public == set(kvloupe.__all__) and {"Cache", "Press", "evaluate", "run"} <= public
    assert kvloupe.__version__ == program.run("--version").split()[1]
    said = pydoc.plain(pydoc.render_doc(kvloupe))
    assert "class Cache(" in said and " evaluate(" in said and " run(" in said
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) > 8
    given = "from typing import Any\nimport numpy as np\nimport kvloupe\n"
    names = ("model", "tokenizer", "blocks", "context", "text", "question", "inputs", "policy", "kvpress")
    for at, block in enumerate(blocks):
        own = {name for name in names if not re.search(rf"^(import )?{name}( = |$)", block, re.MULTILINE)}
        (tmp_path / f"block_{at}.py").write_text(given + "".join(f"{name}: Any = None\n" for name in sorted(own)) + block)
    (tmp_path / "use.py").write_text(given + """cache = kvloupe.Cache("h2o", 512, model=Any)
reveal_type(cache.evicted_at(0))
reveal_type(kvloupe.replay("t.h5", "h2o", "25%").measure("retained_mass"))
with kvloupe.open("t.h5") as trace:
    reveal_type(trace.attention(0, 0))
kvloupe.replay("t.h5", lambda step: step.keys.sum(1), "25%").nothing
""")
    (tmp_path / "mypy.ini").write_text("[mypy]\nignore_missing_imports = True\n" + "".join(  # large packages, not looked into
        f"[mypy-{name}.*]\nfollow_imports = skip\n" for name in ("torch", "transformers", "kvpress")))
    (tmp_path / "pyrightconfig.json").write_text(json.dumps({"typeCheckingMode": "standard", "extraPaths": [str(PACKAGE.parent)],
                                                             "include": ["*.py"], "reportMissingImports": False}))
    for checker, wrong in (("mypy", r'use.py:9: error: "Replay" has no attribute "nothing"'),
                           ("basedpyright", r'use.py:9:\d+ - error: Cannot access attribute "nothing" for class "Replay"')):
        checked = [".", "--cache-dir", str(tmp_path / "cache")] if checker == "mypy" else ["-p", ".", "--pythonpath", sys.executable]
        done = subprocess.run([sys.executable, "-m", checker, *checked], cwd=tmp_path, env=os.environ | {"MYPYPATH": str(PACKAGE.parent)},
                              capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if re.match(r"\s*(\S*/)?(use|block_\d+)\.py:", line)]
        errors = [line for line in lines if "error:" in line]
        assert len(errors) == 1 and re.search(wrong, errors[0]), done.stdout + done.stderr
        assert sum("ndarray" in line.lower() for line in lines) == 3, done.stdout


def test_public_names_say_what_they_take_and_give() -> None:
    """Each public function, class and method has a docstring."""
    for name in kvloupe.__all__:
        public = getattr(kvloupe, name)
        methods = vars(public) if isinstance(public, type) and not issubclass(public, Exception) else {}
        bare = [method for method, of in methods.items() if (callable(of) or isinstance(of, property)) and not method.startswith("_") and not of.__doc__
                and not any(getattr(getattr(base, method, None), "__doc__", None) for base in public.__mro__[1:])]
        assert (public.__doc__ or name == "share") and not bare, (name, bare)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no trace")
    with pytest.raises(kvloupe.KvloupeError, match="none.h5: is not there"):
        kvloupe.open(tmp_path / "none.h5")
    with pytest.raises(kvloupe.KvloupeError, match="is not a trace that can be read"):
        kvloupe.open(tmp_path / "text.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["format"] = "other"
    with pytest.raises(kvloupe.KvloupeError, match="is not a trace of kvloupe"):
        kvloupe.open(tmp_path / "other.h5")


def test_programs_inside_the_package_come_before_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("KVLOUPE", "KVLOUPE_CAPTURE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(program, "__file__", str(tmp_path / "kvloupe" / "program.py"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(kvloupe.KvloupeError, match="kvloupe was not found; install the wheel"):
        program.find()
    for place in (tmp_path, tmp_path / "kvloupe" / "bin"):
        place.mkdir(parents=True, exist_ok=True)
        found = place / ("kvloupe-capture" if place == tmp_path else "kvloupe")
        found.write_text("#!/bin/sh\necho \"$@\"\n")
        found.chmod(0o755)
    assert program.find() == str(tmp_path / "kvloupe" / "bin" / "kvloupe")
    assert program.find("kvloupe-capture") == str(tmp_path / "kvloupe-capture")  # in $PATH: the package has none
    window = kvloupe.demo(screenshot="demo.png", size="1200x800")
    assert window.args[1:] == ["demo", "--screenshot", "demo.png", "--size", "1200x800"]
    assert window.wait() == 0


def test_a_window_that_does_not_open_says_why(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
                                              capfd: pytest.CaptureFixture[str]) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    for open_window in (lambda: kvloupe.view(trace), lambda: kvloupe.view(trace, size="no size")):
        with pytest.raises(kvloupe.KvloupeError, match="^the window did not open: .*kvloupe.figure"):
            open_window()
    (tmp_path / "late").write_text("#!/bin/sh\nsleep 1\necho 'kvloupe: the screen is gone' >&2\nexit 1\n")
    (tmp_path / "late").chmod(0o755)
    monkeypatch.setenv("KVLOUPE", str(tmp_path / "late"))
    monkeypatch.setenv("DISPLAY", ":none")
    window, last = kvloupe.view(trace), time.monotonic() + 30
    said = ""
    while "the screen is gone" not in said and time.monotonic() < last:
        said += capfd.readouterr().err
        time.sleep(0.05)
    assert window.wait() == 1 and "kvloupe: the screen is gone" in said


def test_the_program_reads_what_was_written(trace: Path, tmp_path: Path) -> None:
    assert "written by      kvloupe (Python)" in program.run("info", trace)
    replay = kvloupe.replay(trace, "keydiff", "50%", block=16)
    assert replay["policy"] == "keydiff"
    svg = kvloupe.figure(trace, "filmstrip", policy="keydiff", budget="50%", layer=1)._repr_svg_()
    assert svg.startswith("<") and "</svg>" in svg
    kvloupe.figure(trace, "overview", policy="h2o", budget="50%", set={"measure": "sinks"}).save(tmp_path / "x.pdf")
    assert (tmp_path / "x.pdf").read_bytes().startswith(b"%PDF")
    heads = kvloupe.follow(trace, "h2o", "50%", segment="needle")["heads"]
    assert len(heads) == 4
    with pytest.raises(kvloupe.KvloupeError, match="keydif"):
        kvloupe.replay(trace, "keydif", "50%")


def test_a_page_holds_the_sets_of_replays(trace: Path, tmp_path: Path) -> None:
    import base64
    import zlib

    with pytest.warns(kvloupe.KvloupeWarning, match="at 2 is left out"):
        path = kvloupe.page(trace, tmp_path / "page.html", policies=["keydiff", 'h2o+keep("0-3")'], budgets=[2, "50%"], layers=[0])
    html = path.read_text(encoding="utf-8")
    about = json.loads(re.search('id="about">(.*?)</script>', html)[1])
    codes = np.frombuffer(zlib.decompress(base64.b64decode(re.search('id="data-kept-0">(.*?)</script>', html)[1])), np.uint8)
    codes = codes.reshape(len(about["heads"]), len(about["tokens"]), 2)
    assert about["entries"][1][0] == 0 and {layer for layer, _ in about["heads"]} == {0}
    for at, head in enumerate(program.replay(trace, "keydiff", "50%", layers=0)["heads"]):
        for step, (_, end) in enumerate(about["steps"]):
            assert list(np.flatnonzero(codes[at, :end, 1] > step)) == head["steps"][step]["retained"]
    with pytest.raises(kvloupe.KvloupeError, match="keydiff"):
        kvloupe.page(trace, tmp_path / "none.html", "keydif")
    assert not (tmp_path / "none.html").exists()


def test_a_sweep_is_a_table(trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    own = builtins.__import__

    def without_pandas(name: str, *rest: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return own(name, *rest, **named)
    csv = tmp_path / "sweep.csv"
    monkeypatch.setattr(builtins, "__import__", without_pandas)
    table = kvloupe.sweep(trace, ["h2o", "snapkv(window=4)+recent(10%)"], [12, "50%"], blocks=[16, "all"], output=csv)
    monkeypatch.undo()
    assert isinstance(table, dict) and csv.is_file()
    assert {len(column) for column in table.values()} == {2 * 2 * 2 * 2 * 2}  # the last two: layers and heads
    assert set(table["layer"]) == {0, 1} and set(table["policy"]) == {"h2o", "snapkv(4)+recent"}
    at = next(row for row in range(32) if (table["policy"][row], table["budget"][row], table["block"][row]) == ("h2o", 12, 16))
    replay = kvloupe.replay(trace, "h2o", 12, block=16)
    kept = [len(step["retained"]) for step in replay["heads"][0]["steps"]]
    assert table["retained"][at] == kept[-1] == 12
    assert all(isinstance(value, float) for value in table["perturbation_l1"])
    # Rows that the file has are not computed again, and those of another policy are added.
    again = kvloupe.sweep(trace, "keydiff", 12, blocks=16, output=csv)
    assert len(again["layer"]) == 32 + 4
    with pytest.raises(kvloupe.KvloupeError, match="keydif"):
        kvloupe.sweep(trace, "keydif", 12)


def test_a_sweep_is_a_data_frame_where_pandas_is(trace: Path) -> None:
    pandas = pytest.importorskip("pandas")
    table = kvloupe.sweep(trace, "h2o", ["25%", "50%"])
    assert isinstance(table, pandas.DataFrame)
    assert table.groupby("budget").size().tolist() == [4, 4]


def test_progress_is_called_and_a_line_only_on_a_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    calls: list[tuple[str, int, int]] = []
    kvloupe.capture(model(), None, list(range(3, 40)), tmp_path / "t.h5", block=10, generate=2,
                    progress=lambda *now: calls.append(now))
    assert [call for call in calls if call[0] == "prompt"] == [("prompt", first, 37) for first in (0, 10, 20, 30)]
    assert [call[0] for call in calls if call[0] != "prompt"] == ["answer", "answer", "writing", "writing"]
    kvloupe.capture(model(), None, [5, 6, 7], tmp_path / "t.h5")
    assert "[" not in capfd.readouterr().err.replace("[transformers]", "")
    if hasattr(os, "openpty"):
        parent, child = os.openpty()
        code = "import sys\nsys.modules['tqdm.auto'] = None\nfrom kvloupe.progress import reporter\nsay, clear = reporter(True)\nsay('prompt', 64, 128)\nclear()"
        done = subprocess.run([sys.executable, "-c", code], stderr=child, check=True,
                              env=os.environ | {"PYTHONPATH": str(Path(kvloupe.__file__).parents[1])})
        os.close(child)
        shown = os.read(parent, 1000).decode()
        os.close(parent)
        assert done.returncode == 0
        assert "prompt [############............] 64/128" in shown
        assert shown.endswith("\r" + " " * 78 + "\r")


def test_the_folders_tokenizer_is_that_of_kvloupe_capture(tmp_path: Path) -> None:
    need("kvloupe-capture")
    own = tokenizer(tmp_path)
    own.save_pretrained(tmp_path)
    read = kvloupe.Tokenizer(tmp_path)
    assert read.encode([("context", TEXT), ("question", "What?")]) == encoded(own, [("context", TEXT), ("question", "What?")])
    assert read.pieces(320) == pieces_of(own, 320)
    within_a_line = [("context", "a key "), ("needle", "is 47"), ("context", ", b\n"), ("question", "c")]
    assert read.encode_all([within_a_line, [("context", TEXT)]]) == [encoded(own, within_a_line), encoded(own, [("context", TEXT)])]
    with pytest.raises(kvloupe.KvloupeError):
        kvloupe.Tokenizer(tmp_path / "nothing")


def test_sets_without_a_trace_have_one_step(tmp_path: Path) -> None:
    from kvloupe.external import write_steps

    written = json.loads(write_steps(tmp_path / "x.json", "", [[[(0, [1, 5])], [(0, [2])]]]).read_text())
    assert written["heads"] == [{"layer": 0, "head": 0, "steps": [{"step": 0, "retained": [1, 5]}]},
                                {"layer": 0, "head": 1, "steps": [{"step": 0, "retained": [2]}]}]
    with pytest.raises(kvloupe.KvloupeError, match="cannot be written"):
        write_steps(tmp_path / "none" / "x.json", "", [])
    assert [one.name for one in tmp_path.iterdir()] == ["x.json"]


def test_sets_of_another_program_are_what_the_replay_keeps(trace: Path, tmp_path: Path) -> None:
    with kvloupe.open(trace) as t:
        blocks, prompt = t.blocks, int(t.run["prompt_length"])
    random = np.random.default_rng(2)
    kept = [[random.choice(prompt, 12, replace=False) for _ in range(2)] for _ in range(2)]
    file = kvloupe.external(trace, kept, tmp_path / "sets.json")
    replay = kvloupe.replay(trace, f'external("{file}")', "100%")
    last = next(at for at, (_, end) in enumerate(blocks) if end == prompt)
    for one in replay["heads"]:
        own = sorted(kept[one["layer"]][one["head"]].tolist())
        for step in one["steps"]:
            end = blocks[step["step"]][1]
            expected = list(range(end)) if step["step"] < last else own + list(range(prompt, end))
            assert step["retained"] == expected
    with pytest.raises(kvloupe.KvloupeError, match="2 layers of 2 key-value heads"):
        kvloupe.external(trace, kept[:1], tmp_path / "x.json")
    with pytest.raises(kvloupe.KvloupeError, match="is not in the cache after step"):
        kvloupe.external(trace, [[[prompt], [1]], [[1], [1]]], tmp_path / "x.json")
    with pytest.raises(kvloupe.KvloupeError, match="layer 0, head 1 has no token"):
        kvloupe.external(trace, [[[1], []], [[1], [1]]], tmp_path / "x.json")
    assert not (tmp_path / "x.json").exists()


def test_sets_of_a_model_with_a_window(tmp_path: Path) -> None:
    torch.manual_seed(1)
    own = transformers.MistralForCausalLM(transformers.MistralConfig(
        vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, sliding_window=16, initializer_range=0.3)).eval()
    path = kvloupe.capture(own, None, list(range(5, 45)), tmp_path / "t.h5", block=8, generate=4)
    kept = [[[26, 29, 33, 39]] * 2] * 2
    sets = kvloupe.external(path, kept, tmp_path / "sets.json")
    with kvloupe.open(path) as t:
        ends = [end for _, end in t.blocks]
    for head in kvloupe.replay(path, f'external("{sets}")', "100%", block=8)["heads"]:
        for end, step in zip(ends, head["steps"]):
            whole = range(end) if end < 40 else [26, 29, 33, *range(39, end)]
            assert step["retained"] == [token for token in whole if token > end - 16], end


def test_the_command_line_captures(tmp_path: Path) -> None:
    folder = tmp_path / "model"

    def run(*more: str) -> Any:
        return subprocess.run([sys.executable, "-m", "kvloupe", "capture", "--model", folder, "-o", tmp_path / "t.h5", *more],
                              env=os.environ | {"PYTHONPATH": str(Path(kvloupe.__file__).parents[1])}, capture_output=True, text=True)

    def save() -> None:
        model().save_pretrained(folder)
        tokenizer(folder).save_pretrained(folder)
    save()
    done = run("--text", TEXT, "--block", "all", "--generate", "2")
    assert done.returncode == 0, done.stderr
    with kvloupe.open(tmp_path / "t.h5") as t:
        assert t.run["block_size"] == t.run["prompt_length"] > 8
    assert run("--text", TEXT, "--block", "some").returncode == 2
    for name, content in (("none", b""), ("model.safetensors", b"version https://git-lfs.github.com/spec/v1"), ("model.safetensors", b""),
                          ("config.json", b"[]"), ("config.json", b'{"model_type": "llama", "hidden_size": "x"}'),
                          ("tokenizer.json", b"[]")):
        save()
        (folder / name).write_bytes(content)
        done = run("--prompt", str(tmp_path / "none.txt")) if name == "none" else run("--text", TEXT)
        assert done.returncode == 1 and done.stderr.strip().splitlines()[-1].startswith("kvloupe: "), done.stderr
        assert "Traceback" not in done.stderr


def test_the_readmes_python_commands_run(tmp_path: Path) -> None:
    root = Path(kvloupe.__file__).parents[2]
    if not (root / "README.md").is_file():
        pytest.skip("not in the repository")
    lines = re.findall(r"^python (-.*)", (root / "README.md").read_text(), re.MULTILINE)
    (tmp_path / "assets").symlink_to(root / "assets")
    for line in lines:
        subprocess.run(f"{sys.executable} {line}", shell=True, check=True, cwd=tmp_path,
                       env=os.environ | {"PYTHONPATH": str(root / "python")})
    assert len(lines) >= 2 and (tmp_path / "strip.pdf").stat().st_size > 1000
