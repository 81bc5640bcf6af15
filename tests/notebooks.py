"""Example notebooks, run from top to bottom in a kernel of their own."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import nbformat
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"

#: The only line of a notebook that is edited: it names a directory.
DIRECTORY = re.compile(r'^([A-Z]+) = "file:///tmp/examples-cache"$', re.MULTILINE)

#: What the notebooks install is there.
_NO_PIP = 'get_ipython().register_magic_function(lambda line: None, magic_name="pip")\n'
#: What README.md puts at the top of a notebook that is to stay as it is.
AS_PETASTORM = "import mdstorm\nmdstorm.install_as_petastorm()\n"

_SPARK = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
_SECONDS_PER_CELL = 300


def run_notebook(
    name: str, folder: Path, *, first: str = "", environment: Mapping[str, str] | None = None
) -> list[str]:
    """Return the lines that a notebook prints.

    Parameters
    ----------
    name : str
        Its path below `NOTEBOOKS`, without a suffix.
    folder : Path
        Where it keeps all that it writes.
    first : str
        Code to run before it.
    environment : mapping, optional
        Variables for it alone.
    """
    notebook = nbformat.read(NOTEBOOKS / f"{name}.ipynb", as_version=4)
    for cell in notebook.cells:
        cell.source = DIRECTORY.sub(rf'\1 = "{(folder / "data").as_uri()}"', cell.source)
    notebook.cells.insert(0, nbformat.v4.new_code_cell(_NO_PIP + first))
    settings = {
        "MDSTORM_CACHE_DIR": str(folder / "cache"),
        "IPYTHONDIR": str(folder / "ipython"),
        "PYSPARK_SUBMIT_ARGS": f"{_SPARK} pyspark-shell",
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "TMPDIR": str(folder),
        **(environment or {}),
    }
    shutil.copytree(EXAMPLES / "legacy", folder / "legacy")
    (folder / "notebooks").mkdir()
    place = {"metadata": {"path": str(folder / "notebooks")}}
    client = NotebookClient(notebook, timeout=_SECONDS_PER_CELL, resources=place)
    client.execute(env={**os.environ, **settings})
    return list(_printed(notebook))


def _printed(notebook: nbformat.NotebookNode) -> Iterator[str]:
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            if output.get("name") == "stdout":
                yield from output.text.splitlines()
