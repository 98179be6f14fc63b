"""How a trace spells the bytes of a token (docs/trace-format.md, *Texts of tokens*)."""
from __future__ import annotations

import re

_CONTROL = {"\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_SPELLED = re.compile(r"\\(?:x([0-9A-Fa-f]{2})|(.))", re.DOTALL)


def shown(piece: bytes) -> str:
    """A token's bytes as a trace spells them: a backslash as \\\\, line ends and tabs as \\n, \\r, \\t; other control
    characters and bytes that are not valid UTF-8 as \\xNN."""
    def one(c: str) -> str:
        if "\udc80" <= c <= "\udcff":
            return f"\\x{ord(c) - 0xDC00:02X}"
        return _CONTROL.get(c, f"\\x{ord(c):02X}") if c < " " or c in "\\\x7f" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def readable(piece: bytes) -> str:
    """A token's bytes as text, in which only NUL and bytes that are not valid UTF-8 are written as \\xNN."""
    def one(c: str) -> str:
        return f"\\x{ord(c) & 0xFF:02X}" if "\udc80" <= c <= "\udcff" or c == "\0" else c
    return "".join(map(one, piece.decode("utf-8", errors="surrogateescape")))


def spelled_bytes(text: str) -> bytes:
    """The bytes that shown() spelled."""
    control = {spelled[1]: c for c, spelled in _CONTROL.items()}
    done, at = b"", 0
    for found in _SPELLED.finditer(text):
        done += text[at:found.start()].encode("utf-8", errors="replace")
        done += (bytes([int(found[1], 16)]) if found[1] else
                 control.get(found[2], found[0]).encode("utf-8", errors="replace"))
        at = found.end()
    return done + text[at:].encode("utf-8", errors="replace")
