"""libkvloupe_engine.so: found beside the package (kvloupe/lib/), by $KVLOUPE_ENGINE, or in a build folder or the prefix
of the program kvloupe. With KVLOUPE_ENGINE=none the program does what it can in its place.

The C interface is in kvloupe_engine.h; the structs here say the same. ctypes gives up Python's lock during each call.
"""
import ctypes
import functools
import json
import os
import shutil
import signal
import threading
from ctypes import POINTER, c_char_p, c_double, c_float, c_int32, c_int64, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Callable

from . import functions
from .errors import KvloupeError

INTERFACE = 3
_FILE = "libkvloupe_engine.so"
_ERROR_BYTES = 2048
_CANCELLED = 3

READS_QUERIES, READS_VALUES, READS_OUTPUT_WEIGHTS, MERGES, ROUNDS = 1, 2, 4, 8, 16


class States(ctypes.Structure):
    _fields_ = [("data", c_void_p), ("type", c_int32), ("heads", c_int32), ("rows", c_int64), ("columns", c_int64),
                ("head_stride", c_int64), ("row_stride", c_int64)]


class LayerShape(ctypes.Structure):
    _fields_ = [("size", c_uint32), *((name, c_int32) for name in (
        "layer", "layers", "heads", "query_heads", "key_dim", "value_dim", "sliding_window", "budget", "compact",
        "rotary_start", "rotary_dim", "interleaved", "chunk_size")),
        ("rope_theta", c_double), ("rope_scaling", c_char_p), ("attention_scale", c_double), ("softcap", c_double),
        ("sink_logits", POINTER(c_float)), ("output_weights", States), ("prompt_length", c_int32), ("values_in_keys", c_int32)]


class Block(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("first_new", c_int32), ("end_new", c_int32), ("last", c_int32), ("acts", c_int32),
                ("queries", States), ("keys", States), ("values", States)]


class Merge(ctypes.Structure):
    _fields_ = [("into", c_int32), ("members", c_int32), ("from_", POINTER(c_int32)), ("key_changed", c_int32),
                ("log_size", c_float), ("weights", POINTER(c_float)), ("key", POINTER(c_float)),
                ("value", POINTER(c_float))]


class Rounded(ctypes.Structure):
    _fields_ = [("first", c_int32), ("count", c_int32), ("numbers", POINTER(c_float))]


class Retained(ctypes.Structure):
    _fields_ = [("entries", c_int32), ("left_window", c_int32), ("kept_count", c_int32), ("kept", POINTER(c_int32)),
                ("tokens", POINTER(c_int32)), ("merge_count", c_int32), ("merges", POINTER(Merge)),
                ("log_sizes", POINTER(c_float)), ("scores", POINTER(c_float)), ("threshold", c_float), ("keys", Rounded), ("values", Rounded)]


class ReplayRequest(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("block", c_int32), ("compression", c_int32), ("measured", c_int32),
                ("policy", c_char_p), ("budget", c_char_p), ("layers", c_char_p), ("measure_count", c_int32),
                ("measures", POINTER(c_char_p)), ("work", c_void_p)]


class ReplayFacts(ctypes.Structure):
    _fields_ = [("policy", c_char_p), ("budget", c_int32), ("block", c_int32), ("heads", c_int32), ("steps", c_int32),
                ("tokens", c_int32)]


class SweepRequest(ctypes.Structure):
    _fields_ = [("size", c_uint32), ("compression", c_int32), ("policies", c_char_p), ("budgets", c_char_p),
                ("blocks", c_char_p), ("default_measures", c_int32), ("measure_count", c_int32),
                ("measures", POINTER(c_char_p)), ("work", c_void_p)]


class SweepFacts(ctypes.Structure):
    _fields_ = [("rows", c_int64), ("measures", c_int32), ("measure_names", POINTER(c_char_p)),
                ("values", POINTER(c_double)), ("numbers", POINTER(c_int32)), ("texts", POINTER(c_char_p))]


