"""Sets of prompts that are made by rule (docs/tasks.md), read again from what was written: a naive program that solves each task
gets exactly its answers."""
from __future__ import annotations

import collections
import json
import math
import random
import re
import sqlite3
import uuid
from pathlib import Path
from typing import Any

import pytest

import kvloupe
from kvloupe import KvloupeError, engine, program
from kvloupe.prompt import find_prompts

from needs import need

need("engine", "kvloupe-capture")
ROOT = Path(__file__).resolve().parents[2]
DEMO = ROOT / "assets/demo-model"
PAIRS = (LISTS := json.loads((ROOT / "assets/tasks/words.json").read_text()))["pairs"]
NOISE = "The grass is green. The sky is blue. The sun is yellow. Here we go. There and back again."
NEEDLE = r"One of the special magic (?:numbers|uuids) for ([\w-]+) is: ([\w-]+)\."
Line = dict[str, Any]


@pytest.fixture(scope="module")
def sets() -> dict[str, list[Line]]:
    made: dict[str, list[Line]] = collections.defaultdict(list)
    for line in kvloupe.tasks("all", DEMO, 2400, 8) + [one | {"task": "cwe_long"} for one in kvloupe.tasks("cwe", DEMO, 4500, 2)]:
        made[line["task"]].append(line)
    return made


def listed(text: str) -> list[str]:
    """The words of a numbered list, whose numbers count from 1."""
    found = re.findall(r"(\d+)\. ([\w-]+)", text)
    assert [int(number) for number, _ in found] == list(range(1, len(found) + 1))
    return [word for _, word in found]


def solved(line: Line) -> list[str]:
    text, question = line["input"].rstrip("\n").rsplit("\n", 1)
    if line["task"].startswith("niah"):
        keys = re.split(", and |, ", re.search("for (.+) mentioned", question)[1])  # type: ignore[index]
        return [value for wanted in keys for key, value in re.findall(NEEDLE, text) if key == wanted]
    if line["task"] == "vt":
        known, values = [], {re.search("value (.+) in", question)[1]}  # type: ignore[index]
        for name, of in re.findall(r"^VAR (\w+) = (?:VAR )?(\w+) ?$", text, re.M):
            if of in values:
                known.append(name)
                values.add(name)
        return known
    if line["task"].startswith("cwe"):
        return [word for word, _ in collections.Counter(listed(text.rsplit("most often.\n", 1)[1])).most_common(10)]
    if line["task"] == "fwe":
        return [word for word, _ in collections.Counter(text.split("coded words. ")[1].split()).most_common(4)[1:]]
    needle = next(one for one, asked in PAIRS if asked in question)
    return re.findall(re.escape(needle).replace(r"\{name\}", r"\b(\w+)"), text)


def test_a_program_that_reads_the_rules_finds_every_answer(sets: dict[str, list[Line]]) -> None:
    assert {len(lines) for name, lines in sets.items() if name != "cwe_long"} == {8} and len(sets) == 14
    for name, lines in sets.items():
        for line in lines:
            if name == "instructions":
                continue
            found = solved(line)
            assert sorted(found) == sorted(line["outputs"]), name
            assert engine.ask("found_share", [" and ".join(found), line["outputs"]]) == 1.0 and line["scoring"] == "answer_all"


