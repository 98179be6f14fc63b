"""The results file of a study, written as kvloupe-capture study writes it (docs/studies.md, *The results file*)."""
from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import math
import os
import sqlite3
from pathlib import Path
from typing import Any, Iterator

from .errors import KvloupeError

_APPLICATION, _VERSION = 0x6B766C73, 2
_TABLES = """
CREATE TABLE settings (name TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE traces (trace INTEGER PRIMARY KEY, name TEXT NOT NULL, identity TEXT NOT NULL);
CREATE TABLE measures (measure INTEGER PRIMARY KEY, name TEXT NOT NULL);
CREATE TABLE items (item INTEGER PRIMARY KEY, trace INTEGER NOT NULL, task TEXT NOT NULL,
  policy TEXT NOT NULL,
  budget TEXT NOT NULL, block TEXT NOT NULL, entries INTEGER NOT NULL, tokens INTEGER NOT NULL,
  compression TEXT NOT NULL, state TEXT NOT NULL, problem TEXT NOT NULL, seconds REAL NOT NULL);
CREATE TABLE replay_values (item INTEGER, measure INTEGER, value REAL,
  PRIMARY KEY (item, measure)) WITHOUT ROWID;
CREATE TABLE head_values (item INTEGER, measure INTEGER, layer INTEGER, head INTEGER, value REAL,
  PRIMARY KEY (item, measure, layer, head)) WITHOUT ROWID;
CREATE TABLE step_values (item INTEGER, measure INTEGER, layer INTEGER, head INTEGER, step INTEGER,
  value REAL, PRIMARY KEY (item, measure, layer, head, step)) WITHOUT ROWID;
CREATE TABLE at_once (item INTEGER PRIMARY KEY);
CREATE TABLE prompts (prompt INTEGER PRIMARY KEY, stored TEXT NOT NULL UNIQUE);
CREATE TABLE run_prompts (item INTEGER PRIMARY KEY, prompt INTEGER NOT NULL,
  expected TEXT NOT NULL, answer TEXT NOT NULL);
CREATE TABLE roles (trace INTEGER, layer INTEGER, head INTEGER, query_head INTEGER,
  role TEXT, value REAL, PRIMARY KEY (layer, head, trace, query_head, role)) WITHOUT ROWID;
CREATE TABLE models (trace INTEGER PRIMARY KEY, fingerprint TEXT NOT NULL);
CREATE TABLE folders (folder TEXT PRIMARY KEY) WITHOUT ROWID;
"""


@dataclasses.dataclass
class Item:
    """One run of a plan; its place in the list is its number."""

    source: int
    task: str
    policy: str
    budget: str
    block: str  # tokens, or all
    tokens: int  # of a block
    compression: str


@dataclasses.dataclass
class Outcome:
    """What a run gave."""

    entries: int = 0
    seconds: float = 0.0
    problem: str = ""  # why it failed
    at_once: bool = False
    values: dict[str, float] = dataclasses.field(default_factory=dict)
    layers: dict[str, list[float]] = dataclasses.field(default_factory=dict)  # by layer
    stored: str = ""  # the prompt as JSON
    expected: str = ""  # the right answers as a JSON list
    answer: str = ""


