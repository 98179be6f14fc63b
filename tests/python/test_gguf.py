"""GGUF files: what kvloupe-capture reads in them, beside the packages gguf, tokenizers and transformers."""
from __future__ import annotations

import csv
import functools
import json
import os
import shutil
import struct
import subprocess
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
import transformers

gguf = pytest.importorskip("gguf")

import gguf_files as files  # noqa: E402
import kvloupe  # noqa: E402
from gguf_files import Kind  # noqa: E402
from kvloupe.engine import ask  # noqa: E402
from test_witness import LINEAR, LLAMA3, YARN, program  # noqa: E402
from tokenizer_texts import texts  # noqa: E402
from warm_python import command_line  # noqa: E402

MUST = "KVLOUPE_REAL_MODEL" in os.environ  # scripts/test-python.sh: a check that cannot run is a failure


def missing(why: str) -> None:
    if MUST:
        pytest.fail(why)
    pytest.skip(why)


@functools.cache
def reads_gguf() -> bool:
    told = subprocess.run([program(), "run", "--help"], capture_output=True, text=True, check=False).stdout
    return "--weights" in told


@pytest.fixture(autouse=True)
def needs_gguf() -> None:
    if not reads_gguf():
        missing("this kvloupe-capture reads no GGUF files")


@pytest.fixture(scope="session")
def real() -> Path:
    """The model that scripts/real-model.sh fetches."""
    usual = Path(__file__).resolve().parents[2] / "build" / "real-model" / "model.gguf"
    found = Path(os.environ.get("KVLOUPE_REAL_MODEL", usual))
    if not found.is_file():
        missing(f"{found} is not there; scripts/real-model.sh --fetch gets it")
    return found


def called(*words: Any, timeout: float = 300.0) -> subprocess.CompletedProcess:
    return subprocess.run([program(), *map(str, words)], capture_output=True, text=True, check=False, timeout=timeout)


def run(model: Path, ids: Any, trace: Path, *more: Any) -> Path:
    """A trace of the model in float32, with numbers stored in float32."""
    file = trace.with_suffix(".ids")
    file.write_text(" ".join(map(str, ids)))
    done = called("run", "--model", model, "--ids", file, "--dtype", "f32", "--store", "f32", "--block", 16, "--progress",
                  "none", *more, "-o", trace)
    assert done.returncode == 0, done.stderr
    return trace


def bits(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).view(np.uint32)


STATES = ("query", "key", "value", "output_weight", "attention_logsumexp", "value_out_norm_l1", "value_out_norm_l2")
MODEL = ("architecture", "num_layers", "num_heads", "num_kv_heads", "head_dim", "hidden_size", "vocab_size",
         "sliding_window", "rope_pairing")


def assert_equal(one: Path, other: Path, within: float = 0.0) -> None:
    """Every number of two traces has the same bits; or differs by `within` of the largest of its array."""
    with h5py.File(one) as a, h5py.File(other) as b:
        for name in MODEL:
            assert a["model"].attrs[name] == b["model"].attrs[name], name
        assert np.isclose(a["model"].attrs["rope_theta"], b["model"].attrs["rope_theta"], rtol=1e-6)
        assert a["run"].attrs["attention_scale"] == b["run"].attrs["attention_scale"]
        assert a["tokens/ids"][:].tolist() == b["tokens/ids"][:].tolist()
        names = [f"layers/{layer}/{name}" for layer in range(a["model"].attrs["num_layers"]) for name in STATES]
        names += [f"predictions/{name}" for name in ("token_ids", "logprob", "hidden", "loss")]
        for name in names:
            x, y = a[name][:], b[name][:]
            assert x.shape == y.shape and x.dtype == y.dtype, name
            if within == 0.0:
                assert (bits(x) == bits(y)).all(), name
            elif name != "predictions/token_ids":
                assert np.nanmax(np.abs(x - y)) <= within * np.nanmax(np.abs(y)), name


# Types

SQUARE = dict(vocab_size=files.VOCABULARY, hidden_size=256, intermediate_size=256, num_hidden_layers=2,
              num_attention_heads=4, num_key_value_heads=2, head_dim=64, max_position_embeddings=256, bos_token_id=1,
              eos_token_id=2, tie_word_embeddings=False)