_OUT = POINTER(c_void_p)
# name: (result, arguments without the last one, `error`); those that return c_int32 take it.
_FUNCTIONS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "work_create": (c_void_p, ()), "work_destroy": (None, (c_void_p,)), "work_stop": (None, (c_void_p,)),
    "work_stop_by_interrupt": (None, (c_void_p, c_int32)),
    "work_fraction": (c_double, (c_void_p,)),
    "add_score": (c_int32, (c_void_p,)),
    "spec_reads": (c_int32, (c_char_p, POINTER(c_uint32))),
    "check_reads_only": (c_int32, (c_char_p,)),
    "budget": (c_int32, (c_char_p, c_int32, POINTER(c_int32))),
    "policy_create": (c_int32, (c_char_p, POINTER(LayerShape), _OUT)), "policy_destroy": (None, (c_void_p,)),
    "policy_reads": (c_uint32, (c_void_p,)), "policy_spec": (c_char_p, (c_void_p,)),
    "policy_step": (c_int32, (c_void_p, POINTER(Block), POINTER(POINTER(Retained)))),
    "trace_open": (c_int32, (c_char_p, _OUT)), "trace_close": (None, (c_void_p,)),
    "replay_create": (c_int32, (c_void_p, POINTER(ReplayRequest), _OUT)), "replay_destroy": (None, (c_void_p,)),
    "replay_describe": (None, (c_void_p, POINTER(ReplayFacts))),
    "replay_sets": (None, (c_void_p, c_void_p, c_void_p, c_void_p)),
    "replay_retained": (c_int32, (c_void_p, c_int32, c_int32, c_void_p, c_int32, POINTER(c_int32))),
    "replay_measure": (c_int32, (c_void_p, c_char_p, c_int32, c_void_p, c_int64, c_void_p)),
    "replay_json": (c_int32, (c_void_p, c_char_p, c_int32, _OUT, POINTER(c_int64))),
    "text_data": (c_void_p, (c_void_p, POINTER(c_int64))), "text_destroy": (None, (c_void_p,)),
    "follow": (c_int32, (c_void_p, POINTER(ReplayRequest), c_char_p, c_char_p, _OUT)),
    "ask": (c_int32, (c_char_p, c_char_p, c_char_p, c_int64, _OUT)),
    "results_open": (c_int32, (c_char_p, c_char_p, c_int64, _OUT)), "results_close": (None, (c_void_p,)),
    "results_record": (c_int32, (c_void_p, c_char_p, c_int64)),
    "sweep_create": (c_int32, (c_void_p, POINTER(SweepRequest), _OUT)), "sweep_destroy": (None, (c_void_p,)),
    "sweep_describe": (None, (c_void_p, POINTER(SweepFacts))),
    "writer_create": (c_int32, (c_char_p, c_int32, _OUT)), "writer_destroy": (None, (c_void_p,)),
    "writer_add": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64), *[c_int32] * 4, c_void_p)),
    "writer_read": (c_int32, (c_void_p, c_char_p, c_int32, c_int32, c_void_p)),
    "writer_array": (c_int32, (c_void_p, c_char_p, c_int32, POINTER(c_int64), c_int32, c_void_p)),
    "writer_notes": (c_char_p, (c_void_p,)), "writer_finish": (c_int32, (c_void_p, c_int32, c_char_p)),
    "write_file": (c_int32, (c_char_p, c_char_p, c_int64))}


@functools.lru_cache(maxsize=4)
def _find(named: str | None, program: str | None, places: str | None) -> str | None:
    """Where the library is, with these values of $KVLOUPE_ENGINE, $KVLOUPE and $PATH."""
    package = Path(__file__).resolve().parent
    if (package / "lib" / _FILE).is_file():
        return str(package / "lib" / _FILE)
    if named:
        return named
    found = [folder / "build" / "lib" / _FILE for folder in package.parents]
    program = program or shutil.which("kvloupe", path=places)
    if program:
        prefix = Path(program).resolve().parent.parent
        found += [prefix / "lib" / _FILE, *sorted(prefix.glob(f"lib*/{_FILE}")), *sorted(prefix.glob(f"lib/*/{_FILE}"))]
    return next((str(path) for path in found if path.is_file()), None)


@functools.lru_cache(maxsize=None)
def _load(path: str) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(path)
        library.kvloupe_engine_interface.restype = c_int32
        own = library.kvloupe_engine_interface()
    except (OSError, AttributeError) as error:
        raise KvloupeError(f"{path}: is no engine that can be loaded ({error}); name another one in $KVLOUPE_ENGINE, or "
                           "none") from error
    if own != INTERFACE:
        raise KvloupeError(f"{path}: has the interface {own}, and this package {INTERFACE}; install both of one version, "
                           "or set KVLOUPE_ENGINE=none")
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, f"kvloupe_engine_{name}")
        function.restype = result
        function.argtypes = (*arguments, c_char_p) if result is c_int32 else arguments
    functions.add_to(library)
    return library


def library() -> ctypes.CDLL | None:
    """The engine, or None where there is none. Raises KvloupeError for one that cannot be loaded."""
    named = os.environ.get("KVLOUPE_ENGINE")
    found = None if named == "none" else _find(named, os.environ.get("KVLOUPE"), os.environ.get("PATH"))
    return None if found is None else _load(found)


