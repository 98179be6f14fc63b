"""The programs kvloupe and kvloupe-capture: found in $KVLOUPE and $KVLOUPE_CAPTURE, in this package (the wheel has them),
in $PATH, or in a build folder above this package."""
import csv
import difflib
import functools
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import warnings
from itertools import accumulate
from pathlib import Path
from typing import Any, Sequence

from .errors import KvloupeError, KvloupeWarning
from .functions import AnyPolicy, name_of, spec_of
from .progress import in_notebook, reporter
from .tables import of_sweep, results

if sys.executable:  # python("file.py:name") is run by the interpreter that calls
    os.environ.setdefault("KVLOUPE_PYTHON3", sys.executable)


def find(name: str = "kvloupe") -> str:
    """The path of the program `name`: kvloupe or kvloupe-capture. Raises KvloupeError."""
    variable = name.upper().replace("-", "_")
    named = os.environ.get(variable)
    if named:
        return named
    here = Path(__file__).resolve()
    inside = here.parent / "bin" / name
    if inside.is_file():
        return str(inside)
    beside = [folder / "build" / "bin" / name for folder in here.parents]
    found = shutil.which(name) or next((str(path) for path in beside if path.is_file()), None)
    if found is None:
        raise KvloupeError(f"the program {name} was not found; install the wheel that has it (docs/python.md), put it in "
                           f"$PATH, or its path in ${variable}")
    return found


def share_folder() -> Path:
    """The folder with demo-model, prompts and lessons: the wheel's, this repository's, or that of the program's prefix."""
    package, program = Path(__file__).resolve().parent, shutil.which(os.environ.get("KVLOUPE", "kvloupe"))
    places = [package / "share/kvloupe", *(folder / "assets" for folder in package.parents),
              *([Path(program).resolve().parents[1] / "share/kvloupe"] if program else [])]
    return next((place for place in places if (place / "demo-model").is_dir()), places[0])


def run(*words: Any, name: str = "kvloupe", said: list[str] | None = None) -> str:
    """Runs the program `name`; its standard output. `said` gets the lines that it writes beside. Raises KvloupeError with the
    program's line if it fails."""
    if any(callable(word) or str(word).startswith("function(") for word in words):
        raise KvloupeError("a function is a policy of this Python program alone, for replay, follow, sweep, Cache, Press, run and evaluate; "
                           'elsewhere give python("file.py:name")')
    path = find(name)
    try:
        done = subprocess.run([path, *map(str, words)], capture_output=True, text=True, encoding="utf-8",
                              check=False)
    except OSError as error:
        raise KvloupeError(f"{path}: cannot be started ({error.strerror}); is it the program {name}?") from error
    if done.returncode != 0:
        raise KvloupeError(_why(done.stderr, done.returncode, name))
    if said is not None:
        said += done.stderr.splitlines()
    return done.stdout


def tasks(name: str | Sequence[str], model: Any, length: int, count: int = 50, **settings: Any) -> list[dict[str, Any]]:
    """The prompts of `kvloupe-capture tasks` (docs/tasks.md) as dictionaries that evaluate() takes. name: a task, several, or "all".
    model: a folder, a GGUF file, a kvloupe.Tokenizer, or what transformers loaded from a folder. length: tokens of a prompt with its
    answer, at most. settings: seed, filler, tokenizer, as the program has them. Raises KvloupeError."""
    place = getattr(model, "folder", None) or getattr(model, "name_or_path", None) or model
    with tempfile.TemporaryDirectory() as folder:
        said = run("tasks", joined(name), "--model", place, "--length", length, "--count", count, *_options(settings), "-o", folder,
                   name="kvloupe-capture")
        files = [Path(line.rsplit(": ", 1)[0]).read_text(encoding="utf-8") for line in said.splitlines()]
        return [json.loads(line) for lines in files for line in lines.splitlines()]