def square(output: str) -> tuple[files.Values, files.Tensors]:
    """A model whose rows have 256 numbers: attn_output of the type `output`, everything else of all types in turn."""
    config = transformers.LlamaConfig(**SQUARE)
    values = files.values_of(config, "llama", {}) | files.tokenizer()
    tensors: files.Tensors = {}
    turn = files.TYPES.index(output)
    shapes = {"token_embd.weight": files.VOCABULARY}
    for layer in range(2):
        shapes |= {f"blk.{layer}.{name}.weight": 128 if name in ("attn_k", "attn_v") else 256 for name in (
            "attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")}
    for at, (name, rows) in enumerate((shapes | {"output.weight": files.VOCABULARY}).items()):
        kind = output if "attn_output" in name else files.TYPES[(turn + at) % len(files.TYPES)]
        tensors[name] = files.drawn(kind, rows, 256, seed=100 * turn + at), kind
    for name in ("output_norm.weight", *(f"blk.{layer}.{part}.weight" for layer in (0, 1) for part in ("attn_norm", "ffn_norm"))):
        tensors[name] = np.linspace(0.5, 1.5, 256, dtype=np.float32), "F32"
    return values, tensors


@pytest.mark.parametrize("kind", files.TYPES)
def test_every_number_is_that_of_the_package_gguf(kind: str, tmp_path: Path) -> None:
    values, tensors = square(kind)
    trace = run(files.write(tmp_path / "t.gguf", values, tensors), range(3, 40), tmp_path / "t.h5", "--lm-head")
    with h5py.File(trace) as file:
        for layer in range(2):
            data, _ = tensors[f"blk.{layer}.attn_output.weight"]
            expected = files.expanded(data, kind).T.reshape(4, 64, 256)
            found = file[f"layers/{layer}/output_weight"][:]
            # Weights in float16 stay so, which is exact.
            assert found.dtype == (np.float16 if kind == "F16" else np.float32)
            assert (bits(found.astype(np.float32)) == bits(expected)).all()
            assert len(np.unique(expected)) > 15
        data, other = tensors["output.weight"]
        with np.errstate(over="ignore"):
            assert (file["model/lm_head"][:] == files.expanded(data, other).astype(np.float16)).all()
        said = dict(file["model"].attrs)
    assert said["weights_format"] == "GGUF" and said["weights_file"] == "t.gguf" and said["name"] == "Tiny Test"
    assert len(said["weights_type"].split(", ")) > 1 and set(said["weights_type"].split(", ")) <= set(files.TYPES)


# The same weights from safetensors

TINY = dict(vocab_size=files.VOCABULARY, hidden_size=64, intermediate_size=96, num_hidden_layers=3, num_attention_heads=4,
            num_key_value_heads=2, head_dim=16, max_position_embeddings=512, initializer_range=0.3, bos_token_id=1,
            eos_token_id=2, tie_word_embeddings=False)
