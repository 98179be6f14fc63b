"""A file for HDF5 that stays whole on a full disk.

HDF5 cannot close a file that it failed to write: the process then crashes at its end. Here a failed write is noted,
HDF5 goes on as if the disk had room, and the writer of the trace asks what happened.
"""
from __future__ import annotations

import os
from pathlib import Path


class Disk:
    """A file object for h5py.File, opened for reading and writing; it must not exist."""

    def __init__(self, path: Path) -> None:
        self._file: int | None = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        self._at = 0
        self._size = 0
        self.error: OSError | None = None  # the first

    def check(self) -> None:
        """Raises the error of an earlier write."""
        if self.error is not None:
            raise self.error

    def write(self, data: bytes | memoryview) -> int:
        view = memoryview(data).cast("B")
        done = 0
        while self.error is None and done < len(view):
            try:
                done += os.pwrite(self._file, view[done:], self._at + done)
            except OSError as error:
                self.error = error
        self._at += len(view)
        self._size = max(self._size, self._at)
        return len(view)

    def readinto(self, data: memoryview) -> int:
        view = memoryview(data).cast("B")
        found = os.pread(self._file, len(view), self._at)
        view[:len(found)] = found
        view[len(found):] = bytes(len(view) - len(found))  # never written: zero, as in a file with holes
        self._at += len(view)
        return len(view)

    def read(self, size: int = -1) -> bytes:
        data = bytearray(max(self._size - self._at, 0) if size < 0 else size)
        self.readinto(memoryview(data))
        return bytes(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def tell(self) -> int:
        return self._at

    def truncate(self, size: int | None = None) -> int:
        size = self._at if size is None else size
        try:
            if self.error is None:
                os.ftruncate(self._file, size)
        except OSError as error:
            self.error = error
        self._size = size
        return size

    def flush(self) -> None:
        pass

    def sync(self) -> None:
        """Everything to the disk. Raises OSError."""
        self.check()
        os.fsync(self._file)

    def close(self) -> None:
        if self._file is not None:
            os.close(self._file)
            self._file = None
