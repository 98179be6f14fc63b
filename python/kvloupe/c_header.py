"""The structs and functions that a C header declares, for ctypes."""
import ctypes
import keyword
import re
from ctypes import POINTER, c_void_p
from typing import Any

_KINDS = {"int32_t": ctypes.c_int32, "uint32_t": ctypes.c_uint32, "int64_t": ctypes.c_int64, "uint8_t": ctypes.c_uint8,
          "float": ctypes.c_float, "double": ctypes.c_double, "text": ctypes.c_char_p}


class Header:
    """The part of C that kvloupe's headers are written in. `const char*` is a text; other pointers to char, void and structs
    without fields are addresses, and so is in a function's arguments every pointer that is not to one struct."""

    def __init__(self, text: str) -> None:
        self.structs: dict[str, Any] = {}
        self.functions: dict[str, tuple[Any, list[Any]]] = {}  # result, arguments
        text = re.sub(r"/\*.*?\*/|^#.*?$", "", text, flags=re.S | re.M)
        text = re.sub(r"\bconst char\*", "text", text)
        text = re.sub(r" +\*", "*", re.sub(r"\s+", " ", re.sub(r"\b(const|struct)\b(?! \w+ \{)", "", text)))
        for name, body in re.findall(r"typedef struct (\w+) \{(.*?)\}", text):
            made = self.structs[name] = type(name, (ctypes.Structure,), {})
            made._fields_ = [field for line in body.split(";") if line.strip() for field in self._fields(line.strip())]
        for kind, name, given in re.findall(r"KVLOUPE_ENGINE_EXPORT ([\w*]+) (\w+)\(([^;]*)\);", text):
            self.functions[name] = self._kind(kind), [self._argument(one.split()[0]) for one in given.split(",") if one != "void"]

    def _fields(self, line: str) -> list[tuple[str, Any]]:
        function = re.fullmatch(r"([\w*]+) \(\*(\w+)\)\((.*)\)", line)
        if function:
            given = [self._kind(one.split()[0]) for one in function[3].split(",")]
            return [(function[2], ctypes.CFUNCTYPE(self._kind(function[1]), *given))]
        kind, names = line.split(" ", 1)
        return [(name + "_" * keyword.iskeyword(name), self._kind(kind)) for name in names.replace(" ", "").split(",")]

    def _kind(self, name: str) -> Any:
        base = name.rstrip("*")
        stars, kind = len(name) - len(base), _KINDS.get(base) or self.structs.get(base)
        if kind is None:
            kind, stars = (c_void_p, stars - 1) if stars else (None, 0)
        for _ in range(stars):
            kind = POINTER(kind)
        return kind

    def _argument(self, name: str) -> Any:
        return c_void_p if name.endswith("*") and name[:-1] not in self.structs else self._kind(name)