FAMILIES = {
    "llama": ("llama", "Llama", {}),
    "llama tied": ("llama", "Llama", dict(tie_word_embeddings=True)),
    "llama one kv head": ("llama", "Llama", dict(num_key_value_heads=1)),
    "llama all kv heads": ("llama", "Llama", dict(num_key_value_heads=4)),
    "llama linear": ("llama", "Llama", dict(rope_parameters=LINEAR)),
    "llama yarn": ("llama", "Llama", dict(rope_parameters=YARN)),
    "llama llama3": ("llama", "Llama", dict(rope_parameters=LLAMA3)),
    "qwen2": ("qwen2", "Qwen2", dict(use_sliding_window=False, head_dim=None)),
    "qwen2 tied": ("qwen2", "Qwen2", dict(use_sliding_window=False, head_dim=None, tie_word_embeddings=True)),
    "qwen2 yarn": ("qwen2", "Qwen2", dict(use_sliding_window=False, head_dim=None, rope_parameters=YARN)),
    "qwen3": ("qwen3", "Qwen3", dict(use_sliding_window=False, head_dim=32)),
    "qwen3 tied": ("qwen3", "Qwen3", dict(use_sliding_window=False, head_dim=32, tie_word_embeddings=True)),
    "phi3": ("phi3", "Phi3", dict(pad_token_id=0, sliding_window=20)),
    "granite": ("granite", "Granite", dict(attention_multiplier=0.2, embedding_multiplier=3.0, residual_multiplier=0.6,
                                           logits_scaling=2.5)),
    "smollm3": ("smollm3", "SmolLM3", dict(num_hidden_layers=4, pad_token_id=0)),
    "olmo2": ("olmo2", "Olmo2", {}),
    "gemma 2": ("gemma2", "Gemma2", dict(query_pre_attn_scalar=16, sliding_window=20, tie_word_embeddings=True)),
    "gemma 3": ("gemma3", "Gemma3Text", dict(
        num_hidden_layers=6, query_pre_attn_scalar=16, sliding_window=20, tie_word_embeddings=True, rope_parameters={
            "sliding_attention": dict(rope_type="default", rope_theta=10000.0),
            "full_attention": dict(rope_type="linear", factor=8.0, rope_theta=1000000.0)})),
    "mixtral": ("llama", "Mixtral", dict(num_local_experts=4)),
    "qwen3 moe": ("qwen3moe", "Qwen3Moe", dict(num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
                                               norm_topk_prob=True)),
    "gpt-oss": ("gpt-oss", "GptOss", dict(num_local_experts=4, num_experts_per_tok=2, sliding_window=20,
                                          rope_parameters=YARN | dict(truncate=False))),
}


def both(family: str, folder: Path, quantised: bool) -> tuple[Path, files.Values, files.Tensors]:
    """A folder of Hugging Face, and what a GGUF file of the same weights has."""
    architecture, name, change = FAMILIES[family]
    torch.manual_seed(7)
    shape = {key: value for key, value in (TINY | change).items() if value is not None}
    model = transformers.AutoModelForCausalLM.from_config(getattr(transformers, f"{name}Config")(**shape)).eval()
    with torch.no_grad():
        for part, parameter in model.named_parameters():  # norms and biases are ones and zeros: give them values
            if parameter.dim() == 1 or part.endswith("bias"):
                parameter.add_(torch.randn_like(parameter) * 0.2)
    if getattr(model.config, "head_dim", None) is None:
        model.config.head_dim = model.config.hidden_size // model.config.num_attention_heads
    turn = iter(range(1000))
    kinds = (lambda _: files.SHORT[next(turn) % len(files.SHORT)]) if quantised else (lambda _: "F32")
    values, tensors = files.converted(model, architecture, kinds)
    model.save_pretrained(folder)
    return folder, values, tensors


IDS = np.random.default_rng(3).integers(3, files.VOCABULARY, 90).tolist()


@pytest.mark.parametrize("quantised", [False, True])
@pytest.mark.parametrize("family", list(FAMILIES))
def test_the_trace_is_that_of_the_same_weights_from_safetensors(family: str, quantised: bool, tmp_path: Path) -> None:
    folder, values, tensors = both(family, tmp_path / "model", quantised)
    mine = run(files.write(tmp_path / "t.gguf", values, tensors), IDS, tmp_path / "gguf.h5", "--generate", 5)
    theirs = run(folder, IDS, tmp_path / "folder.h5", "--generate", 5)
    assert_equal(mine, theirs)
    with h5py.File(mine) as a, h5py.File(theirs) as b:
        own, other = (json.loads(file["model"].attrs["rope_scaling"]) for file in (a, b))
        if "llama3" not in family:
            kept = lambda scaling: {key: value for key, value in (scaling or {}).items()
                                    if key in ("rope_type", "factor", "original_max_position_embeddings")}
            assert kept(own) == kept(other)
        assert a["model"].attrs["fingerprint"] != b["model"].attrs["fingerprint"]


def test_split_files_and_alignments(tmp_path: Path) -> None:
    _, values, tensors = both("llama llama3", tmp_path / "model", True)
    whole = run(files.write(tmp_path / "t.gguf", values, tensors), IDS, tmp_path / "whole.h5")
    for name, settings in (("split", dict(split_max_tensors=7)), ("first", dict(split_max_tensors=9, small_first_shard=True)),
                           ("wide", dict(alignment=256)), ("narrow", dict(alignment=8))):
        (tmp_path / name).mkdir()
        file = files.write(tmp_path / name / "t.gguf", values, tensors, **settings)
        assert ("-00001-of-" in file.name) == (name in ("split", "first"))
        assert_equal(run(file, IDS, tmp_path / f"{name}.h5"), whole)
        with h5py.File(tmp_path / f"{name}.h5") as trace:
            assert trace["model"].attrs["fingerprint"] == ask("fingerprint", None, file)


