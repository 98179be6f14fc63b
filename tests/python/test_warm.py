"""The program that is kept ready for the tests (conftest.py) does what the program does that is started."""
from __future__ import annotations

import os
import resource
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

MODEL = Path(__file__).resolve().parents[2] / "assets/demo-model"
TRACE = ("run", "--model", str(MODEL), "--ids", "ids.txt", "--dtype", "f32", "--progress", "none", "-o")


@pytest.fixture
def programs() -> tuple[str, str]:
    """The one that is kept ready, once it is, and the one that is started."""
    if "KVLOUPE_WARM_PROGRAM" not in os.environ:
        pytest.skip("no program is kept ready")
    limit = time.monotonic() + 60
    while not Path(os.environ["KVLOUPE_WARM_SOCKET"]).exists() and time.monotonic() < limit:
        time.sleep(0.01)
    return os.environ["KVLOUPE_CAPTURE"], os.environ["KVLOUPE_WARM_PROGRAM"]


def served(process: int) -> list[int]:
    """The processes that run for a client: children of the server, which is a child of this process."""
    def children(of: int) -> list[int]:
        return [int(one) for one in Path(f"/proc/{of}/task/{of}/children").read_text().split()]
    return [run for server in children(os.getpid()) for run in children(server) if server != process]


def test_it_answers_as_the_program_does(programs: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("15 17 19 " * 20)

    def answers(program: str, *words: str, **more: Any) -> tuple[int, str, str]:
        done = subprocess.run([program, *words], capture_output=True, text=True, cwd=tmp_path, **more)
        return done.returncode, done.stdout, done.stderr
    small = dict(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)))
    for words, more in ((["--version"], {}), (["rnu"], {}), (["run", "--model", "none", "--ids", "ids.txt", "-o", "t.h5"], {}),
                        (["run", "--help"], {}), ([*TRACE, "t.h5"], {}), ([*TRACE, "small.h5"], small),
                        (["tokens", "--model", str(MODEL), "--text", "a", "--json", "-"], {}), (["info"], {})):
        warm, cold = (answers(program, *words, **more) for program in programs)
        assert warm == cold, words
    assert warm[0] == 2 and (tmp_path / "t.h5").is_file() and not (tmp_path / "small.h5").exists()


def test_an_environment_that_libraries_read_starts_the_program(programs: tuple[str, str]) -> None:
    told = subprocess.run([programs[0], "--version"], env=os.environ | {"LD_DEBUG": "statistics"}, capture_output=True, text=True)
    assert "relocations" in told.stderr and told.stdout.startswith("kvloupe-capture ")


@pytest.mark.parametrize("ends", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_it(ends: int, programs: tuple[str, str], tmp_path: Path) -> None:
    (tmp_path / "ids.txt").write_text("15 17 19 " * 300)
    ended = []
    for program in programs:
        child = subprocess.Popen([program, *TRACE, "t.h5", "--block", "1"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
        limit = time.monotonic() + 60
        while not list(tmp_path.glob("t.h5*")) and time.monotonic() < limit:
            time.sleep(0.005)
        runs = served(child.pid)
        assert len(runs) == (program == programs[0]) and child.poll() is None
        child.send_signal(ends)
        said = child.communicate(timeout=60)[1].splitlines()[1:]  # the first line tells how long it will take
        while any(Path(f"/proc/{run}").exists() for run in runs) and time.monotonic() < limit:
            time.sleep(0.005)
        assert not any(Path(f"/proc/{run}").exists() for run in runs)
        left = list(tmp_path.glob("t.h5*"))
        assert len(left) == (ends == signal.SIGKILL)
        for one in left:
            one.unlink()
        ended.append((child.returncode, said))
    assert ended[0] == ended[1] and ended[0][0] != 0
