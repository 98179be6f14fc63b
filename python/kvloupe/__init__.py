"""Traces of Hugging Face models for kvloupe, and kvloupe's figures in a notebook.

    import kvloupe
    kvloupe.capture(model, tokenizer, "a prompt", "trace.h5")
    kvloupe.figure("trace.h5", "filmstrip", policy="keydiff", budget="25%")
    model.generate(**inputs, cache=kvloupe.Cache("keydiff", 512, model=model))
"""
from typing import TYPE_CHECKING, Any

from .errors import KvloupeError, KvloupeWarning
from .external import external, from_kvpress
from .functions import Step, spec_of
from .layout import Layer, Model
from .policy import Kept, Merge, Policy
from .program import Figure, demo, figure, page, share_folder as _share_folder, study, tasks, view
from .prompt import read_prompt
from .reader import Trace, open_trace
from .reader import open_trace as open  # noqa: A001 - kvloupe.open(path), as h5py has it
from .replays import Replay, follow, replay, sweep
from .tables import results
from .tokenizer import Tokenizer
from .version import VERSION as __version__
from .writer import TraceWriter

if TYPE_CHECKING:
    from pathlib import Path

    from .beside import Budget, budget_for, compare
    from .cache import Cache
    from .closed_run import run
    from .evaluation import evaluate
    from .full_run import capture
    from .press import Press
    share: Path  # the folder with demo-model, prompts and lessons

_MODULES = {"Budget": "beside", "Cache": "cache", "Press": "press", "budget_for": "beside", "capture": "full_run",
            "compare": "beside", "evaluate": "evaluation", "run": "closed_run"}

__all__ = ["Budget", "Cache", "Figure", "Kept", "KvloupeError", "KvloupeWarning", "Layer", "Merge", "Model", "Policy", "Press", "Replay", "Step",
           "Tokenizer", "Trace", "TraceWriter", "budget_for", "capture", "compare", "demo", "evaluate", "external", "figure", "follow", "from_kvpress", "open",
           "open_trace", "page", "read_prompt", "replay", "results", "run", "share", "spec_of", "study", "sweep", "tasks", "view"]


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__file__", "__name__", "__path__", "__version__"]


def __getattr__(name: str) -> Any:  # these need torch and transformers, which take seconds to import
    import importlib

    if name == "share":
        return _share_folder()
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
    except ImportError as error:
        needs = ("the package kvpress" if name == "Press" else "torch and transformers" if name == "capture" else
                 "torch and transformers from 5 on")
        install = "pip install kvpress==0.5.5" if name == "Press" else "install them"
        return _missing(name, f"kvloupe.{name} needs {needs} ({error}); {install}")


def _missing(name: str, why: str) -> type:
    """Stands for what cannot be imported, so that help(), tab completion and `import *` go on; a call raises KvloupeError."""
    def refuse(cls: type, *arguments: Any, **named: Any) -> Any:
        raise KvloupeError(why)
    return type(name, (), {"__new__": refuse, "__doc__": why, "__module__": __name__})