def test_needles_are_rulers(sets: dict[str, list[Line]]) -> None:
    for name, (needles, values, uuids) in {"single_1": (1, 1, 0), "single_2": (1, 1, 0), "single_3": (1, 1, 1), "multikey_1": (4, 1, 0),
                                           "multivalue": (4, 4, 0), "multiquery": (4, 4, 0), "multikey_2": (0, 1, 0),
                                           "multikey_3": (0, 1, 2)}.items():
        for line in sets[f"niah_{name}"]:
            word = ("numbers", "uuids")[uuids > 0]
            head, *body, question = line["input"].split("\n")
            pairs = re.findall(NEEDLE, line["input"])
            if values == 1:
                word = word[:-1]
                assert head.startswith(f"A special magic {word} is hidden within the following text. Make sure to memorize it. I will")
                assert re.fullmatch(f"What is the special magic {word} for \\S+ mentioned in the provided text\\?", question)
                assert line["answer_prefix"] == " The" + question[len("What is the"):-1].rstrip("?") + " is"
            else:
                assert head == (f"Some special magic {word} are hidden within the following text. Make sure to memorize it. "
                                f"I will quiz you about the {word} afterwards.")
                assert question.startswith(f"What are all the special magic {word} for ") and line["answer_prefix"].endswith(" are")
            assert len(pairs) == (needles or len(body)) and len({value for _, value in pairs}) == len(pairs)
            assert len({key for key, _ in pairs}) == (1 if name == "multivalue" else len(pairs))
            for key, value in pairs:
                assert uuid.UUID(value).version == 4 if uuids else re.fullmatch(r"[1-9]\d{6}", value)
                assert uuid.UUID(key).version == 4 if uuids == 2 else re.fullmatch("[a-z]+-[a-z]+", key)
            assert line["max_new_tokens"] == 128 and len(line["outputs"]) == values
            if name == "single_1":
                assert set(body) - set(line["needle"]) == {NOISE}
            if needles and name != "single_1":  # between sentences; the last one is cut off
                assert all(re.search(rf"(^|[.!?] ){re.escape(one)} |{re.escape(one)}$", body[0]) for one in line["needle"]) and len(body) == 1
    assert len({line["input"].index(line["needle"][0]) // 500 for line in sets["niah_single_2"]}) > 3


def test_counts_are_rulers(sets: dict[str, list[Line]]) -> None:
    for line in sets["vt"]:
        example, text = line["input"].rsplit("Memorize and track", 1)
        chain = [one for one in text.split("\n") if one.startswith("VAR")]
        assert [one.strip() for one in chain] == line["needle"] and all(re.fullmatch("[A-Z]{5}", name) for name in line["outputs"])
        assert set(text.split("\n")[2:-1]) - set(chain) == {NOISE}
        value = re.search(r"(\d{5}) in the", text)[1]  # type: ignore[index]
        assert line["answer_prefix"].endswith(f"5 variables are assigned the value {value}, they are: ")
        assert example.split("they are: ")[1].split() == re.findall(r"VAR ([A-Z]{3}) =", example) and value not in example
    for name, often, seldom, words in (("cwe", 6, 1, (20, 3, 1)), ("cwe_long", 30, 3, (40, 10, 3))):
        for line in sets[name]:
            first, second = (collections.Counter(listed(part.split("\nQuestion")[0])) for part in line["input"].split("most often.\n")[1:])
            assert (len(first), *sorted(set(first.values()), reverse=True)) == words and not set(first) & set(second)
            assert {second.pop(word) for word in line["outputs"]} == {often} and set(second.values()) == {seldom}
            shown = listed(line["input"].split("list are:")[1].split("\nBelow")[0])
            assert set(shown) == {word for word, count in first.items() if count == words[1]} and line["max_new_tokens"] == 120
    for line in sets["fwe"]:
        counts = collections.Counter(line["input"].split("coded words. ")[1].split("\n")[0].split())
        ranks = [count for _, count in counts.most_common()]
        n = next(n for n in range(10_000) if int(n * 6 / math.pi ** 2) == ranks[0] and int(n * 6 / math.pi ** 2 / 4) == ranks[1])
        assert abs(sum(ranks) - sum(int(n * 6 / math.pi ** 2 / rank ** 2) for rank in range(1, (2400 - 50) // 50 + 1))) < 9
        assert counts["..."] == ranks[0] and all(re.fullmatch("[a-z]{6}", word) for word in counts if word != "...")


def test_paraphrases_share_no_word_with_their_question(sets: dict[str, list[Line]]) -> None:
    small = set("a an the of in to on at for by with from and or be been is has was it its who whose".split())
    assert len(PAIRS) == len({question for _, question in PAIRS}) == 40
    for needle, question in PAIRS:
        mine, asked = (set(re.findall("[a-z]+", text.lower().replace("{name}'s", "").replace("{name}", ""))) - small for text in (needle, question))
        assert mine and asked and not {word[:5] for word in mine} & {word[:5] for word in asked}, question
    assert all(line["needle"] == [needle.replace("{name}", *line["outputs"])] for (needle, _), line in zip(PAIRS, sets["paraphrase"]))


def test_no_word_is_part_of_another() -> None:
    for words in (LISTS["nouns"] + LISTS["adjectives"], LISTS["names"]):
        assert not [(a, b) for a in words for b in words if a != b and a in b]


def naive(answer: str, rule: Line) -> bool:
    text, count, words = rule.get("text", "").lower(), rule.get("count"), re.findall("[a-z0-9]+", answer.lower())
    return bool(words) and {
        "small_letters": lambda: answer == answer.lower(), "no_digit": lambda: not re.search("[0-9]", answer),
        "word_times": lambda: words.count(text) == count, "without_word": lambda: text not in words,
        "bullets": lambda: len(re.findall(r"^[ \t]*-(?: .*)?$", answer, re.M)) == count, "first_word": lambda: words[0] == text,
        "last_phrase": lambda: answer.strip().lower().endswith(text), "no_comma": lambda: "," not in answer,
        "most_words": lambda: len(words) <= count, "paragraphs": lambda: len(re.split(r"\n\s*\n", answer.strip())) == count}[rule["rule"]]()


def test_rules_are_checked_as_a_second_reading_does(sets: dict[str, list[Line]]) -> None:
    lines, chance, scores = sets["instructions"], random.Random(1), set()
    assert [len(line["rules"]) for line in lines] == [1, 2, 3, 4, 5, 6, 1, 2]
    for line in lines:
        names = {rule["rule"] for rule in line["rules"]}
        assert len(names) == len(line["rules"]) and line["scoring"] == "answer_rules"
        listing = "".join(f"{at}. {text}\n" for at, text in enumerate(line["needle"], 1))
        assert f"must follow these rules:\n{listing}\n" in line["input"] and line["outputs"] == []
        texts = [rule["text"] for rule in line["rules"] if "text" in rule]
        for _ in range(60):
            parts = ["\n\n", "\n- ", ", ", " ", "Well", "SEA 7", "today ", "a b ", "indeed", *texts, *texts]
            answer = "".join(chance.choices(parts, k=chance.randrange(12))) + chance.choice(["", *texts])
            want = sum(naive(answer, rule) for rule in line["rules"]) / len(line["rules"])
            assert engine.ask("rules_followed", [answer, line["rules"]]) == pytest.approx(want), (answer, line["rules"])
            scores.add(want)
    assert len(scores) > 5


def test_sets_are_scored_and_their_rules_kept(model: Any, tokenizer: Any, tmp_path: Path) -> None:
    prompts = kvloupe.tasks(["niah_single_1", "instructions"], tokenizer, 600, 2, seed=7)
    rows = kvloupe.evaluate(model, tokenizer, tmp_path / "r.sqlite", policies="keydiff", budgets="50%", prompts=prompts,
                            tasks={"task": "answer", "tokens": 6}, progress=False)
    table = {name: list(rows[name]) for name in ("answer_all", "answer_found", "answer_rules")}
    assert [math.isnan(value) for value in table["answer_all"]] == [math.isnan(value) for value in table["answer_found"]] == [
        not math.isnan(value) for value in table["answer_rules"]] == [False] * 4 + [True] * 4
    with sqlite3.connect(tmp_path / "r.sqlite") as file:
        kept = file.execute("SELECT stored, answer FROM run_prompts JOIN prompts USING (prompt) ORDER BY item").fetchall()
    again = [engine.ask("rules_followed", [answer, json.loads(stored)["rules"]]) for stored, answer in kept[4:]]
    assert again == table["answer_rules"][4:] and "rules" not in json.loads(kept[0][0])
    program.run("tasks", "niah_single_1,instructions", "--model", DEMO, "--length", 600, "--count", 2, "--seed", 7, "-o", tmp_path / "sets",
                name="kvloupe-capture")
    assert [json.loads(line) for name in ("niah_single_1", "instructions") for line in (tmp_path / f"sets/{name}.jsonl").open()] == prompts


def test_what_is_wrong_is_one_line(tmp_path: Path) -> None:
    for name, length, why in (("vt,nihilo", 900, 'nihilo not in {all,niah_single_1,'), ("niah_single_1,cwe", 500, "cwe needs at least")):
        with pytest.raises(KvloupeError, match=why):
            program.run("tasks", name, "--model", DEMO, "--length", length, "-o", tmp_path / "none", name="kvloupe-capture")
        assert not (tmp_path / "none").exists()
    file = tmp_path / "bad.jsonl"
    for fields, why in (({"context": "", "question": "q?", "answers": ["a"]}, "line 1 has a question, but no context"),
                        ({"text": "t", "rules": [{"rule": "rhyme"}]}, "line 1 has a rule that cannot be checked")):
        file.write_text(json.dumps(fields))
        with pytest.raises(KvloupeError, match=why):
            program.run("run", "--model", DEMO, "--prompt-set", file, "-o", tmp_path / "none", name="kvloupe-capture")
        assert not list((tmp_path / "none").glob("*.h5"))
    file.write_text(json.dumps({"context": "It is 47. The key is 47.", "needle": "The key is 47.", "question": "q?", "answers": ["47"]}))
    with pytest.warns(kvloupe.KvloupeWarning, match='bad.jsonl: line 1 has the answer "47" outside of its needle, too'):
        assert find_prompts(file)[0].read()[1] == ["47"]