class StudyResults:
    """The file of these settings and items: a new one, or one to go on with. Raises KvloupeError for a file of others."""

    def __init__(self, path: Path, settings: dict[str, str], sources: list[tuple[str, str]], measures: list[str],
                 items: list[Item]) -> None:
        """sources: name and identity of each."""
        self._path, self._measures = path, measures
        with self._errors():
            # The whole path: SQLite takes a name such as ":memory:" for something else than a file.
            self._file = sqlite3.connect(path.absolute(), isolation_level=None)
            self._file.execute("PRAGMA synchronous = FULL")
            if self._number("PRAGMA page_count") == 0:
                self._create(settings, sources, items)
            else:
                self._check(settings, sources, items)

    def close(self) -> None:
        self._file.close()

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise KvloupeError(f"{self._path}: {error}; is it a results file of a study, and is the disk full?") from error

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[Any]:
        """All or nothing, also where Ctrl-C or a kill comes between."""
        self._file.execute("BEGIN IMMEDIATE")
        try:
            yield self._file
            self._file.execute("COMMIT")
        except BaseException:
            if self._file.in_transaction:
                self._file.execute("ROLLBACK")
            raise

    def _number(self, question: str) -> int:
        return int(self._file.execute(question).fetchone()[0])

    def _create(self, settings: dict[str, str], sources: list[tuple[str, str]], items: list[Item]) -> None:
        with self._transaction() as file:
            for part in (f"PRAGMA application_id = {_APPLICATION}", f"PRAGMA user_version = {_VERSION}", *_TABLES.split(";")):
                file.execute(part)
            file.executemany("INSERT INTO settings VALUES (?, ?)", settings.items())
            file.executemany("INSERT INTO traces VALUES (?, ?, ?)", [(at, *source) for at, source in enumerate(sources)])
            file.executemany("INSERT INTO measures VALUES (?, ?)", enumerate(self._measures))
            file.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?, 0, ?, ?, 'waiting', '', 0)",
                             [(at, one.source, one.task, one.policy, one.budget, one.block, one.tokens, one.compression)
                              for at, one in enumerate(items)])

    def _check(self, settings: dict[str, str], sources: list[tuple[str, str]], items: list[Item]) -> None:
        if self._number("PRAGMA application_id") != _APPLICATION or self._number("PRAGMA user_version") != _VERSION:
            raise KvloupeError(f"{self._path}: is not a results file of a study of this version; choose another name")
        before = dict(self._file.execute("SELECT name, value FROM settings"))
        for name, value in settings.items():
            if before.get(name, "") != value:
                raise KvloupeError(f"{self._path}: holds a study with other {name}: {before.get(name, '')!r} there, {value!r} now; "
                                   "choose another name, or undo the change")
        old = [row[0] for row in self._file.execute("SELECT name FROM measures ORDER BY measure")]
        for one, now in zip(old, self._measures):
            if one != now: # a newer version may measure more at the end only
                raise KvloupeError(f"{self._path}: was begun by a version whose tasks measure other things ({one!r} there, {now!r} "
                                   "now); choose another name")
        known = list(self._file.execute("SELECT name, identity FROM traces ORDER BY trace"))
        if len(known) != len(sources) or self._number("SELECT COUNT(*) FROM items") != len(items):
            raise KvloupeError(f"{self._path}: is damaged: prompts or items are missing; choose another name")
        for at, ((name, identity), (_, now)) in enumerate(zip(known, sources)):
            if identity != now and self._file.execute("SELECT 1 FROM items WHERE trace = ? AND state = 'done'", (at,)).fetchone():
                raise KvloupeError(f"{self._path}: has results of {name!r} as the prompt or the model was before a change; choose "
                                   "another name, or undo the change")
        with self._transaction() as file:
            file.executemany("INSERT INTO measures VALUES (?, ?)", list(enumerate(self._measures))[len(old):])
            file.executemany("UPDATE traces SET identity = ? WHERE trace = ?",
                             [(source[1], at) for at, source in enumerate(sources)])

    def missing(self) -> list[int]:
        """The items that wait or failed."""
        with self._errors():
            return [row[0] for row in self._file.execute("SELECT item FROM items WHERE state != 'done' ORDER BY item")]

    def record(self, item: int, outcome: Outcome) -> None:
        """Writes all of a run, or its problem."""
        number = lambda value: float(value) if math.isfinite(value) else None
        with self._errors(), self._transaction() as file:
            file.execute("UPDATE items SET state = ?, problem = ?, seconds = ?, entries = max(entries, ?) WHERE item = ?",
                         ("failed" if outcome.problem else "done", outcome.problem, outcome.seconds, outcome.entries, item))
            if outcome.at_once:
                file.execute("INSERT OR IGNORE INTO at_once VALUES (?)", (item,))
            if outcome.stored:
                file.execute("INSERT OR IGNORE INTO prompts (stored) VALUES (?)", (outcome.stored,))
                file.execute("INSERT OR REPLACE INTO run_prompts SELECT ?, prompt, ?, ? FROM prompts WHERE stored = ?",
                             (item, outcome.expected, outcome.answer, outcome.stored))
            for name, values in outcome.layers.items():
                file.executemany("INSERT INTO head_values VALUES (?, ?, ?, -1, ?)", [
                    (item, self._measures.index(name), layer, number(value)) for layer, value in enumerate(values)])
            file.executemany("INSERT INTO replay_values VALUES (?, ?, ?)", [
                (item, self._measures.index(name), number(value)) for name, value in outcome.values.items()])

    def table(self) -> tuple[dict[str, list[Any]], list[int | None]]:
        """As table_of()."""
        with self._errors():
            return table_of(self._file)


