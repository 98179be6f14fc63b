"""Python processes for tests that end them, limit them or read their streams: each forks from one that has imported torch,
transformers and kvloupe, which takes five seconds."""
from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
from typing import Any

_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["torch", "transformers", "transformers.models.llama.modeling_llama", "kvloupe"])
COMMAND_LINE = "import sys; from kvloupe.__main__ import main; sys.exit(main())"


def _run(code: str, words: list[str], streams: list[Any]) -> None:
    for at, stream in enumerate(streams, 1):
        os.dup2(stream.fileno(), at)
        stream.close()
    sys.argv = ["-c", *words]
    exec(compile(code, "<code>", "exec", dont_inherit=True), {"__name__": "__main__"})


class Child:
    """As subprocess.Popen of `python -c CODE WORDS` with text in pipes: what these tests use of it."""

    def __init__(self, code: str, *words: Any) -> None:
        pipes = [_context.Pipe(duplex=False) for _ in range(2)]
        self._process = _context.Process(target=_run, args=(code, [*map(str, words)], [writer for _, writer in pipes]))
        self._process.start()
        self.pid = self._process.pid
        self.stdout, self.stderr = (os.fdopen(os.dup(reader.fileno()), encoding="utf-8") for reader, _ in pipes)
        for pipe in pipes:
            for end in pipe:
                end.close()

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def poll(self) -> int | None:
        return self._process.exitcode

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        self._process.join(timeout)
        if self._process.exitcode is None:
            raise subprocess.TimeoutExpired("a child", timeout or 0.0)
        return self._process.exitcode

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Its outputs are shorter than a pipe holds."""
        self.wait(timeout)
        with self.stdout, self.stderr:
            return self.stdout.read(), self.stderr.read()


def command_line(*words: Any) -> subprocess.CompletedProcess[str]:
    """`python -m kvloupe WORDS`."""
    child = Child(COMMAND_LINE, *words)
    out, err = child.communicate(timeout=300)
    return subprocess.CompletedProcess(words, child.wait(), out, err)

