"""The scripts behind docs/claims.md: intervals, verdicts, numbers per prompt, and the page of a made results folder."""
from __future__ import annotations

import itertools
import json
import math
import random
import re
import sqlite3
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts/claims"
sys.path.insert(0, str(SCRIPTS))

import claims_check  # noqa: E402
import claims_kept  # noqa: E402
import claims_page  # noqa: E402
import claims_places  # noqa: E402
import claims_prompts  # noqa: E402
import claims_study  # noqa: E402
from claims_rows import ROWS  # noqa: E402
from claims_verdict import t_quantile, verdict, written  # noqa: E402

LAYERS, HEADS = 30, 3


def one_line(run: Any, *words: str) -> None:
    with pytest.raises(SystemExit) as caught:
        run()
    line = str(caught.value)
    assert "\n" not in line
    for word in words:
        assert word in line


def test_quantiles_are_those_of_printed_tables() -> None:
    for freedom, printed in ((1, 12.7062), (2, 4.3027), (4, 2.7764), (29, 2.0452), (99, 1.9842)):
        assert t_quantile(freedom) == pytest.approx(printed, abs=1e-4)


def test_verdicts() -> None:
    numbers = [1, 2, 3, 4, 5]  # mean 3, standard deviation 1.5811, half of the interval 2.7764 * 1.5811 / sqrt(5) = 1.9632
    assert verdict(numbers, ">", 1) == (3, pytest.approx(1.9632, abs=1e-4), "holds")
    assert verdict(numbers, ">", 1.1)[2] == verdict(numbers, "<", 1.1)[2] == "cannot be told"
    assert verdict(numbers, "<", 5)[2] == "holds"
    assert verdict(numbers, ">", 5)[2] == verdict(numbers, "<", 1)[2] == "does not hold here"
    assert written(numbers) == "3 [1.04, 4.96]"
    for few in ([7], [7, 8], [7, 7, 7, 7]):
        assert verdict(few, ">", 0) == (statistics.fmean(few), None, "cannot be told")
    assert verdict([7] * 10, ">", 0)[1:] == (None, "holds")
    assert verdict([7] * 10, "<", 0)[1:] == (None, "does not hold here")
    assert verdict([0] * 10, ">", 0)[1:] == (None, "cannot be told")


def results(path: Path, values: dict, heads: dict | None = None, waiting: tuple = (), names: tuple = ()) -> None:
    """A results file (docs/studies.md): values {(prompt, policy, budget, block, measure): value}, heads the same with layer
    and head at the end."""
    with sqlite3.connect(path) as file:
        file.executescript("""
            CREATE TABLE traces (trace INTEGER PRIMARY KEY, name);
            CREATE TABLE items (item INTEGER PRIMARY KEY, trace, policy, budget, block, state);
            CREATE TABLE measures (measure INTEGER PRIMARY KEY, name);
            CREATE TABLE replay_values (item, measure, value);
            CREATE TABLE head_values (item, measure, layer, head, value);""")
        items: dict = {}
        measures: dict = {}

        def keys(item: tuple, measure: str) -> tuple[int, int]:
            if item not in items:
                file.execute("INSERT OR IGNORE INTO traces VALUES (?, ?)", (item[0], names[item[0]] if names else f"traces/{item[0]}.h5"))
                items[item] = file.execute("INSERT INTO items (trace, policy, budget, block, state) VALUES (?, ?, ?, ?, ?)",
                                           (*item, "waiting" if item[0] in waiting else "done")).lastrowid
            if measure not in measures:
                measures[measure] = file.execute("INSERT INTO measures (name) VALUES (?)", (measure,)).lastrowid
            return items[item], measures[measure]
        for (*item, measure), value in values.items():
            file.execute("INSERT INTO replay_values VALUES (?, ?, ?)", (*keys(tuple(item), measure), value))
        for (*item, measure, layer, head), value in (heads or {}).items():
            file.execute("INSERT INTO head_values VALUES (?, ?, ?, ?, ?)", (*keys(tuple(item), measure), layer, head, value))


