"""What cannot be captured ends with one line that says what, where and what to do, and leaves no file."""
from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

import kvloupe

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


def model(**change: Any) -> Any:
    torch.manual_seed(1)
    shape = dict(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
                 num_key_value_heads=2, max_position_embeddings=256, initializer_range=0.3)
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(**(shape | change))).eval()


def refused(why: str, run: Any, folder: Path, **settings: Any) -> str:
    """The one line; checks that nothing is left and that the model has its own attention back."""
    before = set(folder.rglob("*"))
    with pytest.raises(kvloupe.KvloupeError, match=why) as caught:
        kvloupe.capture(run, None, **({"prompt": [5, 6, 7], "path": folder / "t.h5"} | settings))
    assert set(folder.rglob("*")) == before
    assert run.config._attn_implementation != "kvloupe"
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_prompts(tmp_path: Path) -> None:
    own = model()
    refused("token 999 is outside the model's vocabulary of 320", own, tmp_path, prompt=[1, 999])
    refused("token -2 is outside", own, tmp_path, prompt=[1, -2])
    refused("600 tokens, but the model has positions for 256; shorten", own, tmp_path, prompt=[5] * 600)
    refused("260 tokens, but the model has positions for 256", own, tmp_path, prompt=[5] * 250, generate=10)
    refused("the prompt has no tokens", own, tmp_path, prompt=[])
    refused("a text needs a tokenizer", own, tmp_path, prompt="text")
    refused("give a block of at least 1", own, tmp_path, block=0)
    refused("store: 'f8' is not f16 or f32", own, tmp_path, store="f8")


@pytest.mark.parametrize("name, part", [("query", "q_proj"), ("key", "k_proj"), ("value", "v_proj")])
def test_states_that_are_not_finite(name: str, part: str, tmp_path: Path) -> None:
    own = model()
    with torch.no_grad():
        getattr(own.model.layers[1].self_attn, part).weight[0, 0] = float("nan")
    refused(f"layer 1, head 0, token 0: {name} is not finite; capture with another dtype", own, tmp_path)


def test_a_logit_that_is_not_finite(tmp_path: Path) -> None:
    own = model()
    with torch.no_grad():
        own.model.norm.weight[3] = float("inf")
    refused("token 0: the model's hidden state or logits are not finite; capture with another dtype", own, tmp_path)


def test_files(tmp_path: Path) -> None:
    own = model()
    refused("cannot be written", own, tmp_path, path=tmp_path / "no folder" / "t.h5")
    (tmp_path / "folder.h5").mkdir()
    refused("folder.h5: is a folder; give a file", own, tmp_path, path=tmp_path / "folder.h5")
    if os.geteuid() != 0:
        (tmp_path / "closed").mkdir(mode=0o500)
        refused("cannot be written", own, tmp_path, path=tmp_path / "closed" / "t.h5")


def test_quantised_models(tmp_path: Path) -> None:
    own = model()
    own.config.quantization_config = transformers.BitsAndBytesConfig(load_in_8bit=True)
    refused("the model is quantised .*bitsandbytes.*; load it in float32, bfloat16 or float16", own, tmp_path)
    own = model()
    own.model.layers[1].self_attn.v_proj.weight = torch.nn.Parameter(
        torch.zeros(16, 32, dtype=torch.int8), requires_grad=False)
    refused(r"layer 1: the weights of v_proj \(Linear\) are quantised", own, tmp_path)


def test_attention_outside_the_registry(tmp_path: Path) -> None:
    own = model()
    attention = own.model.layers[1].self_attn

    def forward(hidden_states: Any, **rest: Any) -> Any:
        return attention.o_proj(torch.zeros(*hidden_states.shape[:2], 32)), None
    attention.forward = forward
    refused("1 of 2 layers of LlamaForCausalLM call their attention function through transformers' registry", own,
            tmp_path)


def test_attention_that_a_trace_cannot_say(tmp_path: Path) -> None:
    own = model()
    attention = own.model.layers[1].self_attn
    before = attention.forward

    def forward(*positional: Any, **named: Any) -> Any:  # sees the future
        named["attention_mask"] = torch.ones_like(named["attention_mask"])
        return before(*positional, **named)
    attention.forward = forward
    refused("layer 1: queries see other tokens than all earlier ones", own, tmp_path)
    own = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=320, hidden_size=32, n_layer=2, n_head=4))
    refused("BloomForCausalLM", own.eval(), tmp_path)
    own = transformers.DeepseekV3ForCausalLM(transformers.DeepseekV3Config(
        vocab_size=320, hidden_size=32, intermediate_size=32, moe_intermediate_size=16, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=4, q_lora_rank=8, kv_lora_rank=8, qk_rope_head_dim=8,
        qk_nope_head_dim=8, v_head_dim=4, n_routed_experts=4, n_group=1, topk_group=1, num_experts_per_tok=2))
    refused("layer 0: .* has the shape", own.eval(), tmp_path)


CHANGED = """
import sys, torch, kvloupe, transformers
import kvloupe.attention as attention
torch.manual_seed(1)
own = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=320, hidden_size=64, intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048)).eval()
"""


