"""What kvloupe.Press costs beside kvpress's own press of the same policy: presses.py MODEL.gguf|FOLDER [TOKENS [ROUNDS]]

Runs in the environment of scripts/test-kvpress.sh. One prefill of random tokens under each press at a compression ratio of 0.75,
beside the same prefill without a press, in turns; the least processor time of the rounds.
"""
from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import Any

import kvpress
import numpy as np
import torch
import transformers

import kvloupe

RATIO = 0.75
PAIRS: dict[str, tuple[Any, str]] = {  # the presets of docs/policies.md
    "KeyDiff": (kvpress.KeyDiffPress(RATIO), "KeyDiffPress"), "Knorm": (kvpress.KnormPress(RATIO), "KnormPress"),
    "SnapKV": (kvpress.SnapKVPress(RATIO), "SnapKVPress"),
    "AdaKV over SnapKV": (kvpress.AdaKVPress(kvpress.SnapKVPress(RATIO)), "AdaKVPress(SnapKVPress)")}


def main() -> None:
    path, tokens = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    source = {"gguf_file": path.name, "pretrained_model_name_or_path": str(path.parent)} if path.is_file() else {
        "pretrained_model_name_or_path": str(path)}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    ids = torch.from_numpy(np.random.default_rng(1).integers(100, model.config.vocab_size, (1, tokens)))

    def timed(press: Any) -> float:
        cache = transformers.DynamicCache(config=model.config)
        with torch.inference_mode():
            begin = time.process_time()
            with contextlib.nullcontext() if press is None else press(model):
                model.model(ids, past_key_values=cache)
            return time.process_time() - begin

    ways: dict[str, Any] = {"no press": None}
    for name, (press, policy) in PAIRS.items():
        ways[f"{name}, kvpress"] = press
        ways[f"{name}, kvloupe.Press"] = kvloupe.Press(policy, compression_ratio=RATIO)
    best: dict[str, float] = {}
    for _ in range(rounds):
        for name, press in ways.items():
            best[name] = min(best.get(name, float("inf")), timed(press))
    print(f"{path.name}: {tokens} tokens, {torch.get_num_threads()} threads; least of {rounds} rounds")
    for name, taken in best.items():
        print(f"{name}: {taken:.2f} s, {1000 * (taken - best['no press']):+.0f} ms beside no press")


if __name__ == "__main__":
    main()