def test_numbers_of_prompts(tmp_path: Path) -> None:
    values = {(prompt, policy, "20%", block, "change"): number for (prompt, policy, block), number in {
        (1, "a", "32"): 5, (1, "a", "all"): 2, (1, "b", "32"): 4, (1, "b", "all"): 3,
        (2, "a", "32"): 9, (2, "a", "all"): 1, (2, "b", "32"): 2, (2, "b", "all"): None,
        (3, "a", "32"): 100, (3, "a", "all"): 100, (3, "b", "32"): 0, (3, "b", "all"): 0}.items()}
    heads = {(prompt, policy, "20%", "32", "error", layer, 0): number for (prompt, policy, layer), number in {
        (1, "a", 0): 1, (1, "a", 1): 2, (1, "b", 0): 3, (1, "b", 1): 1, (2, "a", 0): 1, (2, "a", 1): 1, (2, "b", 0): 2, (2, "b", 1): 2,
        (3, "a", 0): 1, (3, "b", 0): 9}.items()}
    heads |= {(prompt, "a", "20%", "32", "met", layer, 0): layer for prompt in (1, 2) for layer in (0, 1)}
    heads |= {(prompt, policy, "20%", "32", "bound", layer, 0): layer * (policy == "a") for prompt in (1, 2) for policy in "ab"
              for layer in (0, 1)}
    results(tmp_path / "s.sqlite", values, heads, waiting=(3,))
    study = claims_study.Study(tmp_path / "s.sqlite")
    assert study.prompts("change", "a", "20%", "32") == {"1.h5": 5, "2.h5": 9}  # 3 has items to do
    assert claims_study.rise(study, "change", "a", "32", "all") == {"1.h5": 3, "2.h5": 8}
    assert claims_study.rise(study, "change", "b", "32", "all") == {"1.h5": 1}
    assert claims_study.less(claims_study.rise(study, "change", "a", "32", "all"), claims_study.rise(study, "change", "b", "32", "all")) == [2]
    assert claims_study.lower(study, "error", "a", "b") == [0.5, 1]
    assert claims_study.lower_if(study, "error", "a", "b", ("met", lambda v: v == 1), "20%") == [0, 1]
    assert claims_study.lower_if(study, "error", "a", "b", ("met", lambda v: v > 1), "20%") == []
    # By the bound a is below b nowhere, by the error in layer 0 of prompt 1 and in both of prompt 2.
    assert claims_study.agreement(study, "error", "bound", "a", "b", "20%") == [0.5, 0]
    assert claims_study.share(study, "error", lambda v: v > 1, "a") == [0.5, 0]
    assert claims_study.share(study, "error", lambda v: v > 1, "a", layers=(1,)) == [1, 0]


def test_needles_that_the_full_cache_misses_are_left_out(tmp_path: Path) -> None:
    answers = {"full": (1, 1, 0, 1), "a": (1, 0, 1, 1), "b": (0, 1, 0, 1)}
    results(tmp_path / "n.sqlite", {(prompt, policy, "full" if policy == "full" else "25%", "128", "answer_found"): value
                                    for policy, of in answers.items() for prompt, value in enumerate(of)})
    study = claims_study.Study(tmp_path / "n.sqlite")
    assert study.answered() == {"0.h5", "1.h5", "3.h5"}
    assert claims_study.found(study, "a", "b", "25%") == [1, -1, 0]


def test_ranks() -> None:
    values = [3, 1, 3, 2, 3]
    assert claims_study.ranks(values) == [4, 1, 4, 2, 4]
    assert list(claims_check.ranks(np.array(values))) == [4, 1, 4, 2, 4]


