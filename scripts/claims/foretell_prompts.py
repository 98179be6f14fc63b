#!/usr/bin/env python3
"""Writes prompts with answers for a chat model, as JSON lines: needles.jsonl and things.jsonl.

    scripts/claims/foretell_prompts.py FOLDER [COUNT [SENTENCES]]
    scripts/claims/foretell_prompts.py FOLDER COUNT SENTENCES --demo     for the demo model: one.jsonl and four.jsonl

Three sentences are hidden in an essay, and a question asks for one of them. needles: places with a number each.
things: people, and what each of them likes best, a word; the question uses other words than the sentence. Everything
follows from the line's number. The essay is assets/prompts/real/document.txt.
"""
import json
import random
import re
import sys
from pathlib import Path

from claims_prompts import among, prompt
from pages import script, write

PLACES = ["library", "bakery", "harbour", "museum", "garden", "station", "theatre", "castle", "market", "hospital",
          "school", "factory", "stadium", "chapel", "bridge", "tower", "mill", "farm", "quarry", "brewery"]
THINGS = ["mango", "violin", "chess", "sailing", "pottery", "coffee", "jazz", "tennis", "poetry", "cheese", "roses",
          "trains", "maps", "kites", "opera", "honey", "lemons", "turtles", "drums", "ballet"]
NAMES = ["Anna", "Boris", "Clara", "David", "Elena", "Felix", "Greta", "Henry", "Irene", "Jonas", "Karin", "Louis",
         "Maria", "Nils", "Olga", "Peter", "Rosa", "Simon", "Tessa", "Victor"]
ASSETS = Path(__file__).resolve().parents[2] / "assets"


def essay():
    text = (ASSETS / "prompts/real/document.txt").read_text(encoding="utf-8")
    text = re.sub(r"<\|[^|]*\|>\w*|^@@\w+$|^You are a helpful.*$", "", text, flags=re.M)
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", text)]
    return [s for s in sentences if 30 < len(s) < 300]


def hidden(chance, sentences, count, facts):
    """So many sentences of the essay, from some sentence on, with the facts among them."""
    start = chance.randrange(len(sentences))
    return among(chance, [sentences[(start + k) % len(sentences)] for k in range(count)], facts)


def needles(i, sentences, count):
    """The i-th prompt: a question for one of three numbers."""
    chance = random.Random(f"needles {i}")
    places = chance.sample(PLACES, 3)
    numbers = chance.sample(range(1000, 10000), 3)
    facts = [f"The secret code of the {place} is {number}." for place, number in zip(places, numbers)]
    text = hidden(chance, sentences, count, facts)
    asked = chance.randrange(3)
    question = f"What is the secret code of the {places[asked]} in this text?"
    return prompt(text, question, f"The secret code of the {places[asked]} is", str(numbers[asked]), facts[asked])


def things(i, sentences, count):
    """The i-th prompt: a question for what one of three people likes best."""
    chance = random.Random(f"things {i}")
    names, best = chance.sample(NAMES, 3), chance.sample(THINGS, 3)
    facts = [f"{name} told everyone that the best thing in the world is {thing}." for name, thing in zip(names, best)]
    text = hidden(chance, sentences, count, facts)
    asked = chance.randrange(3)
    question = f"What did {names[asked]} say is the best thing in the world?"
    return prompt(text, question, f"{names[asked]} said that the best thing in the world is", best[asked], facts[asked])


def of_demo(i, sentences, count, hidden_numbers):
    """The i-th prompt in the demo model's language, as assets/demo-model/needle.json has it: one number or several."""
    template = json.loads((ASSETS / "demo-model/needle.json").read_text(encoding="utf-8"))
    chance = random.Random(f"demo {hidden_numbers} {i}")
    words = chance.sample(template["words"], hidden_numbers)
    low, high = template["numbers"]
    numbers = chance.sample(range(low, high + 1), hidden_numbers)
    facts = [template["needle"].format(word=word, number=number).strip() for word, number in zip(words, numbers)]
    question = template["question"].format(word=words[0])
    return {"input": " " + hidden(chance, sentences, count, facts) + question, "outputs": [str(numbers[0])],
            "needle": facts[0]}


def demo_sentences():
    text = (ASSETS / "prompts/long.txt").read_text(encoding="utf-8")
    text = re.sub(r"^@@question.*", "", text, flags=re.M | re.S).replace("@@context", "")
    sentences = [" ".join(s.split()) for s in re.split(r"(?<=[.!?])\s+", text)]
    return [s for s in sentences if s and "magic number" not in s]


@script(__doc__)
def main(folder, count="50", length="20"):
    folder.mkdir(parents=True, exist_ok=True)
    sentences, kinds = essay(), {"needles": needles, "things": things}
    if "--demo" in sys.argv:
        sentences, kinds = demo_sentences(), {"one": lambda *a: of_demo(*a, 1), "four": lambda *a: of_demo(*a, 4)}
    for name, make in kinds.items():
        prompts = [make(i, sentences, int(str(length))) for i in range(int(str(count)))]
        write(folder / f"{name}.jsonl", "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in prompts))
