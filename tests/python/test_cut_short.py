"""A capture that a full disk, Ctrl-C or SIGTERM ends leaves nothing, and an older trace as it was."""
from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import kvloupe
from warm_python import COMMAND_LINE, Child

START = """
import os, signal, sys, torch, kvloupe, transformers
torch.manual_seed(1)
own = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=320, hidden_size=64, intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048)).eval()
folder = sys.argv[1]
path = folder + "/t.h5"
"""


def run_child(code: str, folder: Path) -> Child:
    return Child(START + code, folder)


def writes_in(process: Child, folder: Path) -> bool:
    try:
        return any(os.readlink(one).startswith(str(folder)) for one in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:  # one was closed in between
        return False


def test_a_full_disk(tmp_path: Path) -> None:
    child = run_child("""
import resource
kvloupe.capture(own, None, [5] * 600, path, block=100)
size = os.stat(path).st_size
os.unlink(path)
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
for share in 0.001, 0.3, 0.8, 0.999:
    resource.setrlimit(resource.RLIMIT_FSIZE, (int(size * share), hard))
    try:
        kvloupe.capture(own, None, [5] * 600, path, block=100)
    except kvloupe.KvloupeError as error:
        print("refused:", error, os.listdir(folder))
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    lines = out.splitlines()
    assert len(lines) == 4
    for line in lines:
        assert line.startswith("refused: ") and "cannot be written" in line and "space on the disk" in line
        assert line.endswith(" []")


def test_ctrl_c(tmp_path: Path) -> None:
    child = run_child("""
import time
for wanted in "prompt", "answer", "writing":
    def wait(stage, done, total):
        if stage == wanted and done > 0:
            print("now", flush=True)
            time.sleep(60)
    try:
        kvloupe.capture(own, None, [5] * 300, path, block=100, generate=3, progress=wait)
    except KeyboardInterrupt:
        print("stopped", own.config._attn_implementation, os.listdir(folder), flush=True)
""", tmp_path)
    for _ in range(3):
        assert child.stdout.readline() == "now\n"
        assert len(list(tmp_path.iterdir())) == 1  # under a name of its own
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() in ("stopped sdpa []\n", "stopped eager []\n")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err


def test_ctrl_c_right_after_a_call_of_the_engine(tmp_path: Path) -> None:
    """Where an interrupt comes between a step and the note that it was taken."""
    child = run_child("""
from kvloupe import engine
real = engine.call
def interrupt_after(name):
    def interrupted(called, *rest):
        real(called, *rest)
        if called == name:
            engine.call = real
            signal.raise_signal(signal.SIGINT)
    engine.call = interrupted

for name in "create", "add", "array", "finish":
    kvloupe.capture(own, None, [5] * 20, path)
    interrupt_after("writer_" + name)
    try:
        kvloupe.capture(own, None, [5] * 30, path)
    except KeyboardInterrupt:
        with kvloupe.open_trace(path) as trace:
            print(name, len(trace.ids), os.listdir(folder))
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    older, newer = "20 ['t.h5']", "30 ['t.h5']"
    assert out.splitlines() == [f"create {older}", f"add {older}", f"array {older}", f"finish {newer}"]


def test_ctrl_c_at_any_time() -> None:
    child = Child(Path(__file__).with_name("interrupts.py").read_text(encoding="utf-8"), "--runs", 30)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0 and "stopped" in out, out + err


def test_sigterm(tmp_path: Path) -> None:
    child = run_child("""
import time
kvloupe.capture(own, None, [5] * 20, path)
def wait(stage, done, total):
    if stage == "writing":
        print("now", flush=True)
        time.sleep(60)
kvloupe.capture(own, None, [5] * 300, path, progress=wait)
""", tmp_path)
    assert child.stdout.readline() == "now\n"
    assert len(list(tmp_path.iterdir())) == 2
    child.send_signal(signal.SIGTERM)
    assert child.wait(timeout=60) == -signal.SIGTERM
    assert [one.name for one in tmp_path.iterdir()] == ["t.h5"]
    with kvloupe.open_trace(tmp_path / "t.h5") as trace:
        assert len(trace.ids) == 20


def test_ctrl_c_at_the_command_line(tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
                                 num_attention_heads=4, num_key_value_heads=2)).save_pretrained(tmp_path / "model")
    (tmp_path / "ids.txt").write_text(" ".join(["5"] * 1500))
    words = ["capture", "--model", str(tmp_path / "model"), "--ids", str(tmp_path / "ids.txt"), "--block", "1", "-o",
             str(tmp_path / "out" / "t.h5"), "--progress", "none"]
    child = Child(COMMAND_LINE, *words)
    _, err = child.communicate(timeout=300)
    assert child.returncode == 1 and "the folder" in err and err.count("\n") == 1
    (tmp_path / "out").mkdir()
    child = Child(COMMAND_LINE, *words)
    limit = time.monotonic() + 120
    while not writes_in(child, tmp_path / "out") and child.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "kvloupe: stopped; no unfinished file is left\n")
    assert list((tmp_path / "out").iterdir()) == []