def _why(said: str, ended: int, name: str = "kvloupe") -> str:
    """The line in which a program says why it ended."""
    lines = said.strip().splitlines()
    return lines[-1].removeprefix(f"{name}: ") if lines else f"{name} ended with {ended}"


def joined(value: Any) -> str:
    """As on the command line: a list, a range or an array is joined by commas."""
    return ",".join(map(spec_of, listed(value)))


def _options(settings: dict[str, Any]) -> list[str]:
    """policy_b="h2o" becomes --policy-b h2o; `set`, a dictionary, one --set for each; `plugin`, a path or a list of
    them, one --plugin for each; another list is joined by commas."""
    words: list[str] = []
    for name, value in settings.items():
        option = "--" + name.replace("_", "-")
        if value is None or value is False:
            continue
        given = ([f"{choice}={of}" for choice, of in value.items()] if name == "set" else
                 map(str, listed(value)) if name == "plugin" else [joined(value)])
        words += [option] if value is True else [word for one in given for word in (option, one)]
    return words


def replay(path: str | os.PathLike[str], policy: str, budget: str | int, **settings: Any) -> dict[str, Any]:
    """The JSON of `kvloupe replay`: the sets kept in every layer and head, and the measures."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "replay.json"
        run("replay", path, "--policy", policy, "--budget", budget, "--json", file, *_options(settings))
        return json.loads(file.read_text(encoding="utf-8"))


def follow(path: str | os.PathLike[str], policy: str, budget: str | int, **settings: Any) -> dict[str, Any]:
    """The JSON of `kvloupe follow`; give `tokens` or `segment`."""
    return json.loads(run("follow", path, "--policy", policy, "--budget", budget, "--json", "-", *_options(settings)))


def sweep(path: str | os.PathLike[str], policies: str | Sequence[str], budgets: Any, *,
          output: str | os.PathLike[str] | None = None, **settings: Any) -> Any:
    """As kvloupe.sweep, by the program."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(output) if output is not None else Path(folder) / "sweep.csv"
        run("sweep", path, "--policies", joined(policies), "--budgets", joined(budgets), "-o", file, *_options(settings))
        columns = _columns(file)
    return swept(columns, path, policies, budgets, output is None, settings.get("measures"))


def swept(columns: dict[str, Any], path: Any, policies: Any, budgets: Any, fresh: bool, measures: Any) -> Any:
    """The table of a sweep; fresh: the rows are those of this call alone."""
    names = [] if measures is None else joined(measures).split(",")
    table = of_sweep(with_given(columns, *((policies, budgets) if fresh else ((), ()))), path, names, _measures())
    for name, why in table.attrs["reasons"].items() if hasattr(table, "attrs") else ():
        if name in names:
            warnings.warn(f"{path}: {name} is NaN: {why}", KvloupeWarning, stacklevel=3)
    return table


@functools.lru_cache(maxsize=1)
def _measures() -> list[dict[str, Any]]:
    """The catalogue of `kvloupe measures`; empty where the program is not there."""
    try:
        return list(json.loads(run("measures", "--json"))["measures"])
    except KvloupeError:
        return []


def with_given(columns: dict[str, Any], policies: Any, budgets: Any) -> dict[str, Any]:
    """Beside policy and budget as kvloupe writes them, in the order of the call, the words of the call, by which one looks for rows.
    Where the call has two words for one, or one text for several, the words of kvloupe."""
    for name, given in (("policy", policies), ("budget", budgets)):
        words, own = list(map(name_of, listed(given))) if name == "policy" else listed(given), list(dict.fromkeys(columns[name]))
        known = dict(zip(own, words)) if len(own) == len(words) and not any(map(_several, words)) else {}
        columns[f"{name}_given"] = [known.get(one, one) for one in columns[name]]
    return columns


def _several(word: Any) -> bool:
    """Whether a text has a comma outside of brackets: several policies or budgets."""
    depths = accumulate((letter == "(") - (letter == ")") for letter in str(word))
    return any(letter == "," and depth == 0 for letter, depth in zip(str(word), depths))


