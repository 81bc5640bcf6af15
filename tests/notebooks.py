"""Example notebooks, run from top to bottom in a kernel of their own, and what they print.

A run is compared with the outputs that are committed, or, with the variable
``MDSTORM_RECORD_NOTEBOOKS``, written into the notebook in their place.
"""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLES = Path(__file__).parents[1] / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"

#: The only line of a notebook that is edited: it names a directory.
DIRECTORY = re.compile(r'^([A-Z]+) = "file:///tmp/examples-cache"$', re.MULTILINE)

#: What the notebooks install is there.
_NO_PIP = 'get_ipython().register_magic_function(lambda line: None, magic_name="pip")\n'
#: Notes what a notebook itself prints; libraries print what differs from run to run.
_PRINT = """
def print(*values, **options):
    import builtins, io
    text = io.StringIO()
    builtins.print(*values, **{{**options, "file": text}})
    with open({path!r}, "a") as file:
        file.write(text.getvalue())
    builtins.print(*values, **options)
"""
#: What README.md puts at the top of a notebook that is to stay as it is.
AS_PETASTORM = "import mdstorm\nmdstorm.install_as_petastorm()\n"

_SPARK = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
_SECONDS_PER_CELL = 300

#: What numbers with a decimal point may differ by: runs on other machines round otherwise.
_TOLERANCE = 0.1
_PORT = re.compile(r"(127\.0\.0\.1):\d+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")


def check_notebook(
    name: str, folder: Path, *, first: str = "", environment: Mapping[str, str] | None = None
) -> None:
    """Run a notebook, and compare what it prints with what is committed.

    Words and whole numbers must be the same, fractions close.

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
    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    recorded = NOTEBOOKS / path.name  # those in `before` print what they print after a migration
    committed = _printed(nbformat.read(recorded, as_version=4))
    sources = [cell.source for cell in notebook.cells]
    for cell in notebook.cells:
        cell.source = DIRECTORY.sub(rf'\1 = "{(folder / "data").as_uri()}"', cell.source)
    noted = folder / "printed.txt"
    before = _NO_PIP + first + _PRINT.format(path=str(noted))
    notebook.cells.insert(0, nbformat.v4.new_code_cell(before))
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
    del notebook.cells[0]
    notebook.metadata.language_info = {"name": "python"}  # and not the version
    printed = {*noted.read_text("utf-8").splitlines(keepends=True)}
    for cell, source in zip(notebook.cells, sources, strict=True):
        cell.source = source
        if cell.cell_type == "code":
            cell.outputs = [_cleaned(o, folder) for o in cell.outputs if _is_shown(o, printed)]
            cell.execution_count = None
            cell.metadata.pop("execution", None)
    if "MDSTORM_RECORD_NOTEBOOKS" in os.environ and path == recorded:
        path.write_text(nbformat.writes(notebook) + "\n", "utf-8")
    else:
        _compare(committed, _printed(notebook))


def _is_shown(output: nbformat.NotebookNode, printed: set[str]) -> bool:
    """Whether an output is part of the notebook, after leaving out lines that others print."""
    if output.output_type == "stream":
        lines = output.text.splitlines(keepends=True) if output.name == "stdout" else []
        output.text = "".join(line for line in lines if line in printed)
        return bool(output.text)
    return True


def _cleaned(output: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Return an output without the directory of the run, and the ports of its servers."""
    text = json.dumps(output).replace(f"{folder}/data", "/tmp/examples-cache")
    text = _PORT.sub(r"\1:8080", text)
    cleaned = json.loads(text.replace(str(folder), "/tmp"))
    cleaned.pop("execution_count", None)
    if output.output_type == "execute_result":
        cleaned["execution_count"] = None
    return nbformat.from_dict(cleaned)


def _printed(notebook: nbformat.NotebookNode) -> list[str]:
    """Return the lines on standard output."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [
        line
        for output in outputs
        if output.get("name") == "stdout"
        for line in output.text.splitlines()
    ]


def _compare(committed: list[str], found: list[str]) -> None:
    """Fail unless two runs printed the same but for fractions."""
    words = [[_NUMBER.sub("#", line) for line in lines] for lines in (committed, found)]
    assert words[1] == words[0], "\n".join(found)
    for old, new in zip(committed, found, strict=True):
        for one, other in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True):
            if one != other:
                assert "." in one, f"{new!r} instead of {old!r}"
                assert float(other) == pytest.approx(float(one), abs=_TOLERANCE), new
