#!/usr/bin/env python3
"""Writes prompts with answers for a chat model, as JSON lines: needles.jsonl and pairs.jsonl.

    scripts/foretell_prompts.py FOLDER [COUNT [SENTENCES [PAIRS]]]

needles: three sentences with a number each, hidden in an essay, and a question for one of them.
pairs: a list of names with a code each, and a question for one. Everything follows from the line's
number. The essay is assets/prompts/real/document.txt.
"""
import json
import random
import re
import sys
from pathlib import Path

PLACES = ["library", "bakery", "harbour", "museum", "garden", "station", "theatre", "castle", "market", "hospital",
          "school", "factory", "stadium", "chapel", "bridge", "tower", "mill", "farm", "quarry", "brewery"]
NAMES = ["Anna", "Boris", "Clara", "David", "Elena", "Felix", "Greta", "Henry", "Irene", "Jonas", "Karin", "Louis",
         "Maria", "Nils", "Olga", "Peter", "Rosa", "Simon", "Tessa", "Victor"]
SYSTEM = "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face<|im_end|>\n"


def essay():
    text = (Path(__file__).parent.parent / "assets/prompts/real/document.txt").read_text(encoding="utf-8")
    text = re.sub(r"<\|[^|]*\|>\w*|^@@\w+$|^You are a helpful.*$", "", text, flags=re.M)
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", text)]
    return [s for s in sentences if 30 < len(s) < 300]


def line(context, question, prefix, answer, evidence):
    return {"input": f"{SYSTEM}<|im_start|>user\n{context}\n\n{question}",
            "answer_prefix": f"<|im_end|>\n<|im_start|>assistant\n{prefix}",
            "outputs": [answer], "needle": evidence}


def needles(i, sentences, count):
    """The i-th prompt: a question for one of three numbers."""
    chance = random.Random(f"needles {i}")
    places = chance.sample(PLACES, 3)
    numbers = chance.sample(range(1000, 10000), 3)
    start = chance.randrange(len(sentences))
    text = [sentences[(start + k) % len(sentences)] for k in range(count)]
    facts = [f"The secret code of the {place} is {number}." for place, number in zip(places, numbers)]
    for fact, at in sorted(zip(facts, sorted(chance.sample(range(1, count), 3))), key=lambda x: -x[1]):
        text.insert(at, fact)
    asked = chance.randrange(3)
    question = f"What is the secret code of the {places[asked]} in this text?"
    return line(" ".join(text), question, f"The secret code of the {places[asked]} is", str(numbers[asked]),
                facts[asked])


def pairs(i, count):
    """The i-th prompt: a question for one of `count` pairs of a name, a place and a code."""
    chance = random.Random(f"pairs {i}")
    keys = chance.sample([(n, p) for n in NAMES for p in PLACES], count)
    codes = chance.sample(range(100, 1000), count)
    lines = [f"{name} of the {place}: {code}." for (name, place), code in zip(keys, codes)]
    asked = chance.randrange(count)
    name, place = keys[asked]
    context = "Here is a list of people with their numbers.\n" + "\n".join(lines)
    return line(context, f"What is the number of {name} of the {place}?", f"{name} of the {place}:",
                str(codes[asked]), lines[asked])


def main():
    folder = Path(sys.argv[1])
    count, length, size = (int(a) for a in (sys.argv[2:] + ["50", "20", "30"][len(sys.argv) - 2:])[:3])
    folder.mkdir(parents=True, exist_ok=True)
    sentences = essay()
    for name, prompts in (("needles", [needles(i, sentences, length) for i in range(count)]),
                          ("pairs", [pairs(i, size) for i in range(count)])):
        with open(folder / f"{name}.jsonl", "w", encoding="utf-8") as file:
            for one in prompts:
                file.write(json.dumps(one, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
