"""Which function a model computes: the identity of what is in memory, beside that of a folder or GGUF file."""
from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import torch
from transformers.utils import logging

# What says how a model was loaded or runs, and not what it computes.
_OTHER = re.compile(r".*name_or_path|hf_device_map|warnings_issued|transformers_version|architectures|dtype|torch_dtype|"
                    r"use_cache|_?attn_implementation.*|return_dict|output_.*|.*token_ids?|quantization_config|training|max_seq_len_cached|gradient_checkpointing")
_SIMPLE = (bool, int, float, str)


def identity(model: Any) -> str:
    """Changes with every row, column and number of the parameters and buffers, with the config, and with the settings of the modules
    (an epsilon, an adapter's scaling). The same on every device and for every number of threads."""
    digest = hashlib.sha256(repr(_settings(model.config.to_dict())).encode())
    seen: set[Any] = set()
    for name, part in model.named_modules():
        digest.update(repr((name, type(part).__name__, _settings(vars(part)))).encode())
        grows = re.search("dynamic|longrope", str(getattr(part, "rope_type", "")))  # its frequencies follow the text
        for own, weight in (*part.named_parameters(recurse=False), *part.named_buffers(recurse=False)):
            if not (grows and own.endswith("inv_freq") and "original" not in own):
                _add(digest, own, weight, seen)
    return "weights:" + digest.hexdigest()


def _settings(of: Any) -> Any:
    if not isinstance(of, dict):
        return [_settings(one) for one in of] if isinstance(of, (list, tuple)) else of if isinstance(of, _SIMPLE) else None
    return sorted((str(name), _settings(value)) for name, value in of.items() if not _OTHER.fullmatch(str(name))
                  and not re.match("_(?!disable_adapters|active_adapter)", str(name)) and isinstance(value, (*_SIMPLE, dict, list, tuple)))


def _add(digest: Any, name: str, weight: Any, seen: set[Any]) -> None:
    """The sums of the rows and of the columns of a tensor, as whole numbers: these do not depend on the order of the additions."""
    if hasattr(weight, "__tensor_flatten__"):  # a quantiser's
        for part in weight.__tensor_flatten__()[0]:
            _add(digest, f"{name}.{part}", getattr(weight, part), seen)
        return
    digest.update(f"{name} {tuple(weight.shape)} {weight.dtype} ".encode())
    place = (str(weight.device), weight.data_ptr(), weight.shape, weight.stride()) if weight.device.type != "meta" else None
    if place is None or not weight.numel() or place in seen:  # tied weights count once
        return
    seen.add(place)
    data = weight.detach().contiguous().reshape(-1)
    row = data.element_size() * weight.shape[-1] if weight.ndim else data.element_size()
    width = next(width for width in (8, 4, 2, 1) if row % width == 0)
    if data.storage_offset() * data.element_size() % width:
        data = data.clone()
    words = data.view(torch.uint8).view({8: torch.int64, 4: torch.int32, 2: torch.int16, 1: torch.uint8}[width])
    words = words.view(-1, row // width)
    parts = (words,) if words.numel() <= 4096 else (words.sum(0, dtype=torch.int64), words.sum(1, dtype=torch.int64))
    for part in parts:
        digest.update(part.cpu().numpy().tobytes())


def is_of_file(model: Any, folder: Path, file: Path | None) -> bool:
    """Whether the model in memory is the one that transformers reads from the folder, or from the GGUF file in it; not where there is
    no room to read it once more."""
    files = [file] if file is not None else sorted([*folder.glob("*.safetensors*"), folder / "config.json"])
    stamps = tuple((str(one), one.stat().st_size, one.stat().st_mtime_ns) for one in files)
    free = re.search(r"MemAvailable:\s*(\d+)", Path("/proc/meminfo").read_text() if Path("/proc/meminfo").is_file() else "")
    fits = free is None or 1024 * int(free[1]) > 1.5 * sum(one.numel() * one.element_size() for one in model.parameters())
    return fits and _loaded(type(model), folder, {"gguf_file": file.name} if file else {}, model.dtype, stamps) == identity(model)


_known: dict[Any, str] = {}


def _loaded(kind: Any, folder: Path, named: dict[str, str], dtype: Any, stamps: Any) -> str:
    key, shown = (kind, folder, dtype, stamps), logging.is_progress_bar_enabled()
    if key not in _known:
        logging.disable_progress_bar()
        try:
            with torch.random.fork_rng(devices=[]):
                _known[key] = identity(kind.from_pretrained(folder, dtype=dtype, local_files_only=True, **named))
        except (OSError, ValueError, RuntimeError, TypeError, ImportError, KeyError, AttributeError):
            return ""  # transformers reads no such model from there
        finally:
            if shown:
                logging.enable_progress_bar()
    return _known[key]
