"""A capture that a full disk, Ctrl-C or a kill ends leaves nothing, and an older trace as it was."""
from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

import kvloupe

pytest.importorskip("torch")
pytest.importorskip("transformers")

from warm_python import COMMAND_LINE, Child  # noqa: E402

START = """
import os, signal, sys, torch, kvloupe, transformers
torch.manual_seed(1)
own = transformers.LlamaForCausalLM(transformers.LlamaConfig(vocab_size=320, hidden_size=64, intermediate_size=32,
    num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=2048)).eval()
folder = sys.argv[1]
path = folder + "/t.h5"
"""
NAMED = "import os; os.__dict__.pop('O_TMPFILE', None)\n"  # as where a file system has no files without a name
both = pytest.mark.parametrize("named", ["", NAMED], ids=["nameless", "named"])


def has_nameless_files(folder: Path) -> bool:
    try:
        os.close(os.open(folder, os.O_RDWR | os.O_TMPFILE))
        return Path("/proc/self/fd").is_dir()
    except (OSError, AttributeError):
        return False


def run_child(code: str, folder: Path) -> Child:
    return Child(START + code, folder)


def writes_in(process: Child, folder: Path) -> bool:
    try:
        return any(os.readlink(one).startswith(str(folder)) for one in Path(f"/proc/{process.pid}/fd").iterdir())
    except OSError:  # one was closed in between
        return False


@both
def test_a_full_disk(named: str, tmp_path: Path) -> None:
    child = run_child(f"""
{named}
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


def test_a_file_without_a_name_that_cannot_get_one(tmp_path: Path) -> None:
    """Where the file system makes it but cannot link it, it is copied."""
    child = run_child("""
def refused(*paths, **options):
    raise OSError(18, os.strerror(18))
real, os.link = os.link, refused
kvloupe.capture(own, None, [5] * 20, path)
kvloupe.capture(own, None, [5] * 30, path)
with kvloupe.open_trace(path) as trace:
    print(len(trace.ids), os.listdir(folder))
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0 and out == "30 ['t.h5']\n", (out, err)


@both
def test_ctrl_c(named: str, tmp_path: Path) -> None:
    child = run_child(f"""
{named}
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
        found = 0 if not named and has_nameless_files(tmp_path) else 1  # under a name of its own
        assert len(list(tmp_path.iterdir())) == found
        child.send_signal(signal.SIGINT)
        assert child.stdout.readline() in ("stopped sdpa []\n", "stopped eager []\n")
    _, err = child.communicate(timeout=60)
    assert child.returncode == 0, err


@both
def test_ctrl_c_right_after_a_call_of_the_system(named: str, tmp_path: Path) -> None:
    """Where an interrupt comes between a step and the note that it was taken."""
    child = run_child(f"""
{named}
def interrupt_after(name):
    real = getattr(os, name)
    def interrupted(first, *more, **options):
        found = real(first, *more, **options)
        file = f"/proc/self/fd/{{first}}" if isinstance(first, int) else str(first)
        if folder in (os.readlink(file) if file.startswith("/proc/") else file):
            setattr(os, name, real)
            signal.raise_signal(signal.SIGINT)
        return found
    setattr(os, name, interrupted)

for name in "open", "pwrite", "ftruncate", "fsync", "replace":
    kvloupe.capture(own, None, [5] * 20, path)
    interrupt_after(name)
    try:
        kvloupe.capture(own, None, [5] * 30, path)
    except KeyboardInterrupt:
        with kvloupe.open_trace(path) as trace:
            print(name, len(trace.ids), os.listdir(folder))
""", tmp_path)
    out, err = child.communicate(timeout=300)
    assert child.returncode == 0, err
    older, newer = "20 ['t.h5']", "30 ['t.h5']"
    assert out.splitlines() == [f"open {older}", f"pwrite {older}", f"ftruncate {older}", f"fsync {older}",
                                f"replace {newer}"]


@pytest.mark.parametrize("more", [[], ["--named"]], ids=["nameless", "named"])
def test_ctrl_c_at_any_time(more: list[str]) -> None:
    child = Child(Path(__file__).with_name("interrupts.py").read_text(encoding="utf-8"), "--runs", 30, *more)
    out, err = child.communicate(timeout=600)
    assert child.returncode == 0 and "stopped" in out, out + err


def test_a_kill(tmp_path: Path) -> None:
    if not has_nameless_files(tmp_path):
        pytest.skip("this file system has no files without a name")
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
    child.kill()
    child.wait(timeout=60)
    assert [one.name for one in tmp_path.iterdir()] == ["t.h5"]
    with kvloupe.open_trace(tmp_path / "t.h5") as trace:
        assert len(trace.ids) == 20


@both
def test_ctrl_c_at_the_command_line(named: str, tmp_path: Path) -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    LlamaForCausalLM(LlamaConfig(vocab_size=320, hidden_size=32, intermediate_size=32, num_hidden_layers=2,
                                 num_attention_heads=4, num_key_value_heads=2)).save_pretrained(tmp_path / "model")
    (tmp_path / "ids.txt").write_text(" ".join(["5"] * 1500))
    program = f"{named}\n{COMMAND_LINE}"
    words = ["capture", "--model", str(tmp_path / "model"), "--ids", str(tmp_path / "ids.txt"), "--block", "1", "-o",
             str(tmp_path / "out" / "t.h5"), "--progress", "none"]
    child = Child(program, *words)
    _, err = child.communicate(timeout=300)
    assert child.returncode == 1 and "the folder" in err and err.count("\n") == 1
    (tmp_path / "out").mkdir()
    child = Child(program, *words)
    limit = time.monotonic() + 120
    while not writes_in(child, tmp_path / "out") and child.poll() is None and time.monotonic() < limit:
        time.sleep(0.002)
    child.send_signal(signal.SIGINT)
    _, err = child.communicate(timeout=60)
    assert (child.returncode, err) == (130, "kvloupe: stopped; no unfinished file is left\n")
    assert list((tmp_path / "out").iterdir()) == []
