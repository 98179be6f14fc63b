"""Prompts, pieces and segments; the reader's refusals; the program's figures and replays."""
from __future__ import annotations

import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

import kvloupe
from kvloupe import program

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

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


def model():
    torch.manual_seed(1)
    config = transformers.LlamaConfig(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
                                      num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=256,
                                      initializer_range=0.3)
    return transformers.LlamaForCausalLM(config).eval()


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
        prompt = "".join(t.text[1:int(t.run["prompt_length"])])
        # Pieces that cut a character in two are written as bytes: join them again.
        joined = re.sub(r"(?:\\x[0-9a-f]{2})+", lambda m: bytes.fromhex(m[0].replace("\\x", "")).decode(), prompt)
        assert joined == TEXT + " The code for kettle is: 47.\n What is it?"
        first, end = t.segments["needle"]
        assert "".join(t.text[first:end]).strip() == "The code for kettle is: 47."
        assert t.segments["special"][0] == 0
        assert t.segments["answer"] == (int(t.run["prompt_length"]), len(t))
        assert len(t) == t.run["prompt_length"] + t.run["generated"]


def test_rows_of_attention_sum_to_one(trace: Path) -> None:
    with kvloupe.open(trace) as t:
        rows = t.attention(1, 3)
        assert rows.shape == (len(t), len(t))
        assert np.allclose(rows.sum(-1), 1.0, atol=1e-5)
        assert np.triu(rows, 1).max() == 0.0
        with pytest.raises(kvloupe.KvloupeError, match="heads 0 to 1, not 2"):
            t.key(0, 2)
        with pytest.raises(kvloupe.KvloupeError, match="has no layers/2/key"):
            t.key(2, 0)


def test_what_is_no_trace_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text.h5").write_text("no trace")
    with pytest.raises(kvloupe.KvloupeError, match="is not a trace that can be read"):
        kvloupe.open(tmp_path / "text.h5")
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file.attrs["format"] = "other"
    with pytest.raises(kvloupe.KvloupeError, match="is not a trace of kvloupe"):
        kvloupe.open(tmp_path / "other.h5")


def need_program() -> None:
    try:
        program.find()
    except kvloupe.KvloupeError:
        pytest.skip("kvloupe is not built")


def test_the_program_reads_what_was_written(trace: Path, tmp_path: Path) -> None:
    need_program()
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


def test_sets_of_another_program_are_what_the_replay_keeps(trace: Path, tmp_path: Path) -> None:
    need_program()
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


def test_the_command_line_captures(tmp_path: Path) -> None:
    import subprocess
    import sys

    folder = tmp_path / "model"
    model().save_pretrained(folder)
    tokenizer(folder).save_pretrained(folder)
    words = [sys.executable, "-m", "kvloupe", "capture", "--model", str(folder), "-o", str(tmp_path / "t.h5")]
    environment = os.environ | {"PYTHONPATH": str(Path(kvloupe.__file__).parents[1])}
    done = subprocess.run([*words, "--text", TEXT, "--block", "8", "--generate", "2"], capture_output=True, text=True,
                          env=environment, check=False)
    assert done.returncode == 0, done.stderr
    with kvloupe.open(tmp_path / "t.h5") as t:
        assert t.run["block_size"] == 8
    done = subprocess.run([*words, "--prompt", str(tmp_path / "none.txt")], capture_output=True, text=True,
                          env=environment, check=False)
    assert done.returncode == 1
    assert done.stderr.strip().splitlines()[-1].startswith("kvloupe: ")
