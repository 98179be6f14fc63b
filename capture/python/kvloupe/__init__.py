"""Traces of Hugging Face models for kvloupe, and kvloupe's figures in a notebook.

    import kvloupe
    kvloupe.capture(model, tokenizer, "a prompt", "trace.h5")
    kvloupe.figure("trace.h5", "filmstrip", policy="keydiff", budget="25%")
    model.generate(**inputs, cache=kvloupe.Cache("keydiff", 512, model=model))
"""
from .capture import capture
from .errors import KvloupeError, KvloupeWarning
from .external import external
from .from_kvpress import from_kvpress
from .layout import Layer, Model
from .policy import Kept, Merge, Policy
from .program import Figure, demo, figure, view
from .prompt_file import read_prompt
from .reader import Trace, open_trace
from .reader import open_trace as open  # noqa: A001 - kvloupe.open(path), as h5py has it
from .replays import Replay, follow, replay, sweep
from .tokenizer import Tokenizer
from .writer import TraceWriter

__all__ = ["Figure", "Kept", "KvloupeError", "KvloupeWarning", "Layer", "Merge", "Model", "Policy", "Replay",
           "Tokenizer", "Trace", "TraceWriter", "capture", "demo", "external", "figure", "follow", "from_kvpress", "open",
           "open_trace", "read_prompt", "replay", "sweep", "view"]


def __getattr__(name: str) -> object:  # these need torch and transformers, which take seconds to import
    if name not in ("Cache", "Press", "evaluate", "run"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        if name == "Press":
            from .press import Press
            return Press
        if name == "Cache":
            from .cache import Cache
            return Cache
        if name == "evaluate":
            from .evaluation import evaluate
            return evaluate
        from .closed_run import run
        return run
    except ImportError as error:
        if name == "Press":
            raise KvloupeError(f"kvloupe.Press needs the package kvpress ({error}); pip install kvpress==0.5.5") from error
        raise KvloupeError(f"kvloupe.{name} needs torch and transformers from 5 on ({error}); install them") from error