def listed(value: Any) -> list[Any]:
    """One value, or those of a list, a range or an array."""
    return [value] if isinstance(value, str) or callable(value) or not hasattr(value, "__iter__") else list(value)


def _columns(file: Path) -> dict[str, list[Any]]:
    """The columns of a CSV file: texts, whole numbers or floats, as all cells of a column allow."""
    with open(file, newline="", encoding="utf-8") as lines:
        names, *rows = csv.reader(lines)
    found: dict[str, list[Any]] = {}
    for at, name in enumerate(names):
        cells = [row[at] for row in rows]
        for kind in (int, lambda cell: float(cell or "nan")):
            try:
                found[name] = [kind(cell) for cell in cells]
                break
            except ValueError:
                found[name] = cells
    return found


def study(output: str | os.PathLike[str], traces: Any = None, *, policies: AnyPolicy | Sequence[AnyPolicy], budgets: Any,
          model: Any = None, tokenizer: Any = None, heads: bool = False, progress: Any = True, **settings: Any) -> Any:
    """A study (docs/studies.md): with `traces` (paths) it replays each policy at each budget on each trace, with `model` it runs the
    tasks of kvloupe.evaluate. Writes the results file `output`; the same call goes on where it was stopped, and one with more
    policies, budgets, blocks, traces or prompts computes what is missing.

    settings: the other fields of a study file (measures, blocks, compression, reduce, random_lines), or those of evaluate (tasks,
    prompts, blocks, …). Returns the table of kvloupe.results(output, heads). Raises KvloupeError for wrong settings, and where items
    failed."""
    if (traces is None) == (model is None):
        raise KvloupeError("give traces to replay, or a model and its tasks to run")
    if model is not None:
        from .evaluation import evaluate

        return evaluate(model, tokenizer, output, policies=policies, budgets=budgets, progress=progress, **settings)
    fields = {"traces": [os.path.abspath(path) for path in listed(traces)], "policies": listed(policies),
              "budgets": listed(budgets), **{name: value for name, value in settings.items() if value is not None}}
    if any(map(callable, fields["policies"])):
        raise KvloupeError('a study of replays is the work of a program, which takes no function; give python("file.py:name")')
    fields |= {name: listed(fields[name]) for name in ("measures", "blocks") if name in fields}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.json"
        file.write_text(json.dumps(fields, default=lambda value: getattr(value, "tolist", value.__str__)()), encoding="utf-8")
        _run_study([find(), "study", "run", str(file), "-o", os.path.abspath(output), "--progress", "json"], *reporter(progress))
    return results(output, heads)

def _run_study(words: list[str], report: Any, clear: Any) -> None:
    with tempfile.TemporaryFile() as said, subprocess.Popen(words, stdout=subprocess.PIPE, stderr=said, text=True) as running:
        try:
            for line in running.stdout or ():
                event = json.loads(line)
                if event["event"] == "items":
                    report("replays", event["done"], event["items"])
        except BaseException:  # Ctrl-C: the program ends with what is done
            running.send_signal(signal.SIGINT)
            running.wait()
            raise
        finally:
            clear()
        if running.wait() != 0:
            said.seek(0)
            raise KvloupeError(_why(said.read().decode("utf-8", "replace"), running.returncode).removeprefix(f"{words[3]}: "))


def _window(*words: str) -> "subprocess.Popen[bytes]":
    """The program, which goes on after its first half second. Raises KvloupeError with its line if it ends with an error before;
    without a screen it does, and is given the time for it. A later error is written to this program's errors."""
    screen = os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")
    said = tempfile.TemporaryFile()
    started = subprocess.Popen([find(), *words], start_new_session=True, stderr=said)

    def last_line() -> str:
        with said:
            failed = started.wait() != 0
            said.seek(0)
            return _why(said.read().decode("utf-8", "replace"), started.returncode) if failed else ""

    def tell() -> None:
        if line := last_line():
            print(f"kvloupe: {line}", file=sys.stderr)

    try:
        started.wait(0.5 if screen else 10.0)
    except subprocess.TimeoutExpired:
        threading.Thread(target=tell, daemon=True).start()
        return started
    if line := last_line():
        raise KvloupeError(f"the window did not open: {line}; kvloupe.figure(…) draws without a screen")
    return started


