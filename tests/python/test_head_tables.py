"""The script behind "A table of entries by head" of docs/results-real.md: ranks, paired differences, one line where something lacks."""
from __future__ import annotations

import json
import sqlite3
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/claims"))

import head_tables  # noqa: E402

TABLE = 'snapkv+headbudgets("table-35.csv")'


def results(path: Path, values: dict, heads: dict | None = None, budget: str = "35%") -> None:
    """A results file (docs/studies.md): {(measure, policy): [value of each prompt]}, and the same by head."""
    with sqlite3.connect(path) as file:
        file.executescript("""
            CREATE TABLE items (item INTEGER PRIMARY KEY, trace, policy, budget);
            CREATE TABLE measures (measure INTEGER PRIMARY KEY, name);
            CREATE TABLE replay_values (item, measure, value);
            CREATE TABLE head_values (item, measure, layer, head, value);""")
        for table, of in (("replay_values", values), ("head_values", heads or {})):
            for (measure, policy), numbers in of.items():
                own = file.execute("INSERT INTO measures (name) VALUES (?)", (measure,)).lastrowid
                for prompt, value in enumerate(numbers):
                    item = file.execute("INSERT INTO items (trace, policy, budget) VALUES (?, ?, ?)", (prompt, policy, budget)).lastrowid
                    for row in ((item, own, value),) if table == "replay_values" else ((item, own, 0, h, v) for h, v in enumerate(value)):
                        file.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)


def test_ranks_share_places_where_values_are_equal() -> None:
    values = {"a": {0: 1.0, 1: 0.0}, "b": {0: 1.0, 1: 1.0}, "c": {0: 0.0, 1: 0.0}}
    assert head_tables.ranks(values, -1) == {"a": 2.0, "b": 1.25, "c": 2.75}
    assert head_tables.ranks(values, 1) == {"a": 2.0, "b": 2.75, "c": 1.25}


def test_intervals_hold_the_mean_and_are_a_point_without_spread() -> None:
    mean, low, high = head_tables.interval([0.0, 1.0] * 20)
    assert mean == 0.5 and 0.3 < low < 0.45 and 0.55 < high < 0.7
    assert head_tables.interval([2.0] * 7) == (2.0, 2.0, 2.0)


def test_the_section_of_made_results(tmp_path: Path) -> None:
    answers = {("answer_found", "full"): [1, 1, 1, 1], ("answer_found", "snapkv"): [0, 0, 1, 0], ("answer_found", TABLE): [1, 1, 1],
               ("answer_hidden_distance", "snapkv"): [0.5, 0.5, 0.5, 0.5], ("answer_hidden_distance", TABLE): [0.25, 0.25, 0.25]}
    for share in ("35", "20"):
        results(tmp_path / f"prove-{share}.sqlite", answers)
        (tmp_path / f"advice-{share}.json").write_text(json.dumps({"sharings": [
            {"name": "uniform", "foretold": 0.5}, {"name": "this table", "foretold": 0.125}]}))
    part = "answer_residual_part"
    results(tmp_path / "held.sqlite", {}, {(part, "snapkv"): [[3, 4]], (part, TABLE): [[1, 2], [2, 1]]})
    rows = head_tables.comparison(tmp_path / "prove-35.sqlite", "35 %").splitlines()
    assert rows[0].startswith("| 35 %, 3 held-back prompts |")  # the fourth has no run with the table
    assert rows[2] == "| `full` | 1.000 [1.000, 1.000] |  |  |  |  |  |"
    assert rows[3].startswith("| `snapkv` | 0.333 [0.000, 1.000] | +0.667 [+0.000, +1.000] | 1.83 | 0.500 [0.500, 0.500] | -0.250 ")
    assert rows[4].endswith("|  | 1.17 | 0.250 [0.250, 0.250] |  | 1.00 |")
    assert head_tables.foretold(tmp_path, "35") == [["35 %", "uniform", "0.5000", "25.0000 [25.0000, 25.0000]"],
                                                    ["35 %", "this table", "0.1250", "5.0000 [5.0000, 5.0000]"]]
    with pytest.raises(SystemExit, match="held.sqlite has no snapkv at 20 %; run scripts/claims/head_tables.sh"):
        head_tables.foretold(tmp_path, "20")
    with pytest.raises(SystemExit, match="prove-50.sqlite is missing"):
        head_tables.comparison(tmp_path / "prove-50.sqlite", "50 %")
