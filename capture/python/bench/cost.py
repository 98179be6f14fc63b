"""What capturing costs beside the model's own prefill: python capture/python/bench/cost.py [TOKENS [RUNS]]

A random Llama of 8 layers, hidden size 1024, 16 query heads on 4 heads, in float32, in blocks of 128 tokens. Times
are the smallest of the runs, taken in turn; memory is the growth of the process's peak over that of the prefill.
"""
from __future__ import annotations

import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import transformers

import kvloupe


def main() -> None:
    tokens = int(sys.argv[1]) if len(sys.argv) > 1 else 2048
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16,
        num_key_value_heads=4, max_position_embeddings=tokens)
    model = transformers.LlamaForCausalLM(config).eval()
    ids = torch.randint(3, 32000, (tokens,)).tolist()

    def prefill(tokens: int = tokens) -> np.ndarray:
        start = now()
        cache = transformers.DynamicCache(config=model.config)
        with torch.inference_mode():
            for first in range(0, tokens, 128):
                model(torch.tensor([ids[first:first + 128]]), past_key_values=cache, use_cache=True)
        return now() - start

    def capture(folder: str) -> np.ndarray:
        start = now()
        kvloupe.capture(model, None, ids, Path(folder) / "t.h5", block=128, progress=False)
        return now() - start

    def now() -> np.ndarray:
        return np.array([time.monotonic(), time.process_time()])  # seconds, seconds of all processors

    def peak() -> float:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0

    prefill(128)
    first = prefill()
    before = peak()
    with tempfile.TemporaryDirectory() as folder:
        pairs = [(prefill() if at else first, capture(folder)) for at in range(runs)]
        size = (Path(folder) / "t.h5").stat().st_size / 2**20
    own, ours = (np.min([pair[at] for pair in pairs], 0) for at in (0, 1))
    print(f"{tokens} tokens, {torch.get_num_threads()} threads: prefill {own[0]:.1f} s, capture {ours[0]:.1f} s "
          f"({ours[0] / own[0]:.2f} times; of processor time {ours[1] / own[1]:.2f} times), "
          f"{peak() - before:.0f} MB more memory, trace {size:.0f} MB")


if __name__ == "__main__":
    main()
