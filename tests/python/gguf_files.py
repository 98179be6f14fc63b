"""Small GGUF files for the tests: models of transformers written with the package gguf."""
from __future__ import annotations

from pathlib import Path
from typing import Any, Callable

import gguf
import numpy as np
from gguf import GGMLQuantizationType as Type
from gguf import GGUFValueType as Kind

TYPES = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL",
         "IQ4_XS", "MXFP4"]
SHORT = [name for name in TYPES if gguf.GGML_QUANT_SIZES[Type[name]][0] <= 32]  # for rows of 32 and more
# Where the float16 scales of a block lie.
_SCALES = {"Q4_0": (0,), "Q4_1": (0, 2), "Q5_0": (0,), "Q5_1": (0, 2), "Q8_0": (0,), "Q2_K": (80, 82), "Q3_K": (108,),
           "Q4_K": (0, 2), "Q5_K": (0, 2), "Q6_K": (208,), "IQ4_NL": (0,), "IQ4_XS": (0,)}


def drawn(kind: str, rows: int, columns: int, seed: int) -> np.ndarray:
    """Bytes [rows, …] of a matrix of this type: every bit pattern, with finite scales."""
    random = np.random.default_rng(seed)
    if kind == "F32":
        return (random.standard_normal((rows, columns)) * 0.1).astype(np.float32).view(np.uint8)
    if kind == "F16":
        return (random.standard_normal((rows, columns)) * 0.1).astype(np.float16).view(np.uint8)
    if kind == "BF16":
        return gguf.quants.quantize((random.standard_normal((rows, columns)) * 0.1).astype(np.float32), Type.BF16)
    width, size = gguf.GGML_QUANT_SIZES[Type[kind]]
    blocks = random.integers(0, 256, (rows * columns // width, size), dtype=np.uint8)
    for at in _SCALES.get(kind, ()):
        scale = random.choice([-1.0, 1.0], len(blocks)) * 2.0 ** random.uniform(-12, -7, len(blocks))
        scale[::17] = 0.0
        scale[5::17] = 3e-6  # a number below float16's normal ones
        blocks[:, at:at + 2] = scale.astype(np.float16)[:, None].view(np.uint8)
    if kind == "MXFP4":  # the scale is a power of two
        blocks[:, 0] = random.integers(112, 124, len(blocks))
        blocks[::17, 0], blocks[5::17, 0], blocks[6::17, 0] = 0, 1, 2
    return blocks.reshape(rows, -1)


def expanded(data: np.ndarray, kind: str) -> np.ndarray:
    """What the package gguf makes of it, in float32."""
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(data, Type[kind]).astype(np.float32, copy=False)


def turned(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows of a query or key projection as llama.cpp's conversion orders them for the architecture llama."""
    return np.ascontiguousarray(rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:]).swapaxes(1, 2)
                                .reshape(rows.shape))


def tokenizer() -> dict[str, tuple]:
    """A byte-level one of 267 tokens."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters = [chr(byte) for byte in plain] + [chr(256 + at) for at in range(256 - len(plain))]
    merges = ["\u0120 t", "h e", "\u0120t he", "i n", "e r", "o n", "\u0120 a", "r e"]
    tokens = ["<|end|>", "<|start|>", "<|stop|>", *letters, *(one.replace(" ", "") for one in merges)]
    return {"tokenizer.ggml.model": ("gpt2", Kind.STRING), "tokenizer.ggml.pre": ("gpt-2", Kind.STRING),
            "tokenizer.ggml.tokens": (tokens, Kind.ARRAY, Kind.STRING),
            "tokenizer.ggml.token_type": ([3] * 3 + [1] * (len(tokens) - 3), Kind.ARRAY, Kind.INT32),
            "tokenizer.ggml.merges": (merges, Kind.ARRAY, Kind.STRING),
            "tokenizer.ggml.bos_token_id": (1, Kind.UINT32), "tokenizer.ggml.eos_token_id": (2, Kind.UINT32),
            "tokenizer.ggml.add_bos_token": (False, Kind.BOOL)}


VOCABULARY = 267
Values = dict[str, tuple]  # value, its kind, and of arrays the elements' kind
Tensors = dict[str, tuple[np.ndarray, str]]  # rows as bytes or float32, and the type's name

_NAMES = {"gpt-oss": "GPT_OSS"}  # of the package's architectures; the others are written alike


def names_of(architecture: str, layers: int) -> Callable[[str], str]:
    """The file's name of a weight of Hugging Face, as the package gguf has it."""
    found = gguf.get_tensor_name_map(gguf.MODEL_ARCH[_NAMES.get(architecture, architecture.upper())], layers)

    def name_of(weight: str) -> str:
        if weight.endswith(".sinks"):
            weight += ".weight"
        stem, kind = weight.rsplit(".", 1)
        return f"{found.get_name(stem)}.{kind}"
    return name_of


def parts_of(name: str, rows: np.ndarray, architecture: str) -> dict[str, np.ndarray]:
    """The tensors that a weight of transformers is in a file, as views of it: experts are stacked, gate and up apart."""
    if ".mlp.experts." not in name:
        return {name: rows}
    experts, part = name.rsplit(".", 1)
    kind = "bias" if part.endswith("_bias") else "weight"
    both = part.startswith("gate_up")
    if architecture == "gpt-oss":  # [E, in, out], gate and up in turns
        rows = rows if kind == "bias" else rows.swapaxes(1, 2)
        pair = (rows[:, 0::2], rows[:, 1::2])
    else:
        pair = (rows[:, :rows.shape[1] // 2], rows[:, rows.shape[1] // 2:])
    if not both:
        return {f"{experts}.down_proj.{kind}": rows}
    return {f"{experts}.gate_proj.{kind}": pair[0], f"{experts}.up_proj.{kind}": pair[1]}


_OWN_VALUES = {  # fields that a config may have
    "sliding_window": (gguf.Keys.Attention.SLIDING_WINDOW, Kind.UINT32),
    "attn_logit_softcapping": (gguf.Keys.LLM.ATTN_LOGIT_SOFTCAPPING, Kind.FLOAT32),
    "final_logit_softcapping": (gguf.Keys.LLM.FINAL_LOGIT_SOFTCAPPING, Kind.FLOAT32),
    "attention_multiplier": (gguf.Keys.Attention.SCALE, Kind.FLOAT32),
    "embedding_multiplier": (gguf.Keys.LLM.EMBEDDING_SCALE, Kind.FLOAT32),
    "residual_multiplier": (gguf.Keys.LLM.RESIDUAL_SCALE, Kind.FLOAT32),
    "logits_scaling": (gguf.Keys.LLM.LOGIT_SCALE, Kind.FLOAT32),
    "num_experts": (gguf.Keys.LLM.EXPERT_COUNT, Kind.UINT32),
    "num_experts_per_tok": (gguf.Keys.LLM.EXPERT_USED_COUNT, Kind.UINT32),
    "moe_intermediate_size": (gguf.Keys.LLM.EXPERT_FEED_FORWARD_LENGTH, Kind.UINT32)}


def values_of(config: Any, architecture: str, rope: dict[str, Any]) -> Values:
    """The metadata of a model of transformers."""
    a = architecture
    found: Values = {
        "general.architecture": (a, Kind.STRING), "general.name": ("Tiny Test", Kind.STRING),
        f"{a}.context_length": (config.max_position_embeddings, Kind.UINT32),
        f"{a}.embedding_length": (config.hidden_size, Kind.UINT32),
        f"{a}.feed_forward_length": (config.intermediate_size, Kind.UINT32),
        f"{a}.block_count": (config.num_hidden_layers, Kind.UINT32),
        f"{a}.attention.head_count": (config.num_attention_heads, Kind.UINT32),
        f"{a}.attention.head_count_kv": (config.num_key_value_heads, Kind.UINT32),
        f"{a}.attention.layer_norm_rms_epsilon": (config.rms_norm_eps, Kind.FLOAT32),
        f"{a}.rope.freq_base": (rope.get("rope_theta", 10000.0), Kind.FLOAT32),
        f"{a}.rope.dimension_count": (config.head_dim, Kind.UINT32),
        f"{a}.attention.key_length": (config.head_dim, Kind.UINT32),
        f"{a}.attention.value_length": (config.head_dim, Kind.UINT32)}
    for field, (key, kind) in _OWN_VALUES.items():
        if getattr(config, field, None) is not None:
            found[key.format(arch=a)] = (getattr(config, field), kind)
    if a == "gpt-oss":
        found[gguf.Keys.LLM.EXPERT_FEED_FORWARD_LENGTH.format(arch=a)] = (config.intermediate_size, Kind.UINT32)
    if rope.get("rope_type") in ("linear", "yarn"):
        found[f"{a}.rope.scaling.type"] = (rope["rope_type"], Kind.STRING)
        found[f"{a}.rope.scaling.factor"] = (rope["factor"], Kind.FLOAT32)
    if rope.get("rope_type") == "yarn":
        found[f"{a}.rope.scaling.original_context_length"] = (rope["original_max_position_embeddings"], Kind.UINT32)
    return found


def rope_freqs(rope: dict[str, Any], width: int) -> np.ndarray:
    """Divisors of the frequencies that llama.cpp's conversion writes for Llama 3's scaling."""
    low = rope["original_max_position_embeddings"] / rope["low_freq_factor"]
    high = rope["original_max_position_embeddings"] / rope["high_freq_factor"]
    found = []
    for at in range(0, width, 2):
        length = 2 * np.pi * rope["rope_theta"] ** (at / width)
        if length < high:
            found.append(1.0)
        elif length > low:
            found.append(rope["factor"])
        else:
            share = (rope["original_max_position_embeddings"] / length - rope["low_freq_factor"]) / (
                rope["high_freq_factor"] - rope["low_freq_factor"])
            found.append(1.0 / ((1.0 - share) / rope["factor"] + share))
    return np.array(found, np.float32)


def converted(model: Any, architecture: str, kinds: Callable[[str], str]) -> tuple[Values, Tensors]:
    """A model of transformers as a GGUF file has it. Its matrices become what their types can say."""
    import torch

    config, tensors = model.config, {}
    rope = dict(config.rope_parameters)
    rope = dict(rope.get("full_attention", rope))
    name_of = names_of(architecture, config.num_hidden_layers)
    interleaved = architecture in ("llama", "granite", "smollm3")
    for at, (whole, weight) in enumerate(model.named_parameters()):
        own = weight.detach().numpy().copy()
        more = 1.0 if architecture.startswith("gemma") and own.ndim == 1 else 0.0  # Gemma's norms, as they multiply
        for name, rows in parts_of(whole, own, architecture).items():
            kind = "F32" if rows.ndim == 1 or name.endswith("bias") else kinds(name)
            if kind not in ("F32", "F16", "BF16"):
                data = drawn(kind, rows.size // rows.shape[-1], rows.shape[-1], seed=at)
            elif kind == "F32":
                data = np.ascontiguousarray(rows, np.float32) + np.float32(more)
            else:
                data = gguf.quants.quantize(np.ascontiguousarray(rows), Type[kind])
            if kind != "F32":
                data = data.reshape(*rows.shape[:-1], -1)
                rows[...] = expanded(data, kind).reshape(rows.shape)
            if interleaved and ".q_proj." in name:
                data = turned(data, config.num_attention_heads)
            if interleaved and ".k_proj." in name:
                data = turned(data, config.num_key_value_heads)
            tensors[name_of(name)] = (data, kind)
        with torch.no_grad():
            weight.copy_(torch.from_numpy(own))
    if rope.get("rope_type") == "llama3":
        tensors["rope_freqs.weight"] = (rope_freqs(rope, config.head_dim), "F32")
    return values_of(config, architecture, rope) | tokenizer(), tensors


def write(path: Path, values: Values, tensors: Tensors, alignment: int = 0, **settings: Any) -> Path:
    """With the package's own writer; the path of the file, or of its first part."""
    writer = gguf.GGUFWriter(path, values["general.architecture"][0], **settings)
    for key, (value, kind, *element) in values.items():
        if key != "general.architecture":
            writer.add_key_value(key, value, kind, *element)
    if alignment:
        writer.add_custom_alignment(alignment)
    for name, (data, kind) in tensors.items():
        if data.dtype == np.uint8:
            writer.add_tensor(name, data, raw_dtype=Type[kind])
        else:
            writer.add_tensor(name, data.astype(np.float16) if kind == "F16" else data)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path if path.is_file() else sorted(path.parent.glob(f"{path.stem}-*-of-*.gguf"))[0]
