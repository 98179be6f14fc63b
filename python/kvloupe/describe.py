"""The description of a transformers model in a trace: shape, rotary positions, windows, fingerprint, and which function the
model in memory computes."""
import contextlib
import functools
import hashlib
import inspect
import json
import re
import weakref
from pathlib import Path
from typing import Any, Callable, Iterator, Sequence, TypeVar

import numpy as np
import torch
from transformers.utils import logging

from .attention import one_thread
from .engine import ask
from .errors import KvloupeError
from .layout import Layer, Model, rotation_of, usual_shape
from .linear import is_plain
from .places import Clock, Hooked, Place
from .trace_format import frequencies, unrotated

# Families that turn coordinates 2j and 2j + 1 together.
_INTERLEAVED = {"cohere", "cohere2", "glm", "glm4", "ernie4_5", "helium", "deepseek_v2", "llama4_text"}


_ARGUMENTS: Any = weakref.WeakKeyDictionary()  # by model: looking costs as much as a part of a small model's pass
_Run = TypeVar("_Run", bound=Callable[..., Any])


@contextlib.contextmanager
def uncompiled(model: Any) -> Iterator[Any]:
    """The model itself where torch.compile wraps it. While it is open, nothing of it runs compiled, because compiled code does not see
    which attention function is set, and no other thread runs a model with kvloupe."""
    stance = getattr(torch.compiler, "set_stance", lambda word: contextlib.nullcontext())  # from torch 2.6 on
    with one_thread(), stance("force_eager"):
        yield getattr(model, "_orig_mod", model)


def with_uncompiled(run: _Run) -> _Run:
    """Of a function of a model: gives it the uncompiled one."""
    @functools.wraps(run)
    def call(model: Any, *rest: Any, **named: Any) -> Any:
        with uncompiled(model) as own:
            return run(own, *rest, **named)
    return call  # type: ignore[return-value]


def text_config(model: Any) -> Any:
    return model.config.get_text_config() if hasattr(model.config, "get_text_config") else model.config


def layers_of(model: Any) -> list[Any]:
    """The decoder's layers. Raises KvloupeError where they are not where transformers puts them, and for a model whose
    queries see later keys, which no cache of earlier ones serves."""
    for name, value in (("is_causal", False), ("use_bidirectional_attention", True)):
        if getattr(text_config(model), name, None) is value:
            raise KvloupeError(f"{type(model).__name__}: its config says {name} {str(value).lower()}: a query sees later "
                               "keys; kvloupe shows caches of causal models")
    base = decoder_of(model)
    # Llama 4 calls the whole model its decoder; GPT-2 calls its layers h.
    found = (getattr(one, name, None) for one in (base, getattr(base, "model", None)) for name in ("layers", "h"))
    layers = next((one for one in found if one is not None and len(one)), None)
    if layers is None:
        if getattr(model, "can_generate", bool)():
            raise KvloupeError(f"{type(model).__name__}: its layers are not where kvloupe looks for them "
                               "(model.layers[i], as in Llama, Qwen and Gemma), so this family cannot be "
                               "captured; take a model of another family, or write its states yourself "
                               "(kvloupe.TraceWriter, docs/python.md)")
        raise KvloupeError(f"{type(model).__name__}: its layers were not found; give a decoder such as "
                           "AutoModelForCausalLM loads")
    return list(layers)


def first_device(model: Any) -> Any:
    """Where the model's tokens go. Raises KvloupeError for a model without numbers."""
    weight = getattr(model.get_input_embeddings(), "weight", None)
    device = weight.device if hasattr(weight, "device") else model.device
    if device.type == "meta":
        raise KvloupeError(f"{type(model).__name__}: its weights are on the device meta, which holds no numbers; load them "
                           "(from_pretrained), or move the model to a device")
    return device


def cache_argument(model: Any) -> str:
    """What the model calls its cache: transformers 5.24 renamed past_key_values to cache."""
    names = _arguments(model)
    return next((name for name in ("cache", "past_key_values") if name in names), "past_key_values")


def _arguments(model: Any) -> set[str]:
    """Names of the arguments of the model or, where a wrapper passes on whatever it gets, of its decoder."""
    if model not in _ARGUMENTS:
        parts = [part for part in (model, decoder_of(model)) if part is not None]
        _ARGUMENTS[model] = {name for part in parts for name in inspect.signature(part.forward).parameters}
    return _ARGUMENTS[model]