def table_of(file: Any, heads: bool = False) -> tuple[dict[str, list[Any]], list[int | None]]:
    """A row for each item that is done, or for each of its layers and heads: its prompt and setting, the answer, and the measures;
    and how many tokens the prompt of each row has, where known."""
    names = ("task", "prompt", "policy", "budget", "entries", "block", "compression", "seconds", "expected", "answer")
    rows = list(file.execute(
        "SELECT item, stored, task, name, policy, budget, entries, block, compression, seconds, expected, answer FROM items JOIN "
        "traces USING (trace) LEFT JOIN run_prompts USING (item) LEFT JOIN prompts USING (prompt) WHERE state = 'done' ORDER BY item"))
    values: dict[Any, dict[int, float]] = {}  # by item, or by item, layer and head
    key = "item, layer, head" if heads else "item"
    for *place, measure, value in file.execute(f"SELECT {key}, measure, value FROM {'head' if heads else 'replay'}_values ORDER BY {key}"):
        values.setdefault(tuple(place), {})[measure] = math.nan if value is None else value
    places = {row[0]: [] for row in rows} if heads else {row[0]: [(row[0],)] for row in rows}
    for place in values if heads else ():
        places.get(place[0], []).append(place)
    rows = [(*row, place) for row in rows for place in places[row[0]]]
    columns: dict[str, list[Any]] = {name: [row[at + 2] for row in rows] for at, name in enumerate(names)}
    for at, name in enumerate(("layer", "head") if heads else ()):
        columns[name] = [row[-1][at + 1] for row in rows]
    for measure, name in file.execute("SELECT measure, name FROM measures ORDER BY measure").fetchall():
        columns[name] = [values.get(row[-1], {}).get(measure, math.nan) for row in rows]
    lengths = {stored: len(json.loads(stored)["ids"].split()) for stored in {row[1] for row in rows} if stored}
    return columns, [lengths.get(row[1]) for row in rows]


def read_study(path: Path, heads: bool) -> tuple[dict[str, list[Any]], dict[str, str], list[int | None]]:
    """The table, the settings and the lengths of prompts of a results file, which is only read. Raises ValueError for another file."""
    try:
        with contextlib.closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as file:
            if file.execute("PRAGMA application_id").fetchone() != (_APPLICATION,):
                raise ValueError
            columns, counts = table_of(file, heads)
            return columns, dict(file.execute("SELECT name, value FROM settings")), counts
    except sqlite3.Error as error:
        raise ValueError from error


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Keeps other studies, of the program too, from writing to the file. Raises KvloupeError."""
    lock = Path(f"{path}.lock")
    while True:
        try:
            file = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise KvloupeError(f"{lock}: cannot be written ({error.strerror}); check the folder") from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if lock.exists() and os.path.samestat(os.fstat(file), lock.stat()):
                break
        except BlockingIOError as error:
            os.close(file)
            raise KvloupeError(f"{path}: another study is writing to it; wait for its end or choose another name") from error
        os.close(file)  # the study before removed it meanwhile
    try:
        yield
    finally:
        lock.unlink(missing_ok=True)
        os.close(file)