def test_a_file_is_named_by_its_model_or_else_by_itself(tmp_path: Path) -> None:
    _, values, tensors = both("qwen3", tmp_path / "model", False)
    del values["general.name"]
    with h5py.File(run(files.write(tmp_path / "some name.gguf", values, tensors), IDS, tmp_path / "t.h5")) as file:
        said = dict(file["model"].attrs)
    assert said["name"] == "some name" and said["weights_type"] == "F32" and said["architecture"] == "Qwen3ForCausalLM"
    assert json.loads(said["config"])["num_key_value_heads"] == 2


def test_text_needs_the_files_own_tokenizer_or_a_folders(tmp_path: Path) -> None:
    _, values, tensors = both("llama", tmp_path / "model", False)
    file = files.write(tmp_path / "t.gguf", values, tensors)
    told = called("tokens", "--model", file, "--text", "the one in <|stop|> there", "--json", "-")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    tokens = values["tokenizer.ggml.tokens"][0]
    assert [tokens[one] for one in found["ids"]] == ["t", "he", "\u0120", "on", "e", "\u0120", "in", "\u0120", "<|stop|>",
                                                     "\u0120the", "re"]
    with_start = files.write(tmp_path / "start.gguf", values | {"tokenizer.ggml.add_bos_token": (True, Kind.BOOL)}, tensors)
    told = called("tokens", "--model", with_start, "--text", "the", "--json", "-")
    assert json.loads(told.stdout)["ids"][0] == 1
    bare = {key: value for key, value in values.items() if not key.startswith("tokenizer.")}
    without = files.write(tmp_path / "bare.gguf", bare, tensors)
    run(without, IDS, tmp_path / "t.h5")  # ids need none
    assert called("tokens", "--model", without, "--text", "the").returncode == 1
    from test_package import tokenizer as folders

    (tmp_path / "own").mkdir()
    folders(tmp_path / "own").save_pretrained(tmp_path / "own")
    own = called("tokens", "--model", without, "--tokenizer", tmp_path / "own", "--text", "grey owl", "--json", "-")
    assert own.returncode == 0, own.stderr
    beside = called("tokens", "--model", tmp_path / "own", "--text", "grey owl", "--json", "-")
    assert json.loads(own.stdout)["ids"] == json.loads(beside.stdout)["ids"]


def test_the_command_line_of_python_takes_such_a_file(tmp_path: Path) -> None:
    _, values, tensors = both("llama", tmp_path / "model", True)
    file = files.write(tmp_path / "t.gguf", values, tensors)
    words = ["capture", "--dtype", "f32", "--store", "f32", "--block", 16, "--ids"]
    mine = run(file, IDS, tmp_path / "cpp.h5")
    done = command_line(*words, tmp_path / "cpp.ids", "--model", file, "-o", tmp_path / "python.h5")
    assert done.returncode == 0, done.stderr
    with h5py.File(mine) as a, h5py.File(tmp_path / "python.h5") as b:
        for name in ("name", "weights_format", "weights_type", "weights_file", "fingerprint"):
            assert a["model"].attrs[name] == b["model"].attrs[name], name
    assert_equal(mine, tmp_path / "python.h5", within=1e-4)
    done = command_line(*words, tmp_path / "cpp.ids", "--model", tmp_path / "none.gguf", "-o", tmp_path / "no.h5")
    assert done.returncode == 1 and done.stderr.strip().splitlines()[-1].endswith("none.gguf: this file does not exist")


# The real model