def decoder_of(model: Any) -> Any:
    """What gives hidden states and no logits."""
    return model.get_decoder() if hasattr(model, "get_decoder") else getattr(model, "model", None)


def run_block(model: Any, ids: Sequence[int], first: int, cache: Any, part: Any = None, **named: Any) -> Any:
    """What the model, or a `part` of it, gives for tokens from `first` on, with this cache."""
    return (part or model)(torch.tensor([ids], device=first_device(model)), use_cache=True, **{cache_argument(model): cache},
                           **positions_of(model, first, first + len(ids), first_device(model)), **named)


def positions_of(model: Any, first: int, end: int, device: Any) -> dict[str, Any]:
    """The argument that says the true positions of a block: some models count them from 0 in each call without it."""
    if "position_ids" not in _arguments(model):
        return {}
    return {"position_ids": torch.arange(first, end, device=device)[None]}


def is_plain_model(model: Any) -> bool:
    """Whether nothing wraps or replaces the projections of the layers, as adapters and quantisers do."""
    named = re.compile(r"(q|k|v|qkv|o|out)_proj|query_key_value|dense")
    return all(is_plain(part) for layer in layers_of(model) for name, part in layer.named_modules()
               if named.fullmatch(name.rpartition(".")[2]))


def describe(model: Any, layers: list[Layer]) -> Model:
    """The attributes of `/model`, of a model whose layers have these shapes; fills in the layers' chunks. Windows are
    those of the attention functions, which are seen only when they run."""
    config = text_config(model)
    heads, kv_heads, width = usual_shape(layers)
    kinds = list(getattr(config, "layer_types", None) or [])
    for kind, layer in zip(kinds, layers):
        if kind == "chunked_attention" and layer.attends:
            layer.chunk = int(config.attention_chunk_size)
    folder = _folder(model)
    file = folder / "config.json"
    if getattr(getattr(model.config, "quantization_config", None), "gguf_file", None):
        file = folder / "no file"  # a config beside a GGUF file may be of another model
    found = Model(
        layers=len(layers), heads=heads, kv_heads=kv_heads, head_dim=width,
        hidden=config.hidden_size, vocabulary=config.vocab_size, name=folder.name,
        architecture=type(model).__name__,
        rope_pairing="interleaved" if config.model_type in _INTERLEAVED else "half",
        config=file.read_text(encoding="utf-8") if file.is_file() else config.to_json_string(use_diff=False))
    usual = next(layer for layer in layers if layer.attends and (layer.heads, layer.kv_heads, layer.key_dim)
                 == (heads, kv_heads, width))
    found.rotary_start = usual.rotary_start or 0
    kind = "full_attention" if "full_attention" in kinds or not kinds else kinds[layers.index(usual)]
    found.rope_theta, found.rope_scaling, found.rotary_dim = _rotation(model, usual, kind)
    return found


def _parameters(config: Any, kind: str) -> dict[str, Any]:
    """The rotary parameters of layers of this type, in transformers' present names."""
    own = dict(getattr(config, "rope_parameters", None) or {})
    if own and all(isinstance(value, dict) or value is None for value in own.values()):  # by type of layer
        return dict(own.get(kind) or {})
    if own:
        return own
    own = dict(getattr(config, "rope_scaling", None) or {})  # before transformers 5
    theta = getattr(config, "rope_theta", None)
    local = getattr(config, "rope_local_base_freq", None)
    if kind == "sliding_attention" and local is not None:
        own, theta = {}, local
    return own | ({} if theta is None else {"rope_theta": theta})


