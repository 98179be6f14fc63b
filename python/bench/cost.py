"""What capturing costs beside the model's own prefill: cost.py [TOKENS [RUNS [LAYERS WIDTH]]]

A random Llama of 8 layers and width 1024 unless said otherwise, 16 query heads on 4 heads, in float32, in blocks of
128 tokens. Times
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
    layers, width = (int(sys.argv[3]), int(sys.argv[4])) if len(sys.argv) > 4 else (8, 1024)
    torch.manual_seed(1)
    config = transformers.LlamaConfig(
        vocab_size=32000, hidden_size=width, intermediate_size=width * 11 // 4, num_hidden_layers=layers, num_attention_heads=16,
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
    print(f"{layers} layers of width {width}, {tokens} tokens, {torch.get_num_threads()} threads: prefill {own[0]:.1f} s, capture {ours[0]:.1f} s "
          f"({ours[0] / own[0]:.2f} times; of processor time {ours[1] / own[1]:.2f} times), "
          f"{peak() - before:.0f} MB more memory, trace {size:.0f} MB")


if __name__ == "__main__":
    main()
