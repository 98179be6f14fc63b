"""A file for HDF5 that stays whole on a full disk, and that is not there until it is finished.

HDF5 cannot close a file that it failed to write: the process then crashes at its end. Here a failed write is noted,
HDF5 goes on as if the disk had room, and the writer of the trace asks what happened.
"""
from __future__ import annotations

import errno
import fcntl
import os
import secrets
import tempfile
from pathlib import Path

from .errors import KvloupeError


def name_beside(path: Path) -> Path:
    """A new name beside `path`, in the form that kvloupe's programs remove when its writer is gone."""
    return path.with_name(f"{path.name}.{secrets.token_hex(4)}.tmp")


def place_of_file(path: Path) -> Path | None:
    """Where a file of this name is written: at the end of its symbolic links, which stay. None for what is there and
    is no regular file (a device, a pipe, standard output under its name in /dev): this is written through."""
    if path.exists() and not path.is_file() and not path.is_dir():
        return None
    for _ in range(40):
        if not path.is_symlink():
            break
        folder = path.parent.resolve()
        if str(folder).startswith("/proc/"):  # a file that a process has open
            return None
        path = folder / os.readlink(path)
    return path


def refuse_own_input(output: str | os.PathLike[str], *inputs: str | os.PathLike[str]) -> None:
    """Raises KvloupeError where `output` is a file that is read."""
    for one in inputs:
        if os.path.isfile(output) and os.path.exists(one) and os.path.samefile(output, one):
            raise KvloupeError(f"{output}: is read here, and would be written over; give the output another name")


def write_whole_file(path: Path, text: str) -> None:
    """A file that is there whole, or not at all. Raises OSError."""
    place = place_of_file(path)
    if place is None:
        with open(path, "ab") as out:
            out.write(text.encode("utf-8"))
        return
    temporary = name_beside(place)
    try:
        temporary.write_text(text, encoding="utf-8")
        os.replace(temporary, place)
    finally:
        temporary.unlink(missing_ok=True)


class Disk:
    """A file object for h5py.File, open for reading and writing between open() and close().

    Until keep() gives it the name `path` it has none, where the system can do this (O_TMPFILE): whatever ends the
    process, nothing is left. Elsewhere it has a name beside `path`, which close() removes. A `path` that is no regular
    file gets the bytes in the end, from a file in the folder for temporary files.
    """

    def __init__(self, path: Path) -> None:
        self._through = path if place_of_file(path) is None else None  # no regular file: stays what it is
        self._path = place_of_file(path) or Path(tempfile.gettempdir()) / "kvloupe"
        self._name: Path | None = None  # its own, beside `path`
        self._file: int | None = None
        self._at = 0
        self._size = 0
        self.error: OSError | None = None  # the first

    def open(self) -> None:
        """Makes the file. Raises OSError."""
        flags = os.O_RDWR | getattr(os, "O_CLOEXEC", 0)
        if hasattr(os, "O_TMPFILE") and os.path.isdir("/proc/self/fd"):  # which gives it its name at the end
            try:
                self._file = os.open(self._path.parent, flags | os.O_TMPFILE, 0o666)
                return
            except OSError:
                pass  # not every file system has files without a name
        self._name = name_beside(self._path)
        self._file = os.open(self._name, flags | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # tells kvloupe's programs that it has a writer
        except OSError:
            pass  # where there are no locks, the time of the last write alone says so

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

    def keep(self) -> None:
        """The file gets its name; another file of this name is replaced. Call sync() before. Raises OSError."""
        if self._through is not None:
            with open(self._through, "ab") as out:
                for at in range(0, self._size, 1 << 20):
                    out.write(os.pread(self._file, 1 << 20, at))
            return
        if self._name is None:  # a link replaces no file, a renaming does
            self._name = name_beside(self._path)
            try:
                # Python follows the link in /proc only where a folder is given, which an absolute path does not need.
                os.link(f"/proc/self/fd/{self._file}", self._name, src_dir_fd=self._file, follow_symlinks=True)
            except OSError:  # files without a name, but none for them: this must not cost a long run
                self._become_a_copy(self._name)
        os.replace(self._name, self._path)
        folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    def _become_a_copy(self, name: Path) -> None:
        copy = os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0), 0o666)
        nameless, self._file = self._file, copy
        try:
            at = 0
            while at < self._size:
                sent = os.sendfile(copy, nameless, at, self._size - at)
                if sent == 0:
                    raise OSError(errno.EIO, os.strerror(errno.EIO))
                at += sent
            os.fsync(copy)
        finally:
            os.close(nameless)

    def close(self) -> None:
        """Ends the file; what keep() did not finish is gone."""
        if self._name is not None:
            self._name.unlink(missing_ok=True)
        if self._file is not None:
            os.close(self._file)
            self._file = None
