"""The notebooks in docs run, and what they show is what the files hold."""
from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

nbformat = pytest.importorskip("nbformat")
nbclient = pytest.importorskip("nbclient")
pytest.importorskip("pandas")

import kvloupe  # noqa: E402
from needs import need  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = ["notebook.ipynb", "closed-loop.ipynb"]


def run(notebook: nbformat.NotebookNode, folder: Path, packages: Path = Path(kvloupe.__file__).parents[1]) -> None:
    """Executes it in `folder`; its outputs are those of the run."""
    os.environ["TQDM_DISABLE"] = "1"
    os.environ["PYTHONPATH"] = os.pathsep.join([str(packages), os.environ.get("PYTHONPATH", "")])
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3",
                            resources={"metadata": {"path": str(folder)}}).execute()
    for cell in notebook.cells:  # what differs from run to run
        cell.get("metadata", {}).pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [one for one in cell.outputs if one.get("name") != "stderr"]


def shown(notebook: nbformat.NotebookNode) -> list[str]:
    """Everything that each cell prints or shows as text."""
    return ["".join(one.get("text", "") or str(one.get("data", {}).get("text/plain", "")) for one in cell.outputs)
            for cell in notebook.cells if cell.cell_type == "code"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_and_shows_what_it_holds(name: str, tmp_path: Path) -> None:
    need("kvloupe", "kvloupe-capture", "engine")
    file = ROOT / "docs" / name
    stored = nbformat.read(file, as_version=4)
    assert file.stat().st_size < 150_000
    fresh = nbformat.read(file, as_version=4)
    run(fresh, tmp_path)
    figures = [one for cell in fresh.cells if cell.cell_type == "code" for one in cell.outputs
               if "image/svg+xml" in one.get("data", {})]
    assert len(figures) == 1
    if os.environ.get("KVLOUPE_WRITE_NOTEBOOK"):  # after a change of the cells
        nbformat.write(fresh, file)
        stored = fresh
    assert shown(fresh) == shown(stored)


def test_they_run_from_the_wheel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where scripts/wheel.sh has made one of these files."""
    wheel = next(ROOT.glob("build/kvloupe-*.whl"), None)
    if wheel is None or any(file.stat().st_mtime > wheel.stat().st_mtime for file in Path(kvloupe.__file__).parent.glob("*.py")):
        pytest.skip("there is no wheel of this state")
    with zipfile.ZipFile(wheel) as packed:
        packed.extractall(tmp_path / "installed")
    inside = tmp_path / "installed/kvloupe"
    for program_of in (inside / "bin").iterdir():
        program_of.chmod(0o755)
    for name in ("KVLOUPE", "KVLOUPE_CAPTURE", "KVLOUPE_ENGINE"):
        monkeypatch.delenv(name, raising=False)
    for name in NOTEBOOKS:
        stored = nbformat.read(inside / "share/kvloupe/notebooks" / name, as_version=4)
        fresh = nbformat.from_dict(stored)
        fresh.cells.append(nbformat.v4.new_code_cell("import kvloupe; print(kvloupe.__file__, kvloupe.share)"))
        run(fresh, tmp_path, tmp_path / "installed")
        *said, where = shown(fresh)
        assert said == shown(stored) and where.split() == [str(inside / "__init__.py"), str(inside / "share/kvloupe")]
