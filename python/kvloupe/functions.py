"""Functions of this program as policies: function("NAME") in a spec. The engine calls them through its interface of plugins
(policy_plugin.h)."""
import ctypes
import hashlib
import itertools
import re
import traceback
import types
from typing import Any, Callable, Union

import numpy as np

from .errors import KvloupeError

_ERROR_BYTES, _TEXT, _READS = 512, 5, 1 | 2  # bytes of an error; the type of a parameter; queries and values
AnyPolicy = Union[str, Callable[["Step"], Any]]  # a spec, or a function that gives each entry a number
_functions: dict[str, Callable[["Step"], Any]] = {}
raised: list[BaseException] = []  # by a function, in the call of the engine that runs now


def _array(data: Any, shape: tuple[int, ...], stride: int) -> np.ndarray:
    """A copy of rows of the engine's numbers, which are gone after the call."""
    size = ctypes.sizeof(data._type_)
    if not data or 0 in shape:
        return np.empty(shape, data._type_)
    seen = np.ctypeslib.as_array(data, ((shape[0] - 1) * stride + (shape[1] if len(shape) > 1 else 1),))
    return np.lib.stride_tricks.as_strided(seen, shape, (stride * size, size)[:len(shape)]).copy()


def _rows(of: Any) -> np.ndarray:
    return _array(of.data, (of.rows, of.columns), of.stride)


class Step:
    """One head's cache at a step that evicts, which a policy function gets: it gives a number for each of the n entries, [n];
    entries with higher numbers are kept.

    layer, layers, head, heads, query_heads: the place; number: of the step; first_new, end_new: the block's tokens;
    first_visible: later queries see no token before it; budget: entries that may stay; attention_scale: the factor of q·k. Arrays are copies. Read it during the call.
    """

    def __init__(self, step: Any, head: int, layer: Any) -> None:
        self._step, self.head, self.number = step, head, step.contents.step
        for name in ("first_new", "end_new", "first_visible", "budget", "heads", "query_heads"):
            setattr(self, name, getattr(step.contents, name))
        self.layer, self.layers, self.attention_scale = layer.layer, layer.layers, layer.attention_scale

    def _open(self) -> Any:
        if self._step is None:
            raise KvloupeError("a step can only be read during the call of the policy function; copy what is needed later")
        return self._step.contents

    def _cache(self) -> Any:
        return self._open().caches[self.head]

    def __len__(self) -> int:
        return self._cache().entries

    @property
    def tokens(self) -> np.ndarray:
        """int32 [n]: the entries' positions, ascending."""
        return _array(self._cache().tokens, (len(self),), 1)

    @property
    def keys(self) -> np.ndarray:
        """float32 [n, key_dim], rotated to their tokens' positions."""
        return _rows(self._cache().keys)

    @property
    def values(self) -> np.ndarray:
        """float32 [n, value_dim]"""
        return _rows(self._cache().values)

    def _query_heads(self) -> range:
        group = self.query_heads // self.heads
        return range(self.head * group, self.head * group + group)

    @property
    def queries(self) -> list[np.ndarray]:
        """Of each query head of this head, float32 [tokens of the block, key_dim], rotated."""
        step = self._open()
        return [_rows(step.queries[query]) for query in self._query_heads()]

    def attention(self, query: int = 0, count: int | None = None) -> np.ndarray:
        """[count, n]: the last softmax rows of one of this head's query heads over the cache; all of the block without `count`."""
        step, own = self._open(), self._query_heads()
        rows = self.end_new - self.first_new if count is None else count
        if not 0 <= query < len(own) or rows < 1:
            raise KvloupeError(f"attention: there are query heads 0 to {len(own) - 1}, and at least 1 row")
        return _rows(step.attention(self._step, own[query], rows))


def _line(error: BaseException, name: str) -> str:
    function = getattr(_functions[name], "__code__", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
             if function is not None and frame.filename == function.co_filename]
    text = traceback.format_exception_only(type(error), error)[-1].strip()
    return f"{name}{f', line {lines[-1]}' if lines else ''}: {text}"


def _call(name: str, error: int, body: Callable[[], None]) -> int:
    try:
        body()
        return 0
    except BaseException as problem:  # none may cross the engine, which then fails; engine.call goes on with this one
        raised.append(problem)
        text = _line(problem, name).encode()[:_ERROR_BYTES - 1].decode("utf-8", "ignore").encode() + b"\0"
        ctypes.memmove(error, text, len(text))
        return 1


_objects: dict[int, tuple[str, Any]] = {}  # what the engine made, by number: the name of a function, and the layer
_numbers = itertools.count(1)


