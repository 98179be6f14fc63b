"""kvloupe-capture loads libtorch for half a second, and these tests start it some hundred times: a process that has
loaded it forks for each of them (tests/warm). KVLOUPE_WARM=0: every test starts the program itself."""
from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any, Iterator

import pytest

from kvloupe import KvloupeError, Tokenizer, program

DEMO = Path(__file__).resolve().parents[2] / "assets/demo-model"

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell that starts the tests in its background ignores Ctrl-C


@pytest.fixture(scope="session", autouse=True)
def warm_program(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    try:
        path = Path(program.find("kvloupe-capture")).resolve()
    except KvloupeError:
        yield
        return
    warm = path.parents[1] / "warm"
    if os.environ.get("KVLOUPE_WARM") == "0" or not (warm / "server.so").is_file():
        yield
        return
    socket = tmp_path_factory.mktemp("warm") / "socket"
    server = subprocess.Popen([path], stdin=subprocess.PIPE, env=os.environ | {
        "LD_PRELOAD": str(warm / "server.so"), "KVLOUPE_WARM_SOCKET": str(socket)})
    own = {"KVLOUPE_CAPTURE": str(warm / "kvloupe-capture"), "KVLOUPE_WARM_PROGRAM": str(path),
           "KVLOUPE_WARM_SOCKET": str(socket)}
    with pytest.MonkeyPatch.context() as patch:
        for name, value in own.items():
            patch.setenv(name, value)
        yield
    server.stdin.close()  # type: ignore[union-attr]  # it ends
    server.wait()


@pytest.fixture(scope="module")
def model() -> Any:
    import transformers  # not every test needs the seconds that this takes

    return transformers.AutoModelForCausalLM.from_pretrained(DEMO, dtype="float32")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer(DEMO)