def _rotation(model: Any, layer: Layer, kind: str) -> tuple[float, dict[str, Any] | None, int]:
    """rope_theta, rope_scaling and the number of rotated channels (0: all) of a layer of this type, compared with the
    model's own numbers."""
    config = text_config(model)
    rope = _parameters(config, kind)
    theta = float(rope.pop("rope_theta", None) or 0.0)
    partial = rope.pop("partial_rotary_factor", None) or getattr(config, "partial_rotary_factor", None) or 1.0
    scaling = {name: value for name, value in rope.items() if value is not None}
    name = scaling.pop("type", None)
    scaling.setdefault("rope_type", name or "default")
    most = layer.rotary_dim or layer.key_dim
    width = most if layer.rotary_dim else int(layer.key_dim * partial)
    shown = lambda count: 0 if count >= layer.key_dim else count
    rotary, local = (getattr(decoder_of(model), name, None) for name in ("rotary_emb", "rotary_emb_local"))
    if kind == "sliding_attention" and local is not None:  # before transformers 5
        rotary = local
    own = getattr(rotary, f"{kind}_inv_freq", None)
    factor = getattr(rotary, f"{kind}_attention_scaling", 1.0)
    if own is None:
        own, factor = getattr(rotary, "inv_freq", None), getattr(rotary, "attention_scaling", 1.0)
    if own is None:
        return theta, None if scaling["rope_type"] == "default" else scaling, shown(width)
    own = own.detach().double().cpu().numpy()
    if scaling["rope_type"] == "yarn" and "factor" not in scaling and scaling.get("original_max_position_embeddings"):
        scaling["factor"] = config.max_position_embeddings / scaling["original_max_position_embeddings"]
    try:
        angles, stretch = frequencies(theta, scaling, 2 * len(own))
        same = np.allclose(angles, own, rtol=1e-4, atol=1e-12) and np.isclose(stretch, float(factor), rtol=1e-4)
    except (KvloupeError, KeyError, TypeError, ZeroDivisionError):
        same = False
    if not same:  # kvloupe says that it cannot undo this rotation
        scaling["rope_type"] = scaling["rope_type"] if scaling["rope_type"] not in (
            "default", "linear", "llama3", "yarn") else f"{scaling['rope_type']} of {config.model_type}"
    return theta, None if scaling["rope_type"] == "default" else scaling, shown(min(2 * len(own), most))


def layer_rotations(model: Any, shape: Model, layers: list[Layer]) -> None:
    """Fills in the rotation of the layers where it is not the model's."""
    kinds = list(getattr(text_config(model), "layer_types", None) or [])
    for at, layer in enumerate(layers):
        if layer.attends and at < len(kinds):
            theta, scaling, width = _rotation(model, layer, kinds[at])
            if (theta, scaling) != (shape.rope_theta, shape.rope_scaling):
                layer.rope_theta, layer.rope_scaling = theta, scaling
            layer.rotary_dim = width


class RotationCheck(Hooked):
    """Compares keys before and after the rotation, where a model computes the former in a module of its own.

    Some models do not rotate in some layers, and their configs say so in different ways: here the numbers say so.
    """

    def __init__(self, places: Sequence[Place], clock: Clock) -> None:
        super().__init__()
        self._before: dict[int, np.ndarray] = {}
        self.keys: dict[int, np.ndarray] = {}  # of the last token of each layer, [Hk, d], rotated
        self._clock = clock
        self._latent: dict[int, Any] = {}  # layers whose rotated channels are a part of a module's output
        done: set[int] = set()
        for place in places:
            attention = place.attention
            if attention is None or id(attention) in done:
                continue
            done.add(id(attention))
            if place.latent is not None:
                self._latent[place.number] = place.latent
            names = ("kv_a_proj_with_mqa",) if place.latent is not None else ("k_norm", "k_layernorm", "k_proj")
            found = (getattr(attention, name, None) for name in names)
            part = next((one for one in found if one is not None), None)
            if part is not None:
                self.hooks.append(part.register_forward_hook(self._keep))

    def _keep(self, module: Any, arguments: Any, output: Any) -> None:
        self._before[self._clock.now] = output.detach()[0].float().cpu().numpy()

    def take(self, module: Any, query: Any, key: Any, *rest: Any) -> None:
        """Keeps the keys of the last token; of latents only the rotated part, after zeros."""
        last, latent = key[0, :, -1].float().cpu().numpy(), self._latent.get(self._clock.now)
        if latent is not None:
            last = np.concatenate([np.zeros((1, latent.rank), np.float32), last[:1, latent.plain:]], -1)
        self.keys[self._clock.now] = last

    def _forms(self, at: int, key: np.ndarray, dim: int) -> list[np.ndarray]:
        """The rotated channels of the token's keys, [Hk, dim or more], before the rotation: forms a model may use."""
        before = self._before[at]
        if at in self._latent:
            last = np.broadcast_to(before[-1, -dim:], key.shape)
            # DeepSeek-V3 takes neighbours as pairs and writes the first of all pairs before the second.
            return [last, np.concatenate([last[:, 0::2], last[:, 1::2]], -1)]
        if before.size % key.size:
            return []
        forms = [before.reshape(-1, *key.shape)[-1]]
        if before.ndim == 3 and before.shape[0] == key.shape[0]:  # [Hk, t, d]
            forms.append(before[:, -1])
        return forms

    def apply(self, shape: Model, layers: Sequence[Layer], position: int) -> None:
        """`position`: > 0, of the token whose keys were kept. Corrects what `layers` say."""
        for at in self._before.keys() & self.keys.keys():
            layer = layers[at]
            if not layer.holds:
                continue
            theta, scaling, start, width = rotation_of(shape, layer)
            key, dim = self.keys[at].astype(np.float64), width or layer.key_dim - start
            key = key[:, start:start + dim] if at in self._latent else key
            forms = self._forms(at, key, dim)
            if not forms:
                continue
            far = lambda states: min(_far_from_a_multiple(states, form) for form in forms)
            if far(key) <= 3e-5:
                layer.rope_theta, layer.rope_scaling = 0.0, None
                continue
            try:
                angles, factor = frequencies(theta, scaling, dim)
            except KvloupeError:
                continue
            plain = unrotated(key, np.full(len(key), position), angles, shape.rope_pairing).astype(np.float64)
            plain[:, :2 * len(angles)] /= factor
            if far(plain) > 0.03:
                layer.rope_theta, layer.rope_scaling = theta, {"rope_type": "of another kind"}


