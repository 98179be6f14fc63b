"""The corpus, its files and the tokenizer."""
import collections
import csv
import json
import math
import subprocess
import sys
from pathlib import Path

import pytest
from trainer.corpus import (ANSWER, BOS, NAMES, NEWLINE, PLACES, QUOTED, THINGS, Corpus, Language, Mix, Random, Vocabulary,
                            question)
from trainer.prompts import KINDS, prompt_file, tokenizer_model, write_prompt_set

ROOT = Path(__file__).resolve().parents[2]
EVERYTHING = Mix(drill=0.1, repetition=0.2, paragraph=0.2)
TALES = Mix(repetition=0.0, cipher=0.0, ledger=0.0, story=0.0, tale=1.0, fact=0.0, needle=0.0, recall=0.0)
VOCABULARY = Vocabulary()


def test_the_vocabulary_is_the_demo_models():
    assert tokenizer_model(VOCABULARY) == (ROOT / "assets/demo-model/tokenizer.model").read_bytes()
    word, mark = VOCABULARY.word, VOCABULARY.mark
    assert VOCABULARY.text([BOS, word("Ada"), mark(","), word(47), NEWLINE, word("barn")]) == "Ada, 47\n barn"
    with pytest.raises(KeyError):
        word("xylophone")


def test_sequences_follow_from_seed_and_index_and_have_the_length_asked_for():
    one, same, other = Corpus(VOCABULARY, 3), Corpus(VOCABULARY, 3), Corpus(VOCABULARY, 4)
    assert one.sequence(5, 300, EVERYTHING) == same.sequence(5, 300, EVERYTHING)
    assert one.needle_prompt(5, 300, 2) == same.needle_prompt(5, 300, 2)
    assert one.sequence(5, 300, EVERYTHING) not in (one.sequence(6, 300, EVERYTHING), other.sequence(5, 300, EVERYTHING))
    for length in (2, 17, 500):
        for index in range(50):
            ids, roles = one.sequence(index, length, EVERYTHING)
            assert len(ids) == len(roles) == length and ids[0] == BOS
            assert all(NEWLINE <= id < len(VOCABULARY) for id in ids[1:])


@pytest.mark.parametrize("quiz", [False, True])
def test_answers_follow_from_the_text(quiz):
    # "... numbers for WORD is: NUMBER" states an answer, "... number for WORD is: NUMBER" gives it. A quiz asks for each
    # of its needles once, in another order: no answer before helps with the next.
    mix = Mix(repetition=0.0, quiz=1.0) if quiz else Mix(repetition=0.0, cipher=0.5, ledger=0.5, story=0.5, fact=0.0,
                                                         needle=2.0, recall=0.4)
    corpus, answers, reordered = Corpus(VOCABULARY, 3), 0, 0
    for index in range(40):
        ids, roles = corpus.sequence(index, 600 if quiz else 400, mix)
        said, asked = {}, []
        for t in range(5, len(ids)):
            if roles[t] == ANSWER:
                assert ids[t - 5] == VOCABULARY.word("number") and ids[t] == said[ids[t - 3]]
                assert not quiz or ids[t - 3] not in asked
                asked.append(ids[t - 3])
                answers += 1
            elif ids[t - 5] == VOCABULARY.word("numbers") and ids[t - 1] == VOCABULARY.mark(":"):
                assert ids[t - 3] not in said
                said[ids[t - 3]] = ids[t]
        reordered += asked != list(said)[:len(asked)]
    assert answers > 100 and (not quiz or reordered > 30)
    # A long sequence has several quizzes, and ends with other text where no number is free.
    assert len(corpus.sequence(1, 5000, mix)[0]) == 5000


def test_quoted_tokens_were_there_before():
    quoted = 0
    for index in range(40):
        ids, roles = Corpus(VOCABULARY, 3).sequence(index, 300, EVERYTHING)
        for t in range(1, len(ids)):
            # The first token of a drill's next round follows on another word.
            if roles[t - 1] == roles[t] == QUOTED:
                assert ids[t] in ids[:t]
                quoted += 1
    assert quoted > 500


@pytest.mark.parametrize("needles", [1, 4])
def test_prompts_say_their_answer_where_they_say_they_do(needles):
    corpus = Corpus(VOCABULARY, 9)
    for index in range(30):
        prompt = corpus.needle_prompt(index, 300, needles)
        assert 200 < len(prompt.ids) <= 300
        for at, answer, word, (begin, end) in zip(prompt.answer_positions, prompt.answers, prompt.words, prompt.spans,
                                                  strict=True):
            assert (prompt.ids[at], prompt.ids[at - 3]) == (answer, word) and begin < at < end
        assert prompt.ids[prompt.question_begin:] == question(VOCABULARY, prompt.words[prompt.asked])
    with pytest.raises(ValueError, match="no room"):
        corpus.needle_prompt(0, 40, 4)


def test_followers_have_shares_and_everything_leads_to_a_full_stop():
    language, stop = Language(VOCABULARY), VOCABULARY.mark(".")
    for followers in language.followers.values():
        assert math.isclose(sum(share for _, share in followers), 1.0)
        assert all(share > 0.0 and id in language.followers for id, share in followers)
    assert len(language.followers) > len(NAMES) + len(THINGS) + len(PLACES)
    for article in ("a", "an"):
        for id, _ in language.followers[VOCABULARY.word(article)]:
            assert (VOCABULARY.text([id])[0] in "aeiou") == (article == "an")
    random = Random(5)
    for _ in range(200):
        word, length = language.next(stop, random), 1
        while word != stop:
            word, length = language.next(word, random), length + 1
            assert length < 200
    kettle, draws = VOCABULARY.word("kettle"), 20000
    seen = collections.Counter(language.next(kettle, random) for _ in range(draws))
    for id, share in language.followers[kettle]:
        assert abs(seen[id] / draws - share) < 4.0 * math.sqrt(share * (1.0 - share) / draws)
    with pytest.raises(KeyError):
        language.next(BOS, random)


