"""Every page of every lesson opens on a trace of a real model."""
from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from kvloupe import program

LESSONS = Path(__file__).resolve().parents[2] / "assets" / "lessons"
MODEL = os.environ.get("KVLOUPE_REAL_MODEL")  # scripts/test-python.sh sets it
PROMPT = """@@context
<|im_start|>user
Ida kept a small shop by the harbour. In spring she painted the door blue, and the gulls did not mind.
@@needle
The spare key to the shop is kept in drawer 47.
@@context
In autumn the ships came late, and she read letters by the window. The clerk counted crates until it was dark.
@@question
Where is the spare key to the shop kept?<|im_end|>
<|im_start|>assistant

"""


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    if not MODEL:
        pytest.skip("scripts/test-python.sh fetches the real model")
    folder = tmp_path_factory.mktemp("real")
    prompt, full, closed = folder / "prompt.txt", folder / "full.h5", folder / "closed.h5"
    prompt.write_text(PROMPT, encoding="utf-8")
    run = lambda *words: program.run("run", "--model", MODEL, *words, "--progress", "none", name="kvloupe-capture")
    run("--prompt", prompt, "--generate", 4, "--block", 32, "-o", full)
    run("--from", full, "--policy", "h2o", "--budget", "25%", "-o", closed)
    return full, closed


@pytest.mark.parametrize("name", sorted(file.stem for file in LESSONS.glob("*.md")))
def test_every_page_opens(name: str, traces: tuple[Path, Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    # A page that cannot be shown ends the program with 1, and the error with its line.
    program.run("lesson", name, "--html", page, "--trace", traces[0], "--trace", traces[1])
    text = re.sub(r"<svg.*?</svg>|<script.*?</script>|<style.*?</style>|<details>.*?</details>", "",
                  page.read_text(encoding="utf-8"), flags=re.DOTALL)
    told = re.findall(r"<p[^>]*>.*?</p>|<li[^>]*>.*?</li>", text, flags=re.DOTALL)
    assert told and not [line for line in told if re.search(r"(?<![\w ])–|“–”|\{\{", line)]
    assert page.stat().st_size <= 4_500_000


def test_a_run_of_a_trace_keeps_its_segments(traces: tuple[Path, Path]) -> None:
    import kvloupe

    with kvloupe.open(traces[0]) as full, kvloupe.open(traces[1]) as closed:
        assert full.segments == closed.segments and "needle" in full.segments
        assert list(full.ids) == list(closed.ids) and full.blocks == closed.blocks