def made_folder(folder: Path, prompts: int, guessed: tuple = ()) -> None:
    """Results of every study with a number for all that the rows ask for: what they ask for is recorded first. The model answers
    the blind prompts of the tasks guessed."""
    asked: dict = {name: set() for name, _, _ in claims_page.STUDIES}

    class Recorder:
        def __init__(self, name: str) -> None:
            self.name, self.whole, self.place = name, {0, 1}, {0: 0.2, 1: 0.9}

        def prompts(self, measure: str, policy: str = "", budget: str = "20%", block: str | None = None) -> dict:
            asked[self.name].add((measure, policy, budget, block, False))
            return {0: 1.0, 1: 2.0}

        def heads(self, measure: str, policy: str, budget: str, block: str | None = None) -> dict:
            asked[self.name].add((measure, policy, budget, block, True))
            return {prompt: {(layer, head): prompt + layer + head for layer in range(LAYERS) for head in range(HEADS)} for prompt in (0, 1)}

        def part(self, word: str) -> Recorder:
            return self

        def answered(self) -> set:
            return set(self.prompts("answer_found", "full", "full"))
    recorders = {name: Recorder(name) for name in asked}
    for *_, name, compute, _, _ in ROWS:
        compute(recorders[name])
    claims_page.looked_into(recorders)
    chance = random.Random("claims")
    for name, of in asked.items():
        if name == "places":
            (folder / "places.json").write_text(json.dumps({"place": {f"{p}.h5": (p + 0.5) / prompts for p in range(prompts)}}))
            continue
        if name == "kept":
            (folder / "kept.json").write_text(json.dumps({number: {p: chance.random() for p in range(prompts)} for number, *_ in sorted(of)}))
            continue
        values, heads = {}, {}
        if name == "chance":
            blind = [f"{task}-blind#{prompt}" for task in ("questions", "needles", "keyvalue", "variables") for prompt in range(prompts)]
            results(folder / "chance.sqlite", {(i, "full", "full", "128", "answer_found"): int(one.split("#")[0] in guessed)
                                               for i, one in enumerate(blind)}, names=tuple(blind))
            continue
        names = [f"{text}-500.jsonl#{prompt}" for text in ("prose", "plain") for prompt in range(prompts)] if name == "firsts" else []
        for measure, policy, budget, block, by_head in sorted(of, key=str):
            for prompt in range(len(names) or prompts):
                item = (prompt, policy, budget, block or "128", measure)
                values[item] = 1 if measure == "answer_found" and policy == "full" else chance.random()
                if by_head:
                    heads |= {(*item, layer, head): chance.random() for layer in range(LAYERS) for head in range(HEADS)}
        results(folder / f"{name}.sqlite", values, heads, names=tuple(names))