def _far_from_a_multiple(states: np.ndarray, form: np.ndarray) -> float:
    """How far `states` [Hk, d] are from multiples of `form`, one for each head, in units of the largest number: models
    may norm or scale keys after their rotation."""
    times = (states * form).sum(-1, keepdims=True) / np.maximum((form * form).sum(-1, keepdims=True), 1e-30)
    return float(np.abs(states - times * form).max() / max(np.abs(states).max(), 1e-30))


@functools.lru_cache(maxsize=8)
def _gguf_types(file: Path, size: int, changed: int) -> str:
    """The types of the matrices, that of most numbers first: Q4_K; of a mixture also the file's name for it: Q4_K_M (Q5_0,
    Q4_K). Empty without the package gguf."""
    try:
        from gguf import GGUFReader, LlamaFileType
    except ImportError:
        return ""
    numbers: dict[Any, int] = {}
    readers = [GGUFReader(part) for part in ask("gguf_parts", None, file)]
    for tensor in (tensor for reader in readers for tensor in reader.tensors if len(tensor.shape) > 1):
        numbers[tensor.tensor_type] = numbers.get(tensor.tensor_type, 0) + int(tensor.n_elements)
    types = ", ".join(one.name for one in sorted(numbers, key=lambda one: (-numbers[one], one)))
    said = readers[0].fields.get("general.file_type")
    names = {int(one): one.name.removeprefix("MOSTLY_").removeprefix("ALL_") for one in LlamaFileType if one < 1024}
    name = names.get(int(said.parts[said.data[0]][0]), "") if said else ""
    return f"{name} ({types})" if len(numbers) > 1 and name else types


def describe_weights(model: Any, found: Model) -> None:
    """How quantised weights are stored, the fingerprint of a folder or file where the model computes with its weights, and else the
    identity of the weights in memory."""
    quantised, folder = getattr(model.config, "quantization_config", None), _folder(model)
    method = getattr(quantised, "quant_method", None)
    found.weights_format = method = str(getattr(method, "value", method) or "")
    file = folder / str(getattr(quantised, "gguf_file", None) or "")
    config = folder / "config.json"
    if method == "gguf" and file.is_file():
        status = file.stat()
        found.weights_format, found.weights_file = "GGUF", file.name
        found.weights_type = _gguf_types(file, status.st_size, status.st_mtime_ns)
        found.name = str(getattr(model.config, "_model_name_or_path", None) or file.stem)
        if is_plain_model(model) and is_of_file(model, folder, file):
            found.fingerprint = ask("fingerprint", None, file)
    elif config.is_file():
        said = json.loads(config.read_text(encoding="utf-8")).get("quantization_config") is not None
        if said if method else is_plain_model(model) and is_of_file(model, folder, None):
            found.fingerprint = ask("fingerprint", None, folder)
    found.fingerprint = found.fingerprint or identity(model)


def _folder(model: Any) -> Path:
    return Path(str(getattr(text_config(model), "_name_or_path", "") or model.config._name_or_path or "model"))


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
