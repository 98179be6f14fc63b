"""What a policy in transformers' own cache costs: closed_loop.py MODEL.gguf|FOLDER [TOKENS [ROUNDS]]

Prefill in blocks of 128 tokens and 64 generated ones, beside the same model with its own cache, in turns; the least processor time of
the rounds. Budget: a quarter of the prompt.
"""
from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

import kvloupe
from kvloupe.describe import cache_argument

POLICIES = [None, "keydiff", "h2o", "snapkv", "h2o+kvmerger"]
BLOCK, MADE = 128, 64


def main() -> None:
    path, tokens = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 2000
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    source = {"gguf_file": path.name, "pretrained_model_name_or_path": str(path.parent)} if path.is_file() else {
        "pretrained_model_name_or_path": str(path)}
    model = transformers.AutoModelForCausalLM.from_pretrained(**source, dtype=torch.float32).eval()
    ids = np.random.default_rng(1).integers(100, model.config.vocab_size, tokens).tolist()
    named = cache_argument(model)

    def timed(policy: str | None) -> tuple[float, float]:
        cache: Any = transformers.DynamicCache(config=model.config) if policy is None else kvloupe.Cache(
            policy, "25%", model=model, block=BLOCK, prompt_length=tokens)
        with torch.inference_mode():
            begin = time.process_time()
            for first in range(0, tokens, BLOCK):
                out = model(torch.tensor([ids[first:first + BLOCK]]), use_cache=True, **{named: cache})
            read = time.process_time()
            for _ in range(MADE):
                out = model(out.logits[:, -1].argmax(-1)[None], use_cache=True, **{named: cache})
            end = time.process_time()
        if policy is not None:
            cache.close()
        return read - begin, end - read

    best: dict[str | None, list[float]] = {}
    for _ in range(rounds):
        for policy in POLICIES:
            taken = timed(policy)
            best[policy] = [min(pair) for pair in zip(best.get(policy, taken), taken)]
    print(f"{path.name}: {tokens} tokens, {torch.get_num_threads()} threads")
    for policy, (read, made) in best.items():
        print(f"{policy or 'own cache'}: prefill {read:.2f} s ({read / best[None][0]:.2f} times), {MADE} tokens {made:.2f} s "
              f"({made / best[None][1]:.2f} times)")


if __name__ == "__main__":
    main()
