"""Writes vectors.txt: for each type one block of random bytes and what the package gguf (0.19.0) expands it to.

    pip install gguf==0.19.0 && python make_vectors.py > vectors.txt
"""
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf.constants import GGML_QUANT_SIZES
from gguf.quants import dequantize

# The places of float16 numbers in a block, which random bytes could make infinite.
HALVES = {"F16": [0], "Q4_0": [0], "Q4_1": [0, 2], "Q5_0": [0], "Q5_1": [0, 2], "Q8_0": [0], "Q2_K": [80, 82],
          "Q3_K": [108], "Q4_K": [0, 2], "Q5_K": [0, 2], "Q6_K": [208], "IQ4_NL": [0], "IQ4_XS": [0]}
NAMES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K",
         "IQ4_NL", "IQ4_XS", "MXFP4"]

random = np.random.default_rng(7)
for name in NAMES:
    numbers, size = GGML_QUANT_SIZES[Type[name]]
    for _ in range(2 if numbers > 1 else 8):
        block = random.integers(0, 256, size, dtype=np.uint8)
        for place in HALVES.get(name, []):
            block[place:place + 2] = np.float16(random.normal()).reshape(1).view(np.uint8)
        if name in ("F32", "BF16"):
            block = np.float32(random.normal()).reshape(1).view(np.uint8)[4 - size:]
        if name == "MXFP4":
            block[0] = random.integers(0, 140)
        expanded = np.asarray(dequantize(block.reshape(1, -1), Type[name]), np.float32).ravel()
        assert expanded.size == numbers and np.isfinite(expanded).all()
        print(name, block.tobytes().hex(), expanded.view(np.uint32).astype(">u4").tobytes().hex())
