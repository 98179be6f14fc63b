"""Ends captures by Ctrl-C at random times and looks at what is left (docs/reliability.md).

    build/python/bin/python tests/python/interrupts.py [--runs N] [--seed S]

After each run its folder holds nothing or a whole trace, Ctrl-C belongs to Python again, and no error but
KeyboardInterrupt was seen. Prints the counts; the exit code is 1 where something was found.
"""
import argparse
import collections
import random
import signal
import sys
import tempfile
import threading
import time
from pathlib import Path


def end_at_random(runs: int, seed: int) -> tuple[collections.Counter[str], list[str]]:
    """How captures ended, and what was wrong."""
    import torch
    import transformers

    import kvloupe

    torch.manual_seed(1)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(
        vocab_size=320, hidden_size=64, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2)).eval()
    ended: collections.Counter[str] = collections.Counter()
    wrong = []
    draw = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "t.h5"

        def run() -> None:
            kvloupe.capture(model, None, [5] * 300, path, block=20, generate=3)

        run()  # what is made once
        start = time.monotonic()
        run()
        seconds = time.monotonic() - start
        path.unlink()
        main = threading.main_thread().ident
        for number in range(runs):
            timer = threading.Timer(draw.random() * seconds, signal.pthread_kill, (main, signal.SIGINT))
            how = "stopped"
            try:
                try:
                    timer.start()
                    run()
                    how = "whole before it came"
                finally:
                    while timer.is_alive():  # the signal comes before the next run
                        time.sleep(0.001)
                how = "lost"  # inside a clean-up of Python's, which swallows exceptions
            except KeyboardInterrupt:
                pass
            except BaseException as error:  # noqa: BLE001 - it is what is looked for
                wrong.append(f"run {number}: {type(error).__name__}: {error}")
            ended[how] += 1
            if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
                wrong.append(f"run {number}: Ctrl-C is not Python's")
            for left in Path(folder).iterdir():
                if left == path:
                    kvloupe.open_trace(left).close()
                else:
                    wrong.append(f"run {number}: {left.name} was left")
                left.unlink()
    return ended, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=250)
    parser.add_argument("--seed", type=int, default=1)
    words = parser.parse_args()
    ended, wrong = end_at_random(words.runs, words.seed)
    print(*(f"{count} {how}" for how, count in sorted(ended.items())), f"{len(wrong)} found", sep=", ")
    print(*wrong, sep="\n", end="\n" if wrong else "")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