def reference(file: Path) -> Any:
    """The tokenizer that SmolLM's own tokenizer.json describes, of the library tokenizers, from the file's lists.

    transformers leaves out that SmolLM takes digits one by one.
    """
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    fields = gguf.GGUFReader(file).fields
    assert fields["tokenizer.ggml.pre"].contents() == "smollm"
    tokens = fields["tokenizer.ggml.tokens"].contents()
    merges = [tuple(one.split(" ")) for one in fields["tokenizer.ggml.merges"].contents()]
    made = Tokenizer(models.BPE({token: at for at, token in enumerate(tokens)}, merges))
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True),
                                                  pre_tokenizers.ByteLevel(add_prefix_space=False)])
    made.decoder = decoders.ByteLevel()
    made.add_special_tokens([AddedToken(token, special=True, normalized=False) for token, kind in zip(
        tokens, fields["tokenizer.ggml.token_type"].contents()) if kind == 3])
    return made


CHAT = "<|im_start|>user\nWhat is 12 345 + 6?<|im_end|>\n<|im_start|>assistant\n"


def test_tokens_of_the_real_model(real: Path, tmp_path: Path) -> None:
    made = reference(real)
    own = transformers.AutoTokenizer.from_pretrained(real.parent, gguf_file=real.name)
    many = [*texts(400), CHAT, " <repo_name>x<|im_end|>1½²", "\n\n\n", "  ", "99 bottles, 1234567890, ٣٤ and Ⅻ"]
    between = "<|endoftext|>"  # a token of its own, with the number 0: one call for all texts
    (tmp_path / "all.txt").write_text(between.join(many) + "\n", encoding="utf-8", newline="")  # the last end is no text
    told = called("tokens", "--model", real, "--prompt", tmp_path / "all.txt", "--json", "-")
    assert told.returncode == 0, told.stderr
    found = json.loads(told.stdout)
    parts: list[list[int]] = [[]]
    for one in found["ids"]:
        parts.append([]) if one == 0 else parts[-1].append(one)
    assert len(parts) == len(many) > 400
    expected = [made.encode(text, add_special_tokens=False).ids for text in many]
    for text, ids, right in zip(many, parts, expected):
        assert ids == right, text
    assert found["text"] == made.decode(found["ids"], skip_special_tokens=True)
    assert found["vocabulary"] == 49152
    # transformers differs where a space stands before a digit of another script.
    differ = [text for text, right in zip(many, expected) if own(text)["input_ids"] != right]
    assert len(differ) < len(many) // 2
    for text in many[-4:]:
        told = called("tokens", "--model", real, "--text", text, "--json", "-")
        assert json.loads(told.stdout)["ids"] == made.encode(text, add_special_tokens=False).ids


def test_the_prompts_of_the_real_model(real: Path) -> None:
    """Their lengths and parts, as scripts/real-model.sh runs them."""
    made, folder = reference(real), Path(__file__).resolve().parents[2] / "assets" / "prompts" / "real"
    for name, least, most in (("chat", 40, 60), ("document", 1850, 2000), ("needle", 850, 1000)):
        told = called("tokens", "--model", real, "--prompt", folder / f"{name}.txt", "--json", "-")
        found = json.loads(told.stdout)
        parts = kvloupe.read_prompt(folder / f"{name}.txt")
        assert found["ids"] == made.encode("".join(part for _, part in parts), add_special_tokens=False).ids
        assert least <= found["tokens"] <= most and found["segments"]["special"] == 5
        assert found["segments"]["question"] > 10 and ("needle" in found["segments"]) == (name == "needle")