def cells(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")]


def claims_of(text: str) -> dict[str, list[str]]:
    """{claim: facts, ours, verdict}: a case stands below the words and the facts that it shares with others."""
    found, name, facts = {}, "", ""
    for first, *rest in cells(text):
        of = re.fullmatch(r"(\**)(.*?)\1 \(([^()]*(?:\([^()]*\)[^()]*)*× `[\w-]+`)\)", first)
        if of and of[1]:
            name, facts = of[2], of[3]
        elif len(rest) == 2:
            found[of[2] if of else name.replace("…", first)] = [of[3] if of else facts, *rest]
    return found


def test_page_of_made_results(tmp_path: Path) -> None:
    made_folder(tmp_path, 5)
    claim = "Cosine of neighbours, keys − values"
    numbers = next(compute for _, name, *_, compute, _, _ in ROWS if name == claim)(
        claims_study.Study(tmp_path / "states.sqlite").of({"1.h5", "3.h5"}))
    (tmp_path / "check.json").write_text(json.dumps({"traces": ["1.h5", "3.h5"], "rows": {claim: [numbers[1], numbers[0] + 0.25]}}))
    target = tmp_path / "page.md"
    subprocess.run([sys.executable, SCRIPTS / "claims_page.py", tmp_path, target], check=True)
    assert sorted(path.suffix for path in tmp_path.iterdir() if path.suffix == ".part") == []
    text = target.read_text()
    claims, [(*_, apart_most, both)] = claims_of(text), cells(text.partition("## Computed a second time")[2].partition("##")[0])[2:]
    for _, claim, place, theirs, name, _, side, threshold in ROWS:
        prompts = 4 if claim.startswith("Early") else 5
        assert claims[claim][0] == f"{place}: {theirs}; {side} {threshold:g}; {prompts} × `{name}`"
    assert apart_most in ("0.2", "0.3") and both == "2"
    # One row by another road: SQL for the pairs, NumPy for the interval.
    with sqlite3.connect(tmp_path / "sinks.sqlite") as file:
        of = [np.array([value for value, in file.execute(
            "SELECT value FROM replay_values JOIN items USING (item) JOIN measures USING (measure) WHERE name = 'perplexity_loss' "
            "AND policy = ? ORDER BY trace", (policy,))]) for policy in ("sink(0)", "sink")]
    apart = of[0] - of[1]
    half = 2.776445 * apart.std(ddof=1) / math.sqrt(5)
    _, ours, says = claims["Loss of prose (nats), recent tokens alone − with four first tokens, 25 %"]
    assert ours == f"{apart.mean():.3g} [{apart.mean() - half:.3g}, {apart.mean() + half:.3g}]"
    assert says == ("holds" if apart.mean() > half else "does not hold here" if apart.mean() < -half else "cannot be told")


def test_parts_of_manuals_share_no_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of single manuals stand first, so that prompts of earlier runs stay as they were; ends of manuals follow."""
    manuals = {name: [f"{name} {k:02}" for k in range(count)] for name, count in (("A", 25), ("B", 9), ("C", 13), ("D", 8))}
    monkeypatch.setattr(claims_prompts, "MANUALS", list(manuals))
    monkeypatch.setattr(claims_prompts, "manual", manuals.get)
    parts = claims_prompts.parts_of_manuals(50)  # ten sentences of four characters and a space
    assert all(len(sentences) == 10 for _, sentences in parts)
    assert sorted(name for name, _ in parts[:3]) == ["A", "A", "C"]
    assert all(sentence.startswith(name) for name, sentences in parts[:3] for sentence in sentences)
    assert parts[3:] == [("ends of manuals", manuals["A"][20:] + manuals["B"][:5]), ("ends of manuals", manuals["B"][5:] + manuals["C"][10:] + manuals["D"][:3])]
    used = [sentence for _, sentences in parts for sentence in sentences]
    assert len(used) == len(set(used))


def test_a_prompt_has_one_name_wherever_its_run_began() -> None:
    for name, plain in {"prompts/needle-1000.jsonl#7": "needle-1000.jsonl#7", "prompts/needle-1000-from30.jsonl#7": "needle-1000.jsonl#37",
                        "traces/needle-1000-from30-00007.h5": "needle-1000-00037.h5", "traces/needle-1000-00007.h5": "needle-1000-00007.h5",
                        "x/questions-blind-500-from9.jsonl#1": "questions-blind-500.jsonl#10"}.items():
        assert claims_study.plain_name(name) == plain


def test_early_needles_are_those_before_the_last_quarter(tmp_path: Path) -> None:
    answers = {"full": (1, 1, 1, 0), "a": (1, 1, 0, 1), "b": (0, 1, 1, 0)}
    results(tmp_path / "needles.sqlite", {(prompt, policy, "full" if policy == "full" else "25%", "128", "answer_found"): found
                                          for policy, of in answers.items() for prompt, found in enumerate(of)})
    study = claims_study.Study(tmp_path / "needles.sqlite")
    study.place = {"0.h5": 0.1, "1.h5": 0.74, "2.h5": 0.75, "3.h5": 0.2}
    assert claims_study.found(study, "a", "b", "25%") == [1, 0, -1]
    assert claims_study.found_early(study, "a", "b", "25%") == [1, 0]


def test_places_of_needles(tmp_path: Path) -> None:
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts/needle-1000-from5.jsonl").write_text(json.dumps({"input": "0123456789", "needle": "56"}) + "\n")
    (tmp_path / "prompts/needle-blind-1000.jsonl").write_text(json.dumps({"input": "0123456789", "needle": []}) + "\n")
    assert claims_places.places(tmp_path) == {"needle-1000.jsonl#5": 0.5}
    for damaged in ("{", "[]", json.dumps({"input": "0123", "needle": "9"})):
        (tmp_path / "prompts/needle-2000.jsonl").write_text(damaged + "\n")
        one_line(lambda: claims_places.places(tmp_path), "needle-2000.jsonl, line 1 is not a prompt with its needle")


def test_runs_of_other_prompts_add_up(tmp_path: Path) -> None:
    """A page of two runs, five prompts and then three others, is that of one run of eight."""
    whole, first, second, store = (tmp_path / name for name in ("whole", "first", "second", "store"))
    for folder in (whole, first, second, store):
        folder.mkdir()
    made_folder(whole, 8)
    for folder, kept in ((first, lambda number: number < 5), (second, lambda number: number >= 5)):
        for path in whole.glob("*.sqlite"):
            (folder / path.name).write_bytes(path.read_bytes())
            with sqlite3.connect(folder / path.name) as file:
                gone = [(trace,) for trace, name in file.execute("SELECT trace, name FROM traces")
                        if not kept(int(name.split("#")[-1]) if "#" in name else int(Path(name).stem))]
                file.executemany("DELETE FROM items WHERE trace = ?", gone)
        for name in ("kept.json", "places.json"):
            numbers = json.loads((whole / name).read_text())
            (folder / name).write_text(json.dumps({number: {p: value for p, value in of.items() if kept(int(p.split(".")[0]))}
                                                   for number, of in numbers.items()}))
    claims_page.page(first, store)
    assert (store / "states.json.gz").is_file()
    both, once, alone = claims_page.page(second, store), claims_page.page(whole), claims_page.page(tmp_path / "none", store)
    plain = [text.replace(str(folder), "FOLDER") for text, folder in ((both, second), (once, whole), (alone, tmp_path / "none"))]
    assert plain[0] == plain[1] == plain[2]
    before = {path.name: path.read_bytes() for path in store.iterdir()}
    claims_page.page(first, store)  # what is there already
    assert before == {path.name: path.read_bytes() for path in store.iterdir()}
    (store / "states.json.gz").write_bytes(before["states.json.gz"][:100])
    one_line(lambda: claims_page.page(whole, store), "states.json.gz is damaged")


def test_a_task_at_chance_is_left_out(tmp_path: Path) -> None:
    made_folder(tmp_path, 5, guessed=("variables-blind",))
    page = claims_page.page(tmp_path)
    named = "in these tasks, so that they have no rows above: two chains of three variables in a manual."
    assert page.count("A variable's number found") == 0 and named in page
    assert sum(claim.startswith("One of four needles found") for claim in claims_of(page)) == 6
    row = next(line for line in page.splitlines() if line.startswith("| two chains of three variables"))
    assert row.startswith("| two chains of three variables in a manual | 5 | 100 % (57 to 100) | 100 % (57 to 100) | ")


def test_a_task_without_blind_prompts_is_one_line(tmp_path: Path) -> None:
    made_folder(tmp_path, 5)
    with sqlite3.connect(tmp_path / "chance.sqlite") as file:
        file.execute("UPDATE items SET state = 'waiting' WHERE trace IN (SELECT trace FROM traces WHERE name LIKE '%variables%')")
    one_line(lambda: claims_page.page(tmp_path), "chance.sqlite", "variables-blind", "claims.sh")


@pytest.mark.parametrize("prompts, words", [(1, "has 1 whole prompt;"), (2, "has 2 whole prompts;")])
def test_one_prompt_is_one_line(prompts: int, words: str, tmp_path: Path) -> None:
    made_folder(tmp_path, prompts)
    one_line(lambda: claims_page.page(tmp_path), words, "larger COUNT")


def test_missing_and_broken_results_are_one_line(tmp_path: Path) -> None:
    one_line(lambda: claims_page.page(tmp_path), "states.sqlite is missing", "run scripts/claims/claims.sh")
    made_folder(tmp_path, 3)
    (tmp_path / "kept.json").write_text("{")
    one_line(lambda: claims_page.page(tmp_path), "kept.json is not JSON", "delete it")
    (tmp_path / "kept.json").write_text("{}")
    one_line(lambda: claims_page.page(tmp_path), "no values of the study kept", "run scripts/claims/claims.sh again")
    (tmp_path / "states.sqlite").write_bytes(b"no database at all" * 100)
    one_line(lambda: claims_page.page(tmp_path), "states.sqlite", "delete it")


def test_results_without_a_whole_prompt(tmp_path: Path) -> None:
    results(tmp_path / "s.sqlite", {(1, "a", "20%", "128", "m"): 1}, waiting=(1,))
    one_line(lambda: claims_study.Study(tmp_path / "s.sqlite"), "no prompt with all its items done")


@pytest.mark.parametrize("script", ["claims_kept.py", "claims_check.py"])
def test_a_folder_without_traces_is_one_line(script: str, tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, SCRIPTS / script, tmp_path], capture_output=True, text=True)
    assert done.returncode == 1 and done.stderr.count("\n") == 1 and "has no traces; run scripts/claims/claims.sh" in done.stderr


@pytest.mark.parametrize("arguments, word", [(["many"], "COUNT"), (["0"], "COUNT")])
def test_the_shell_script_refuses(arguments: list[str], word: str) -> None:
    done = subprocess.run([SCRIPTS / "claims.sh", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and word in done.stderr


def test_kept_tokens_by_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two heads, a prompt of 200 tokens; a program that answers as kvloupe does."""
    program = tmp_path / "kvloupe"
    program.write_text(f"""#!{sys.executable}
import json, sys
if sys.argv[1] == "info":
    print(json.dumps({{"run": {{"prompt_length": 200}}, "segments": [{{"name": "needle", "first": 0, "end": 2}}]}}))
else:
    block = sys.argv[sys.argv.index("--block") + 1]
    last = {{"1": 199, "32": 6, "128": 1, "all": 0}}[block]
    kept = {{"1": [0, 199], "32": [0, 199], "128": [0, 1], "all": [0, 2]}}[block]
    steps = [{{"retained": [7]}}] * last + [{{"retained": kept}}] + [{{"retained": [200]}}]
    print(json.dumps({{"heads": [{{"layer": 0, "head": 0, "steps": steps, "measures": {{"role_sink": 0.5}}}},
                                {{"layer": 1, "head": 0, "steps": [{{"retained": [9]}}] * 201, "measures": {{"role_sink": 0.1}}}}]}}))
""")
    program.chmod(0o755)
    monkeypatch.setattr(claims_kept, "PROGRAM", program)
    numbers = claims_kept.numbers_of(tmp_path / "t.h5")
    assert numbers["keydiff 128 token 0"] == 1  # head 0.0 rests on token 0 and keeps it
    assert numbers["tova 128 place"] == pytest.approx((0.5 + 9) / 2 / 199)
    assert numbers["h2o 128 needle"] == pytest.approx((1 + 0) / 2)
    assert numbers["h2o 128 overlap"] == pytest.approx((1 / 3 + 1) / 2)
    assert numbers["h2o 32 overlap"] == numbers["h2o 1 overlap"] == pytest.approx((1 / 3 + 1) / 2)
    assert numbers["tova 1 last"] == pytest.approx((1 / 32 + 0) / 2) and numbers["tova all last"] == 0


def test_the_second_program_by_loops() -> None:
    """claims_check.py on a made head, beside sums that are written out."""
    chance = np.random.default_rng(1)
    tokens, d = 12, 4
    layer = {"key": chance.normal(size=(1, tokens, d)), "value": chance.normal(size=(1, tokens, d)), "query": chance.normal(size=(2, tokens, d))}
    head = claims_check.Head(layer, 0, 2, 0.5)
    attention = head.attention()
    for g, q in itertools.product(range(2), range(tokens)):
        weights = [math.exp(0.5 * sum(layer["query"][g, q, c] * layer["key"][0, i, c] for c in range(d))) for i in range(q + 1)]
        assert attention[g, q, :q + 1] == pytest.approx([weight / sum(weights) for weight in weights])
        assert not attention[g, q, q + 1:].any()
    cosine = lambda i, j: float(head.keys[i] @ head.keys[j] / np.linalg.norm(head.keys[i]) / np.linalg.norm(head.keys[j]))
    pairs = [cosine(i, j) for i in range(tokens) for j in range(tokens) if i != j]
    assert claims_check.mean_cosine(head.keys) == pytest.approx(statistics.fmean(pairs))
    assert claims_check.neighbours(head.keys) == pytest.approx(statistics.fmean(cosine(i, i - 1) for i in range(1, tokens)))
    # KeyDiff by pairs: of six entries the four least like the others stay.
    alike = [sum(cosine(i, j) for j in range(6)) for i in range(6)]
    assert list(head.replay(claims_check.keydiff, [(0, 6)], 4)) == sorted(sorted(range(6), key=lambda i: alike[i])[:4])


def test_demo_and_real_model_apart() -> None:
    import toy_and_real_page
    assert toy_and_real_page.apart([1, 2, 3, 4, 5], [7, 8, 9, 10, 11])  # 3 ± 1.96 and 9 ± 1.96
    assert not toy_and_real_page.apart([1, 2, 3, 4, 5], [4, 5, 6, 7, 8])
    assert toy_and_real_page.apart([5.1] * 10, [1, 2, 3, 4, 5]) and not toy_and_real_page.apart([4.9] * 10, [1, 2, 3, 4, 5])
    assert not toy_and_real_page.apart([100] * 9, [1, 2, 3, 4, 5])
