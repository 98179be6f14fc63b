"""Studies from Python: replays on many traces by the program, runs in a model in this process; one results file."""
from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Sequence

from . import program
from .errors import KvloupeError
from .functions import AnyPolicy
from .progress import reporter
from .tables import results


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
    fields = {"traces": [os.path.abspath(path) for path in program.listed(traces)], "policies": program.listed(policies),
              "budgets": program.listed(budgets), **{name: value for name, value in settings.items() if value is not None}}
    if any(map(callable, fields["policies"])):
        raise KvloupeError('a study of replays is the work of a program, which takes no function; give python("file.py:name")')
    fields |= {name: program.listed(fields[name]) for name in ("measures", "blocks") if name in fields}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "study.json"
        file.write_text(json.dumps(fields, default=lambda value: getattr(value, "tolist", value.__str__)()), encoding="utf-8")
        _run([program.find(), "study", "run", str(file), "-o", os.path.abspath(output), "--progress", "json"], *reporter(progress))
    return results(output, heads)


def _run(words: list[str], report: Any, clear: Any) -> None:
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
            lines = said.read().decode("utf-8", "replace").strip().splitlines()
            line = lines[-1] if lines else f"ended with {running.returncode}"
            raise KvloupeError(line.removeprefix("kvloupe: ").removeprefix(f"{words[3]}: "))