def test_states_of_the_real_model(real: Path, tmp_path: Path) -> None:
    """The trace from the file, from the folder that transformers writes of it, and transformers' own states."""
    ids = reference(real).encode(CHAT + "It is 12 351. The owl of Ida was grey, and slept in the tower until the evening; "
                                        "then it flew over the river.", add_special_tokens=False).ids
    assert 50 < len(ids) < 80
    model = transformers.AutoModelForCausalLM.from_pretrained(real.parent, gguf_file=real.name, dtype=torch.float32).eval()
    config = transformers.LlamaConfig(**{name: value for name, value in model.config.to_dict().items()
                                         if name not in ("quantization_config", "dtype")})
    plain = transformers.LlamaForCausalLM(config)  # the other says that it is quantised, and is not saved
    plain.load_state_dict(model.state_dict())
    plain.save_pretrained(tmp_path / "model")
    kvloupe.capture(model, None, ids, tmp_path / "python.h5", block=16, store="f32")
    mine = run(real, ids, tmp_path / "gguf.h5")
    assert_equal(mine, run(tmp_path / "model", ids, tmp_path / "folder.h5"))
    with h5py.File(mine) as ours, h5py.File(tmp_path / "python.h5") as theirs:
        for layer in range(30):
            for name in ("query", "key", "value", "output_weight"):
                x, y = (file[f"layers/{layer}/{name}"][:] for file in (ours, theirs))
                assert np.abs(x - y).max() <= 1e-5 * np.abs(y).max(), (layer, name)
        assert np.nanmax(np.abs(ours["predictions/loss"][:] - theirs["predictions/loss"][:])) < 1e-3
        assert (ours["predictions/token_ids"][:, 0] == theirs["predictions/token_ids"][:, 0]).mean() > 0.98
        said, told = dict(ours["model"].attrs), dict(theirs["model"].attrs)
    assert said["weights_type"].startswith("Q4_1") and said["weights_file"] == real.name and said["num_layers"] == 30
    assert said["name"].startswith("Smollm2 135M")
    for name in (*MODEL, "name", "weights_format", "weights_type", "weights_file", "fingerprint"):
        assert said[name] == told[name], name


def test_the_effect_on_the_logits_of_the_real_model(real: Path, tmp_path: Path) -> None:
    """The figure's numbers: a token is taken out of one layer, and transformers puts the change of this layer's output
    into the last norm. Without the norm they would be many times as large."""
    ids = reference(real).encode(CHAT + "It is 12 351. The owl of Ida was grey, and slept in the tower until the evening",
                                 add_special_tokens=False).ids
    trace = run(real, ids, tmp_path / "t.h5", "--lm-head")
    model = transformers.AutoModelForCausalLM.from_pretrained(
        real.parent, gguf_file=real.name, dtype=torch.float32, attn_implementation="eager").double().eval()
    query, taken, shape = 31, 7, model.config
    values: list[Any] = []
    hooks = [layer.self_attn.v_proj.register_forward_hook(lambda _m, _i, out: values.append(out[0]))
             for layer in model.model.layers]
    hooks.append(model.model.norm.register_forward_pre_hook(lambda _, args: values.append(args[0][0])))
    with torch.no_grad():
        rows = model(torch.tensor([ids]), output_attentions=True).attentions
    for hook in hooks:
        hook.remove()
    residual = values.pop()[query]
    for layer in (0, 15, 29):
        weights = rows[layer][0, :, query]  # [Hq, T]
        left = weights.clone()
        left[:, taken] = 0.0
        left /= left.sum(-1, keepdim=True)
        shared = values[layer].reshape(len(ids), shape.num_key_value_heads, -1)
        own = shared.repeat_interleave(shape.num_attention_heads // shape.num_key_value_heads, 1)  # [T, Hq, d]
        out = torch.einsum("ht,thd->hd", left - weights, own).reshape(-1)
        change = model.model.layers[layer].self_attn.o_proj.weight @ out
        step = 0.01 * float((residual.norm() / change.norm()).detach())  # the norm computes in float32
        with torch.no_grad():
            more, less = (model.lm_head(model.model.norm((residual + way * step * change)[None, None]))[0, 0]
                          for way in (1.0, -1.0))
            expected = ((more - less) / (2 * step)).numpy()
            bare = (model.lm_head.weight @ change).numpy()
        kvloupe.figure(trace, "logit-effect", layer=layer, head=0, step=query // 16, token=taken, policy="h2o",
                       budget="100%", set={"of": "token"}).save(tmp_path / "t.csv")
        with open(tmp_path / "t.csv", newline="", encoding="utf-8") as file:
            table = csv.DictReader(line for line in file if not line.startswith("# "))  # what the figure is of
            told = [(int(row["token_id"]), float(row["logit_change"])) for row in table if row["token_id"]]
        assert len(told) == 16
        order = np.argsort(expected)
        largest = np.abs(expected).max()
        assert [one for one, _ in told][:3] == order[::-1][:3].tolist()
        for token, shown in told:
            assert abs(shown - expected[token]) < 0.01 * largest, (layer, token)
        assert np.abs(bare).max() > 3.0 * largest


def test_a_trace_of_the_real_model_has_an_honest_size(real: Path, tmp_path: Path) -> None:
    prompts = Path(__file__).resolve().parents[2] / "assets" / "prompts" / "real"
    done = called("run", "--model", real, "--prompt", prompts / "chat.txt", "--generate", 8, "--progress", "none", "-o",
                  tmp_path / "t.h5")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "t.h5").stat().st_size < 25e6
    with h5py.File(tmp_path / "t.h5") as file:
        assert "lm_head" not in file["model"] and "attention" not in file["layers/0"]
        assert file["layers/0/output_weight"].dtype == np.float16


