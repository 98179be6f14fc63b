"""python -m trainer: makes kvloupe's demo model. Generates the corpus, trains the model, measures it."""
from __future__ import annotations

import argparse
import sys
from pathlib import Path


def _list(kind: type, known=None):
    def read(text: str) -> list:
        words = [kind(word) for word in text.split(",")]
        for word in words:
            if known and word not in known:
                raise argparse.ArgumentTypeError(f"{word} is not one of {', '.join(known)}")
        return words
    return read


def main() -> int:
    from .prompts import KINDS
    parser = argparse.ArgumentParser(prog="python -m trainer", description="Makes kvloupe's demo model.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    corpus = verbs.add_parser("corpus", help="print sequences of the training corpus")
    corpus.add_argument("--recipe", required=True)
    corpus.add_argument("--stage", type=int, default=0, help="stage of the curriculum, from 0")
    corpus.add_argument("--count", type=int, default=3, help="number of sequences")
    train = verbs.add_parser("train", help="train, or continue from the folder's checkpoint")
    train.add_argument("--recipe", required=True)
    train.add_argument("-o", "--output", required=True, help="folder for the model, log and checkpoint")
    train.add_argument("--start", help="model folder with the weights to start from")
    train.add_argument("--device", default="cpu", help="cpu, cuda or cuda:i")
    train.add_argument("--float32", action="store_true", help="do not use bfloat16 matrix products")
    train.add_argument("--seconds", type=float, default=0.0, help="stop after this time; training can be resumed")
    for name, steps in (("log", 20), ("save", 200), ("measure", 200)):
        train.add_argument(f"--{name}-every", type=int, default=steps, help="steps")
    measure = verbs.add_parser("measure", help="measure a model on newly generated text")
    measure.add_argument("--model", required=True, help="model folder")
    prompts = verbs.add_parser("prompt-set", help="write seeded prompts of given kinds and lengths, for studies",
                               epilog="Kinds: " + "; ".join(f"{name}: {what}" for name, (what, _) in KINDS.items()))
    prompts.add_argument("-o", "--output", required=True, help="folder for the prompt files")
    prompts.add_argument("--count", type=int, default=10, help="prompts of each kind and length")
    prompts.add_argument("--kinds", type=_list(str, KINDS), default=["mixed"], help="separated by commas")
    prompts.add_argument("--lengths", type=_list(int), default=[512], help="tokens, separated by commas")
    prompts.add_argument("--seed", type=int, default=1, help="other seeds give other prompts")
    prompts.add_argument("--jsonl", action="store_true", help="a prompt and its answer in each line")
    demo = verbs.add_parser("prompts", help="write the demo prompts")
    demo.add_argument("-o", "--output", required=True, help="folder")
    demo.add_argument("--seed", type=int, default=7)
    options = parser.parse_args()
    try:
        run(options)
    except (ValueError, RuntimeError, OSError) as error:
        print(f"trainer: {error}", file=sys.stderr)
        return 1
    return 0


def run(options: argparse.Namespace) -> None:
    from .corpus import Corpus, Vocabulary
    from .prompts import prompt_file, write_prompt_set
    from .recipe import read_recipe
    if options.verb == "prompt-set":
        write_prompt_set(options.output, options.kinds, options.lengths, options.count, options.seed, options.jsonl)
    elif options.verb == "prompts":
        corpus = Corpus(Vocabulary(), options.seed)
        Path(options.output).mkdir(parents=True, exist_ok=True)
        shipped = (("needle.txt", 480, 1), ("four-needles.txt", 480, 4), ("long.txt", 3000, 1))
        for index, (name, length, needles) in enumerate(shipped):
            prompt = corpus.needle_prompt(index, length, needles)
            path = Path(options.output) / name
            path.write_text(prompt_file(prompt, corpus.vocabulary))
            answer = corpus.vocabulary.text([prompt.answers[prompt.asked]])
            print(f"{path}: {len(prompt.ids)} tokens, answer {answer}")
    elif options.verb == "corpus":
        recipe = read_recipe(options.recipe)
        if not 0 <= options.stage < len(recipe.stages):
            raise ValueError(f"--stage {options.stage}: the recipe has the stages 0 to {len(recipe.stages) - 1}")
        corpus, stage = Corpus(Vocabulary(), recipe.seed), recipe.stages[options.stage]
        for index in range(options.count):
            print(corpus.vocabulary.text(corpus.sequence(index, stage.length, stage.mix)[0]) + "\n")
    elif options.verb == "measure":
        from .measure import report
        report(options.model, lambda line: print(line, flush=True))
    else:
        import torch

        from .training import train
        # A head that rests on one token gives the others weights near e^-90, and even smaller gradients. Such numbers are
        # slow on x86 (a step took more than twice as long) and have no effect.
        torch.set_flush_denormal(True)
        train(read_recipe(options.recipe), options.output, start=options.start, device=options.device,
              mixed=not options.float32, seconds=options.seconds, log_every=options.log_every,
              save_every=options.save_every, measure_every=options.measure_every,
              on_line=lambda line: print(line, flush=True))


sys.exit(main())