def _create(_: Any, layer: Any, values: Any, protection: Any, made: Any, error: int) -> int:
    name = (values[0].text or b"").decode()
    if name not in _functions:
        text = f"{name!r} is no function of this program; give the function itself as the policy".encode()[:_ERROR_BYTES - 1] + b"\0"
        ctypes.memmove(error, text, len(text))
        return 1
    made[0] = number = next(_numbers)
    _objects[number] = name, type(layer.contents).from_buffer_copy(layer.contents)
    return 0


def _score(made: int, step: Any, head: int, scores: Any, error: int) -> int:
    name, layer = _objects[made]

    def body() -> None:
        given = Step(step, head, layer)
        count = len(given)
        try:
            found = _functions[name](given)
        finally:
            given._step = None
        if hasattr(found, "detach"):  # torch
            found = found.detach().cpu()
        try:
            array = np.asarray(found, np.float32)
        except (TypeError, ValueError):
            raise TypeError(f"returned {type(found).__name__}, not an array of numbers") from None
        if array.shape != (count,):
            raise ValueError(f"returned an array of shape {array.shape}, not ({count},)")
        ctypes.memmove(scores, np.ascontiguousarray(array).ctypes.data, 4 * count)
    return _call(name, error, body)


def _destroy(made: int) -> None:
    _objects.pop(made, None)


_kept: list[Any] = []  # what the engine holds on to


def add_to(library: Any) -> None:
    """Adds function() to the policies of this engine."""
    score = library.structs["kvloupe_score"]
    functions = {name: dict(score._fields_)[name](body) for name, body in (
        ("create", _create), ("score", _score), ("destroy", _destroy))}
    parameter = library.structs["kvloupe_parameter"](b"name", b"of a function that was given as a policy", _TEXT)
    made = score(ctypes.sizeof(score), _READS, 0, 1, ctypes.pointer(parameter), b"function",
                 b"a function of this Python program scores the entries", b"score = name(step), an array of n numbers",
                 b"your own program", b"a call of your function", **functions)
    _kept.append(made)
    error = ctypes.create_string_buffer(2048)
    if library.kvloupe_engine_add_score(ctypes.byref(made), error) != 0:
        raise KvloupeError(error.value.decode("utf-8", "replace"))


def _names(code: types.CodeType) -> list[str]:
    """What a function names outside of itself, in the functions and comprehensions inside of it, too."""
    return [*code.co_names, *(name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one))]


def _content(of: Any, home: str, seen: list[Any]) -> bytes:
    """What a function computes with: its code, its defaults, and what it names outside of itself. Of functions and classes of another
    module than `home`, the policy's, their own code."""
    if isinstance(of, (types.ModuleType, types.BuiltinFunctionType)):
        return of.__name__.encode()
    if isinstance(of, property):
        of = of.fget
    if hasattr(of, "detach") and hasattr(of, "numpy"):  # torch
        of = of.detach().float().cpu().numpy()
    if isinstance(of, np.ndarray):
        return f"{of.dtype}{of.shape}".encode() + of.tobytes()
    if not isinstance(of, (dict, list, tuple, types.CodeType, type)) and not hasattr(of, "__dict__"):
        return repr(of).encode()
    if any(one is of for one in seen):
        return b""
    seen.append(of)
    if isinstance(of, types.CodeType):
        parts: Any = (of.co_code, of.co_names, *of.co_consts)
    elif isinstance(of, types.FunctionType):
        parts = (of.__code__, of.__defaults__, of.__kwdefaults__)
        if of.__module__ == home:
            parts += (*(cell.cell_contents for cell in of.__closure__ or ()),
                      *(of.__globals__[name] for name in _names(of.__code__) if name in of.__globals__))
    elif isinstance(of, types.MethodType):
        parts = (of.__func__, of.__self__)
    elif isinstance(of, type):
        parts = (of.__qualname__, of.__bases__, *(vars(of).items() if of.__module__ == home else ()))
    elif isinstance(of, dict):
        parts = of.items()
    else:
        parts = of if isinstance(of, (list, tuple)) else (type(of), vars(of))
    return b"(" + b",".join([_content(part, home, seen) for part in parts]) + b")"


def name_of(policy: AnyPolicy) -> str:
    """A policy as a person names it: the spec that was given, or the function's name."""
    return getattr(policy, "__name__", type(policy).__name__) if callable(policy) else str(policy)


def spec_of(policy: AnyPolicy) -> str:
    """The spec of a policy: a text as it is; of a function `function("NAME")`, which takes modifiers behind it:
    kvloupe.spec_of(mine) + "+recent(10%)". The name changes with the function's code and with the values that it names (of other
    modules with the code of the function called alone), so that stored results are not taken for those of another function."""
    if not callable(policy):
        return str(policy)
    name = re.sub("[^0-9A-Za-z_]", "", name_of(policy)) or "policy"
    name += "-" + hashlib.sha256(_content(policy, getattr(policy, "__module__", ""), [])).hexdigest()[:8]
    _functions[name] = policy
    return f'function("{name}")'
