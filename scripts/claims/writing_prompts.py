#!/usr/bin/env python3
"""Writes instructions whose answers are long, as JSON lines that studies read (docs/studies.md).

    scripts/claims/writing_prompts.py FOLDER [FIRST]    writes FOLDER/writing.jsonl, or the lines from FIRST (0) on, as FOLDER/writing-fromFIRST.jsonl

Each line asks SmolLM2-Instruct, in its chat template, for an essay of several paragraphs on one subject, and names a word
that a right essay holds: the answer of the second question in the instruction.
"""
import json

from claims_prompts import ANSWERS, SYSTEM
from pages import fail, script, write

SUBJECTS = [  # what the essay is about, what it must say, words of which a right essay has one
    ("how green plants make their food", "which gas they give off", ["oxygen"]),
    ("the water cycle", "how water gets from the sea into the air", ["evaporat"]),
    ("the planets of the solar system", "which planet is the largest", ["Jupiter"]),
    ("the human heart", "what the heart pumps", ["blood"]),
    ("France and its regions", "which city is its capital", ["Paris"]),
    ("the history of flight", "which brothers flew the first powered aeroplane", ["Wright"]),
    ("how bees make honey", "what they collect from flowers", ["nectar"]),
    ("the moon", "how it moves the sea", ["tide"]),
    ("ancient Egypt", "where its kings were buried", ["pyramid", "tomb"]),
    ("the theory of evolution", "which naturalist is known for it", ["Darwin"]),
    ("how bread is baked", "what makes the dough rise", ["yeast", "baking powder", "sourdough"]),
    ("the first landing on the moon", "who walked there first", ["Armstrong"]),
    ("volcanoes", "what comes out of them", ["lava", "magma"]),
    ("the plays of William Shakespeare", "one play that he wrote", ["Hamlet", "Romeo", "Macbeth", "Othello", "King Lear"]),
    ("how a computer works", "what its processor does with a program", ["instruction"]),
    ("the seasons of the year", "which season is the coldest", ["winter"]),
    ("gravity", "which scientist first wrote down its law", ["Newton"]),
    ("Japan and its culture", "which city is its capital", ["Tokyo"]),
    ("how vaccines work", "what the body makes after one", ["antibod"]),
    ("the Roman empire", "which language its people spoke", ["Latin"]),
    ("the life of a butterfly", "what it is before it has wings", ["caterpillar", "larva", "pupa"]),
    ("electricity in a house", "why wires are made of copper", ["conduct"]),
    ("the discovery of penicillin", "who discovered it", ["Fleming"]),
    ("rainforests", "which river flows through the largest of them", ["Amazon"]),
    ("how the eye sees", "which part of it senses light", ["retina"]),
    ("the game of chess", "which piece must not be lost", ["king"]),
    ("healthy food", "which foods are rich in vitamins", ["fruit", "vegetable"]),
    ("dinosaurs", "how they died out", ["asteroid", "extinct", "meteor"]),
    ("the printing press", "who built the first one in Europe", ["Gutenberg"]),
    ("how ships float", "which ancient Greek explained it", ["Archimedes"]),
    ("the ocean", "which ocean is the largest", ["Pacific"]),
    ("the theory of relativity", "which physicist found it", ["Einstein"]),
    ("the human skeleton", "what bones are made of", ["calcium", "collagen"]),
    ("India and its history", "who led its people to independence without violence", ["Gandhi"]),
    ("how rain forms in clouds", "what water vapour does there", ["condens"]),
    ("the life of a frog", "what it is called when it is young", ["tadpole"]),
    ("magnets", "what their two ends are called", ["pole"]),
    ("the French revolution", "which king lost his throne", ["Louis"]),
    ("how glass is made", "what it is made of", ["sand", "silica"]),
    ("music and its instruments", "how many strings a violin has", ["four", "4"]),
]


@script(__doc__)
def main(folder, first="0"):
    if not str(first).isdigit() or int(str(first)) >= len(SUBJECTS):
        fail(f"takes FOLDER, to write to, and FIRST, below {len(SUBJECTS)}")
    first, lines = int(str(first)), []
    for subject, point, answers in SUBJECTS[first:]:
        text = (f"{SYSTEM}<|im_start|>user\nWrite a long and detailed essay of many paragraphs about {subject}. "
                f"Say in it also {point}.{ANSWERS}")
        lines.append(json.dumps({"text": text, "answers": answers}))
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / (f"writing-from{first}.jsonl" if first else "writing.jsonl"), "\n".join(lines) + "\n")