def test_an_output_that_the_states_do_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers.integrations import sdpa_attention

    before = sdpa_attention.sdpa_attention_forward

    def other(module: Any, query: Any, *rest: Any, **named: Any) -> Any:
        out, weights = before(module, query, *rest, **named)
        return out * (1.01 if module.layer_idx == 1 else 1.0), weights
    monkeypatch.setattr(sdpa_attention, "sdpa_attention_forward", other)
    refused("layer 1: softmax.* of the captured states is not the output of the model's attention", model(), tmp_path)


def run_child(code: str, folder: Path) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", CHANGED + code, str(folder)], stderr=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True,
                            env=os.environ | {"PYTHONPATH": str(Path(kvloupe.__file__).parents[1])})


@pytest.mark.parametrize("share", [0.001, 0.3, 0.8, 0.999])
def test_a_full_disk(share: float, tmp_path: Path) -> None:
    child = run_child(f"""
import os, resource
path = sys.argv[1] + "/t.h5"
kvloupe.capture(own, None, [5] * 600, path, block=100)
most = int(os.stat(path).st_size * {share})
os.unlink(path)
resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
try:
    kvloupe.capture(own, None, [5] * 600, path, block=100)
except kvloupe.KvloupeError as error:
    print("refused:", error)
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    assert out.startswith("refused: ") and "cannot be written" in out and "space on the disk" in out, (out, err)
    assert out.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


NAMED = "import os; os.__dict__.pop('O_TMPFILE', None)\n"  # as where each file has a name


@pytest.mark.parametrize("named", ["", NAMED], ids=["nameless", "named"])
@pytest.mark.parametrize("stage", ["prompt", "answer", "writing"])
def test_ctrl_c_leaves_nothing(stage: str, named: str, tmp_path: Path) -> None:
    child = run_child(f"""
{named}
import time
def wait(stage, done, total):
    if stage == "{stage}" and done == 1 or stage == "prompt" == "{stage}" and done > 0:
        print("now", flush=True)
        time.sleep(60)
try:
    kvloupe.capture(own, None, [5] * 300, sys.argv[1] + "/t.h5", block=100, generate=3, progress=wait)
except KeyboardInterrupt:
    print("stopped", own.config._attn_implementation)
""", tmp_path)
    assert child.stdout.readline() == "now\n"
    if named:
        assert len(list(tmp_path.iterdir())) == 1  # it is there, under another name
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=60)
    assert out.strip() in ("stopped sdpa", "stopped eager"), err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("named", ["", NAMED], ids=["nameless", "named"])
@pytest.mark.parametrize("step", ["os.open", "os.ftruncate", "os.fsync", "os.replace"])
def test_ctrl_c_right_after_a_call_of_the_system(step: str, named: str, tmp_path: Path) -> None:
    """Where an interrupt comes between a step and the note that it was taken. An older trace stays, or is replaced."""
    child = run_child(f"""
import signal
{named or "import os"}
kvloupe.capture(own, None, [5] * 20, sys.argv[1] + "/t.h5")
folder, real = sys.argv[1], {step}
def interrupted(first, *more, **named):
    found = real(first, *more, **named)
    first = f"/proc/self/fd/{{first}}" if isinstance(first, int) else first
    mine = folder in os.readlink(first) if "/proc/" in str(first) else folder in str(first)
    if mine:
        {step} = real
        signal.raise_signal(signal.SIGINT)
    return found
{step} = interrupted
try:
    kvloupe.capture(own, None, [5] * 30, folder + "/t.h5")
except KeyboardInterrupt:
    print("stopped")
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0 and out == "stopped\n", (out, err)
    assert [one.name for one in tmp_path.iterdir()] == ["t.h5"]
    with kvloupe.open_trace(tmp_path / "t.h5") as trace:
        assert len(trace.ids) == (30 if step == "os.replace" else 20)


@pytest.mark.parametrize("named", ["", NAMED], ids=["nameless", "named"])
def test_ctrl_c_at_the_command_line(named: str, tmp_path: Path) -> None:
    model(max_position_embeddings=2048).save_pretrained(tmp_path / "model")
    (tmp_path / "ids.txt").write_text(" ".join(["5"] * 1500))
    program = [sys.executable, "-c", f"{named}\nimport sys; from kvloupe.__main__ import main; sys.exit(main())"]
    words = ["capture", "--model", str(tmp_path / "model"), "--ids", str(tmp_path / "ids.txt"), "--block", "1", "-o",
             str(tmp_path / "out" / "t.h5"), "--progress", "none"]
    environment = os.environ | {"PYTHONPATH": str(Path(kvloupe.__file__).parents[1])}
    done = subprocess.run([*program, *words], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 1 and "the folder" in done.stderr and done.stderr.count("\n") == 1
    (tmp_path / "out").mkdir()
    child = subprocess.Popen([*program, *words], stderr=subprocess.PIPE, text=True, env=environment)

    def writes() -> bool:
        try:
            return any(os.readlink(one).startswith(str(tmp_path / "out"))
                       for one in Path(f"/proc/{child.pid}/fd").iterdir())
        except OSError:  # one was closed in between
            return False

    limit = time.monotonic() + 120
    while not writes() and child.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "kvloupe: stopped; no unfinished file is left\n")
    assert list((tmp_path / "out").iterdir()) == []