def view(*paths: Any, **settings: Any) -> "subprocess.Popen[bytes] | Figure":
    """Opens the window with these traces, and returns after half a second; the window stays when Python ends. Raises KvloupeError
    where it does not open, for example without a screen; there a notebook shows a figure instead."""
    try:
        return _window(*map(str, paths), *_options(settings))
    except KvloupeError as error:
        if "display" not in str(error) or not paths or not in_notebook():
            raise
        warnings.warn(str(error), KvloupeWarning, stacklevel=2)
        with open(paths[0], "rb") as file:
            return Figure(paths[0], "overview" if file.read(4) == b"\x89HDF" else "study-budget")


def demo(**settings: Any) -> "subprocess.Popen[bytes]":
    """Opens the window with a run of the demo model, which the first call captures; otherwise as view(). Settings are
    the options of `kvloupe demo`: screenshot="demo.png" writes a picture instead."""
    return _window("demo", *_options(settings))


def page(trace: str | os.PathLike[str], path: str | os.PathLike[str], policies: str | Sequence[str] | None = None,
         budgets: Any = None, **settings: Any) -> Path:
    """Writes a whole trace as one web page that needs no other file (docs/trace-page.md): `policies` and `budgets` are one or a list
    each; settings are the other options of `kvloupe page`: layers, heads, block, compression, results. Returns the path. Warns of
    what is left out. Raises KvloupeError."""
    said: list[str] = []
    run("page", trace, "-o", path, *_options({"policies": policies, "budgets": budgets, **settings}), said=said)
    for line in said:
        if line.startswith("kvloupe: "):
            warnings.warn(f"{trace}: {line.removeprefix('kvloupe: ')}", KvloupeWarning, stacklevel=2)
    return Path(path)


@functools.lru_cache(maxsize=4)
def _known(program: str) -> tuple[list[str], list[str]]:
    """The figures of this program, and their options."""
    options, _, figures = run("export", "--help").partition("\nFigures:\n")
    return re.findall(r"^  ([a-z][\w-]*)  ", figures, re.MULTILINE), re.findall(r"--([a-z][a-z-]*)", options)


def _refuse_unknown(what: str, name: str, known: list[str]) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, 3, 0.5)
        raise KvloupeError(f"the {what} {name!r} is not known; " + (
            f"did you mean {' or '.join(near)}?" if near else "`kvloupe export --help` lists all"))


class Figure:
    """A figure of one or more traces or results, drawn by the program."""

    def __init__(self, paths: Any, name: str, **settings: Any) -> None:
        self.paths = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
        self.name, self.settings = name, settings
        figures, options = _known(find())
        _refuse_unknown("figure", name, figures)
        for setting in settings:
            _refuse_unknown("setting", setting, [one.replace("-", "_") for one in options])

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Writes .svg, .pdf, .png, .csv or .html, by its ending."""
        run("export", *self.paths, "--figure", self.name, *_options(self.settings), "-o", path)
        return Path(path)

    def __repr__(self) -> str:
        return f"<kvloupe.Figure {self.name}>"

    def _repr_svg_(self) -> str:
        with tempfile.TemporaryDirectory() as folder:
            return self.save(Path(folder) / "figure.svg").read_text(encoding="utf-8")


def figure(paths: Any, name: str, **settings: Any) -> Figure:
    """A figure that a notebook shows; settings are the options of `kvloupe export`: policy="keydiff", budget="25%"."""
    return Figure(paths, name, **settings)
