"""The page on why evidence was lost, from made-up replays and rescues."""
from __future__ import annotations

import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts/claims"))

import causes_page  # noqa: E402


def head(attention: float, kept: float, unseen: float, misranked: float, cut: float) -> dict:
    return {"evidence_attention": attention, "evidence_kept": kept, "evidence_unseen": unseen, "evidence_misranked": misranked,
            "evidence_cut": cut, "layer_eviction_ratio": 0.5, "global_eviction_ratio": 0.25}


HEADS = {"0.0": head(0.3, 0.0, 0.0, 0.75, 0.25), "0.1": head(0.1, 0.5, 0.5, 0.0, 0.0)}


def test_shares_are_means_over_heads_and_weighted_by_their_attention() -> None:
    assert causes_page.share_row("p", HEADS) == [
        "`p`", "25 % (12 %)", "25 % (12 %)", "38 % (56 %)", "12 % (19 %)", "50 %", "25 %"]


def test_a_head_is_named_by_its_largest_cause() -> None:
    assert causes_page.causes_of(HEADS["0.0"]) == "ranked low"
    assert causes_page.causes_of(HEADS["0.1"]) == "not seen"
    assert causes_page.causes_of(head(0.3, 1.0, 0.0, 0.0, 0.0)) == "kept"


def test_leave_one_out_tells_signs_from_sizes(tmp_path: Path) -> None:
    gains = [-1.0, 0.5, -0.2, 0.1, 0.0]
    heads = [{"layer": i, "head": 0, "attention": a, "score_rank": 0.1 * i, "drop_blame": -a}
             for i, a in enumerate([0.5, 0.4, 0.3, 0.2, 0.1])]
    (tmp_path / "leave-one-out.json").write_text(json.dumps({
        "drop": {"all": {"gain": -3.0}, "heads": [{"layer": i, "head": 0, "gain": gain} for i, gain in enumerate(gains)]},
        "predicted": {"heads": heads}}), encoding="utf-8")
    rows, largest, whole, count, signs = causes_page.leave_one_out(tmp_path)
    assert (whole, count, signs) == (3.0, 5, [2, 2])
    assert largest.startswith("0.0 1.00, 2.0 0.20")
    assert rows[0][1].startswith("0.30 (")  # falls 1 -0.5 0.2 -0.1 0 against attention 5 4 3 2 1
    assert rows[2][1].startswith("-0.30 (")
    assert rows[2][2] == rows[0][2] == "1.00 (1.00 to 1.00)"  # sizes have the same order as attention