def test_in_a_tale_the_next_word_follows_from_the_current_word_alone():
    # After each pair (u, "the") the next word has the distribution that it has after "the": Pearson's chi-squared
    # statistic, whose mean is its degrees of freedom where that holds.
    corpus, the, kinds = Corpus(VOCABULARY, 17), VOCABULARY.word("the"), (1, 2, None)
    counts = collections.defaultdict(collections.Counter)
    for index in range(300):
        ids, _ = corpus.sequence(index, 400, TALES)
        for t in range(2, len(ids)):
            if ids[t - 1] == the:
                counts[ids[t - 2]][VOCABULARY.kind(ids[t])] += 1
    expected = collections.Counter()
    for id, share in Language(VOCABULARY).followers[the]:
        expected[VOCABULARY.kind(id)] += share
    statistic = freedom = 0.0
    for row in counts.values():
        total = sum(row.values())
        if total >= 30:
            freedom += 2.0
            statistic += sum((row[kind] - total * expected[kind]) ** 2 / (total * expected[kind]) for kind in kinds)
    assert freedom > 40 and abs(statistic - freedom) < 4.0 * math.sqrt(2.0 * freedom)


def test_triggers_repeat_what_they_say():
    again, asks, word = VOCABULARY.word("again"), VOCABULARY.mark("?"), VOCABULARY.word
    kinds, asides, echoes = {word("Who"): 0, word("What"): 1, word("Where"): 2}, collections.Counter(), 0
    for index in range(50):
        ids, roles = Corpus(VOCABULARY, 17).sequence(index, 400, TALES)
        for t in range(2, len(ids)):
            assert (roles[t] == QUOTED) == (ids[t - 1] in (asks, again))
            if ids[t - 1] == again:
                assert ids[t] == ids[t - 2]
                echoes += 1
            elif ids[t - 1] == asks:
                kind = kinds[ids[t - 2]]
                assert ids[t] == next(id for id in reversed(ids[:t - 2]) if VOCABULARY.kind(id) == kind)
                asides[kind] += 1
    assert echoes > 300 and all(asides[kind] > 50 for kind in range(3))


def read_set(folder, **changes):
    settings = dict(kinds=["needle", "mixed"], lengths=[200], count=2, seed=1, json_lines=False) | changes
    write_prompt_set(folder, **settings)
    return {path.name: path.read_text() for path in folder.iterdir() if path.suffix != ".csv"}


def test_prompt_sets(tmp_path):
    kvloupe = pytest.importorskip("kvloupe")
    files = read_set(tmp_path / "all", kinds=list(KINDS), lengths=[120, 300], count=2)
    rows = list(csv.DictReader((tmp_path / "all" / "prompts.csv").open()))
    assert len(files) == len(rows) == len(KINDS) * 2 * 2
    parts = [kvloupe.read_prompt(tmp_path / "all" / row["file"]) for row in rows]
    for row, part, (ids, _) in zip(rows, parts, kvloupe.Tokenizer(ROOT / "assets/demo-model").encode_all(parts)):
        length, made, text = int(row["file"].split("-")[1]), int(row["tokens"]), "".join(text for _, text in part)
        # Line ends beside a marker are not a part of the text.
        assert 0.6 * length < made <= length and abs(len(ids) - made) <= 12
        if row["kind"].startswith("needle"):
            assert part[-1][0] == "question" and text.endswith(" is:") and f" is: {row['answer']}." in text
        else:
            assert made == length and not row["answer"]
    small, large = read_set(tmp_path / "small"), read_set(tmp_path / "large", count=5)
    assert small.items() <= large.items() and len(set(large.values())) == 10
    assert not small.items() & read_set(tmp_path / "other", seed=2).items()
    lines = read_set(tmp_path / "lines", json_lines=True)
    assert set(lines) == {"needle-00200.jsonl", "mixed-00200.jsonl"}
    for i, line in enumerate(map(json.loads, lines["needle-00200.jsonl"].splitlines())):
        assert small[f"needle-00200-{i:04}.txt"].endswith(line["input"].rsplit("\n", 1)[-1] + "\n")
        assert f" is: {line['outputs'][0]}." in line["input"]


def test_prompt_files_have_their_segments():
    prompt = Corpus(VOCABULARY, 12).needle_prompt(1, 300, 4)
    parts = collections.Counter(line for line in prompt_file(prompt, VOCABULARY).splitlines() if line.startswith("@@"))
    assert parts["@@needle"] == 4 and parts["@@question"] == 1


@pytest.mark.parametrize("words, problem", [
    (["prompt-set", "--kinds", "needl"], "needl is not one of needle, needles"),
    (["prompt-set", "--kinds", "needles", "--lengths", "30"], "no room for 4 needles"),
    (["corpus", "--recipe", "assets/demo-model/recipe.json", "--stage", "99"], "the recipe has the stages 0 to 8")])
def test_what_cannot_be_written_is_said(tmp_path, words, problem):
    target = [] if words[0] == "corpus" else ["-o", tmp_path / "set"]
    done = subprocess.run([sys.executable, "-m", "trainer", *words, *target], cwd=ROOT, text=True, capture_output=True)
    assert done.returncode in (1, 2) and problem in done.stderr and "Traceback" not in done.stderr
