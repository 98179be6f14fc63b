"""libkvloupe_engine.so: found beside the package (kvloupe/lib/), by $KVLOUPE_ENGINE, or in a build folder or the prefix
of the program kvloupe. With KVLOUPE_ENGINE=none the program does what it can in its place.

The C interface is in kvloupe_engine.h, which the library holds as text. ctypes gives up Python's lock during each call.
"""
import ctypes
import functools
import json
import os
import shutil
import signal
import threading
from ctypes import c_char_p, c_int32, c_uint32, c_void_p
from pathlib import Path
from typing import Any, Callable

from . import functions
from .c_header import Header
from .errors import KvloupeError

INTERFACE = 3
_FILE = "libkvloupe_engine.so"
_ERROR_BYTES = 2048
_CANCELLED = 3

READS_QUERIES, READS_VALUES, READS_OUTPUT_WEIGHTS, MERGES, ROUNDS = 1, 2, 4, 8, 16


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
        library.kvloupe_engine_declarations.restype = c_char_p
        header = Header(library.kvloupe_engine_declarations().decode())
    except (OSError, AttributeError) as error:
        raise KvloupeError(f"{path}: is no engine that can be loaded ({error}); name another one in $KVLOUPE_ENGINE, or "
                           "none") from error
    if own != INTERFACE:
        raise KvloupeError(f"{path}: has the interface {own}, and this package {INTERFACE}; install both of one version, "
                           "or set KVLOUPE_ENGINE=none")
    for name, (result, arguments) in header.functions.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.structs = header.structs  # type: ignore[attr-defined]
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


def kind(name: str) -> Any:
    """The struct kvloupe_engine_NAME."""
    return needed().structs[f"kvloupe_engine_{name}"]


def struct(name: str, **fields: Any) -> Any:
    """Such a struct with these fields, and its size where it says that."""
    of = kind(name)
    return of(**fields, **({"size": ctypes.sizeof(of)} if hasattr(of, "size") else {}))


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
    return json.loads(needed().kvloupe_engine_text_data(text, None))


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
