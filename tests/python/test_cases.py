"""The page of cases, from made results of kvloupe-capture rescue and kvloupe follow."""
from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts/claims/cases_page.py"


def made(folder: Path, **change: object) -> None:
    (folder / "cases").mkdir(exist_ok=True)
    (folder / "cases/tova.json").write_text(json.dumps({
        "settings": {"policy": "tova", "budget": 50, "block": 10, "prompt_ids": [0] * 100, "prompt": "t.h5", "expect": " right"},
        "full": {"right": True, "logprob": math.log(0.5), "says": " right.\n"}, "expected": {"text": " right"},
        "policy": {"right": False, "logprob": math.log(0.002), "says": " wrong"},
        "predicted": {"set_within": 3, "heads": []}, "runs": {"full": {}, "tova": {}},
        "keep": {"all": {"right": True, "logprob": math.log(0.25)}, "smallest": {"heads": [[1, 0], [0, 1]], "right": True, "minimal": True}},
        "drop": {"all": {"right": False, "logprob": math.log(0.01)}}} | change))
    head = {"read": 0.1, "kept": 0.5, "first_loss": 5, "restored_logit": 0.25}
    (folder / "cases/tova-follow.json").write_text(json.dumps({
        "tokens": [20, 21], "text": [" a", " b"], "heads": [
            head | {"layer": 0, "head": 0, "kept": 1, "first_loss": None}, head | {"layer": 0, "head": 1, "read": 0.9},
            head | {"layer": 1, "head": 0, "kept": 0, "first_loss": 3}, head | {"layer": 1, "head": 1, "first_loss": 7}]}))


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, folder, folder / "page.md"], capture_output=True, text=True)


def test_numbers_of_a_case(tmp_path: Path) -> None:
    made(tmp_path)
    assert run(tmp_path).returncode == 0
    text = " ".join((tmp_path / "page.md").read_text().split())
    assert "at 20 % of the prompt" in text and "`right.` (the right text has a probability of 50 %)" in text
    assert "`wrong` (0.2 %)" in text
    assert "holds 50 % of the needle's tokens on the mean; 1 of 4 heads hold all of it, 1 nothing" in text
    assert "median head that loses some loses the first at step 5" in text and "comes in step 2" in text
    assert "in these heads alone the answer is right: 1.0, 0.1. All heads: 25 %. They are among the first 3 of 4 heads by the replay's blame. Runs of the model: 2." in text
    assert "in all heads: 1 %" in text
    assert text.index("| 0.1 | 0.90 | 50 % | 5 | 0.25 |") < text.index("| 0.0 | 0.10 | 100 % | – | 0.25 |")


def test_a_rescue_that_fails_says_so(tmp_path: Path) -> None:
    made(tmp_path, keep={"all": {"right": False, "logprob": math.log(0.03)}, "smallest": None})
    assert run(tmp_path).returncode == 0
    assert "kept in all 4 heads the answer is still wrong (3 %)" in " ".join((tmp_path / "page.md").read_text().split())


@pytest.mark.parametrize("change", [{"full": {"right": False}}, {"policy": {"right": True}}])
def test_what_is_no_case_is_one_line(change: dict, tmp_path: Path) -> None:
    made(tmp_path, **change)
    done = run(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "is no case" in done.stderr
    assert not (tmp_path / "page.md").exists()


def test_missing_results_are_one_line(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "has no results; run scripts/claims/cases.sh" in done.stderr
    made(tmp_path)
    whole = json.loads((tmp_path / "cases/tova.json").read_text())
    (tmp_path / "cases/tova.json").write_text(json.dumps({key: value for key, value in whole.items() if key != "keep"}))
    done = run(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "has not ended; run scripts/claims/cases.sh again" in done.stderr
    made(tmp_path)
    (tmp_path / "cases/tova-follow.json").unlink()
    done = run(tmp_path)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "tova-follow.json cannot be read" in done.stderr