def needed() -> ctypes.CDLL:
    """The engine. Raises KvloupeError where there is none."""
    found = library()
    if found is None:
        raise KvloupeError(f"{_FILE} was not found, or $KVLOUPE_ENGINE is none; build kvloupe, or put the library's path "
                           "into $KVLOUPE_ENGINE")
    return found


def call(name: str, *arguments: Any) -> None:
    """Calls a function that returns a status. Raises KvloupeError with its line; KeyboardInterrupt if it was stopped."""
    functions.raised.clear()
    error = ctypes.create_string_buffer(_ERROR_BYTES)
    status = getattr(needed(), f"kvloupe_engine_{name}")(*arguments, error)
    if status == _CANCELLED:
        raise KeyboardInterrupt
    if status != 0:
        cause = functions.raised[0] if functions.raised else None
        if cause is not None and not isinstance(cause, Exception):
            raise cause
        raise KvloupeError(error.value.decode("utf-8", "replace")) from cause


def entries_of(budget: Any, tokens: int = 1 << 20) -> int:
    """Entries of a budget, of a prompt of so many tokens. Raises KvloupeError for what is neither a number nor a share."""
    entries = c_int32()
    call("budget", str(budget).encode(), tokens, ctypes.byref(entries))
    return entries.value


def reads_of(spec: str, reads_only: bool = False) -> int:
    """What a policy reads and does, in the bits above. Raises KvloupeError where it cannot run in a model; with `reads_only` also
    where it acts on what is generated."""
    bits = c_uint32()
    call("spec_reads", spec.encode(), ctypes.byref(bits))
    if reads_only:
        call("check_reads_only", spec.encode())
    return bits.value


def stoppable(body: Callable[[c_void_p], None]) -> None:
    """body(work), which Ctrl-C stops where Python itself would raise KeyboardInterrupt: in the main thread."""
    own = needed()
    work = c_void_p(own.kvloupe_engine_work_create())
    if not work:
        raise MemoryError
    usual = (threading.current_thread() is threading.main_thread()
             and signal.getsignal(signal.SIGINT) is signal.default_int_handler)
    try:
        if usual:
            own.kvloupe_engine_work_stop_by_interrupt(work, 1)
        body(work)
    finally:
        own.kvloupe_engine_work_stop_by_interrupt(work, 0)
        own.kvloupe_engine_work_destroy(work)


class Handle:
    """An object of the engine, destroyed with this one."""

    def __init__(self, pointer: c_void_p, destroy: str) -> None:
        self._as_parameter_ = pointer
        self._destroy = getattr(needed(), f"kvloupe_engine_{destroy}")

    def close(self, none: c_void_p = c_void_p()) -> None:  # the module's own c_void_p is gone when Python ends
        pointer, self._as_parameter_ = self._as_parameter_, none
        if pointer:
            self._destroy(pointer)

    def __del__(self) -> None:
        if hasattr(self, "_destroy"):
            self.close()


def made(name: str, destroy: str, *arguments: Any, request: Any = None) -> Handle:
    """What a function of the engine makes. With a request, which gets the work, Ctrl-C stops it."""
    pointer = c_void_p()

    def make(work: c_void_p) -> None:
        request.work = work
        call(name, *arguments, ctypes.byref(pointer))
    if request is None:
        call(name, *arguments, ctypes.byref(pointer))
    else:
        stoppable(make)
    return Handle(pointer, destroy)


def json_of(text: Handle) -> Any:
    """What a text of the engine says."""
    size = c_int64()
    return json.loads(ctypes.string_at(needed().kvloupe_engine_text_data(text, ctypes.byref(size)), size.value))


def ask(function: str, given: Any, path: str | os.PathLike[str] | None = None) -> Any:
    """What a function of kvloupe_engine_ask() answers. Raises KvloupeError."""
    words = json.dumps(given).encode()
    return json_of(made("ask", "text_destroy", function.encode(), None if path is None else os.fsencode(path), words, len(words)))


_last: tuple[Any, Handle] | None = None  # the trace opened last, and which file it was
_opening = threading.Lock()


def open_trace(path: str | os.PathLike[str]) -> Handle:
    """The trace of a file. The one opened last stays open while the file is the same: opening takes as long as a replay
    of a short trace. It is not locked, and may be replaced or removed. Raises KvloupeError."""
    global _last
    with _opening:
        try:
            found = os.stat(path)
            identity = (os.path.abspath(path), found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)
        except (OSError, ValueError):
            identity = None  # the engine says what is wrong
        if _last is not None and identity is not None and _last[0] == identity:
            return _last[1]
        opened = made("trace_open", "trace_close", os.fsencode(path))
        _last = (identity, opened)
        return opened