# Files that are wrong: tests/capture/gguf_test.cpp and the fuzz target have more of them.

@functools.cache
def base() -> tuple[files.Values, files.Tensors]:
    config = transformers.LlamaConfig(**(TINY | dict(num_hidden_layers=1)))
    torch.manual_seed(7)
    return files.converted(transformers.LlamaForCausalLM(config), "llama", lambda _: "Q8_0")


def refused(file: Path, tmp_path: Path, *named: str) -> None:
    """One line that names one of these; nothing is written, and nothing crashes."""
    (tmp_path / "ids.txt").write_text("5 6 7 8")
    done = called("run", "--model", file, "--ids", tmp_path / "ids.txt", "--progress", "none", "-o", tmp_path / "no.h5", timeout=30)
    lines = done.stderr.strip().splitlines()
    assert done.returncode == 1 and len(lines) == 1, (done.returncode, done.stderr)
    assert any(one in lines[0] for one in named), lines[0]
    assert not (tmp_path / "no.h5").exists()


@pytest.mark.parametrize("key, value, named", [
    ("general.alignment", 0, ""), ("general.alignment", 33, "alignment 33"), ("llama.block_count", 0, ""),
    ("llama.block_count", 2, "blk.1."), ("llama.block_count", (1 << 32) - 1, ""), ("llama.attention.head_count", 0, ""),
    ("llama.attention.head_count", 3, "bad.gguf"), ("llama.attention.head_count_kv", 3, "bad.gguf"),
    ("llama.attention.key_length", 0, ""), ("llama.attention.layer_norm_rms_epsilon", float("nan"), ""),
    ("llama.rope.freq_base", -1.0, ""), ("llama.embedding_length", 32, "bad.gguf")])
def test_values_that_cannot_be(key: str, value: float, named: str, tmp_path: Path) -> None:
    values, tensors = base()
    kind = Kind.UINT32 if isinstance(value, int) else Kind.FLOAT32
    refused(files.write(tmp_path / "bad.gguf", values | {key: (value, kind)}, tensors), tmp_path, named or key)


def test_what_is_no_file(tmp_path: Path) -> None:
    run(files.write(tmp_path / "t.gguf", *base()), [5, 6, 7], tmp_path / "t.h5")  # the one that the others are made of is right
    (tmp_path / "bad.gguf").write_bytes(np.random.default_rng(1).bytes(5000))
    (tmp_path / "folder.gguf").mkdir()
    for name in ("bad.gguf", "none.gguf", "folder.gguf"):
        refused(tmp_path / name, tmp_path, name)


def patched(file: Path, key: str, value: bytes) -> None:
    data = file.read_bytes()
    at = data.index(key.encode()) + len(key) + 4
    file.write_bytes(data[:at] + value + data[at + len(value):])


@pytest.mark.parametrize("change", [
    lambda parts: parts[1].unlink(),
    lambda parts: shutil.copy(parts[0], parts[1]),  # the second says that it is the first
    lambda parts: patched(parts[2], "split.no", struct.pack("<H", 1)),
    lambda parts: patched(parts[0], "split.count", struct.pack("<H", 65535)),
    lambda parts: patched(parts[0], "split.tensors.count", struct.pack("<i", 500)),
    lambda parts: parts[2].write_bytes(parts[2].read_bytes()[:-50]),
    lambda parts: shutil.copy(parts[1], parts[2])])
def test_splits_that_cannot_be(change: Any, tmp_path: Path) -> None:
    files.write(tmp_path / "t.gguf", *base(), split_max_tensors=4)
    parts = sorted(tmp_path.glob("t-*.gguf"))
    assert len(parts) > 2
    change(parts)
    refused(parts[0], tmp_path, *(part.name for part in parts))
