"""The commands kvloupe and kvloupe-capture of a virtual environment: each becomes the program inside the package. Not a
part of the package, because importing that reads numpy and h5py first."""
import importlib.util
import os
import sys


def _become(name: str) -> None:
    package = importlib.util.find_spec("kvloupe")
    folders = list(package.submodule_search_locations or []) if package else []
    program = os.path.join(folders[0] if folders else "kvloupe", "bin", name)
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"{name}: {program} cannot be started ({error.strerror}); install the wheel again: "
                 "pip install --force-reinstall --no-deps kvloupe")


def kvloupe() -> None:
    _become("kvloupe")


def kvloupe_capture() -> None:
    _become("kvloupe-capture")
