"""What tests need beside the package's own dependencies."""
from __future__ import annotations

import pytest
import transformers

from kvloupe import KvloupeError, engine, program


def there(name: str) -> bool:
    if name == "engine":
        return engine.library() is not None
    if name.startswith("kvloupe"):
        try:
            return bool(program.find(name))
        except KvloupeError:
            return False
    return hasattr(transformers, name) or hasattr(transformers.cache_utils, name)


def need(*names: str) -> None:
    """Leaves out the file or test that calls it where one is missing: a program, the engine, a class of transformers."""
    for name in names:
        if not there(name):
            pytest.skip(f"{name} is not there", allow_module_level=True)
