"""What runs of kvloupe.evaluate gain by following the full cache's run until their first eviction: evaluate.py MODEL.gguf|FOLDER
[TOKENS [BLOCK ...]]

Perplexity of one generated text with two policies at two budgets, with and without shared blocks; processor time of the runs, the
full cache's included. The results of both must be equal to the bit.
"""
from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from pathlib import Path

import torch
import transformers

import kvloupe
from kvloupe import evaluation


def main() -> None:
    path, tokens = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    source = {"gguf_file": path.name, "pretrained_model_name_or_path": str(path.parent)} if path.is_file() else {
        "pretrained_model_name_or_path": str(path)}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    tokenizer = kvloupe.Tokenizer(path)
    for block in sys.argv[3:] or ["128", "all"]:
        found = []
        for room in (0, 1 << 30):
            evaluation._SHARED_ROOM = room
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder) / "results.sqlite"
                begin = time.process_time()
                kvloupe.evaluate(model, tokenizer, file, policies=["keydiff", "h2o"], budgets=["25%", "50%"], blocks=[block],
                                 tasks={"task": "perplexity", "lengths": [tokens]}, progress=False)
                taken = time.process_time() - begin
                with sqlite3.connect(file) as results:
                    found.append((taken, results.execute("SELECT * FROM replay_values ORDER BY 1, 2").fetchall(),
                                  results.execute("SELECT * FROM head_values ORDER BY 1, 2, 3, 4").fetchall()))
        assert found[0][1:] == found[1][1:]
        print(f"{path.name}: {tokens} tokens, blocks of {block}: {found[0][0]:.1f} s alone, {found[1][0]:.1f} s shared "
              f"({found[0][0] / found[1][0]:.2f} times)", flush=True)


if __name__ == "__main__":
    main()
