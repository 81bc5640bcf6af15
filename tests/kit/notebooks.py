"""Run example notebooks from top to bottom in a separate kernel, and compare the outputs.

Outputs are compared with the committed ones. If the variable ``MDSTORM_RECORD_NOTEBOOKS`` is set,
outputs that differ are written to the notebook.
"""

import base64
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import zip_longest
from pathlib import Path

import nbformat
import numpy as np
from nbclient import NotebookClient
from PIL import Image

EXAMPLES = Path(__file__).parents[2] / "examples"
NOTEBOOKS = EXAMPLES / "notebooks"

#: Notebooks that need a training framework. Those in `before` import mdstorm as Petastorm.
RUN_WITH_TRAINERS = (
    *("01_pytorch", "before/01_pytorch", "02_tensorflow", "before/02_tensorflow", "03_tuning"),
    *("04_lightning", "10_hugging_face", "11_ray", "12_composer", "13_dbfs", "before/13_dbfs"),
)

#: The only line that is changed before a run: it sets the directory.
DIRECTORY = re.compile(r'^([A-Z]+) = "file:///tmp/examples-cache"$', re.MULTILINE)

#: Disables `%pip`: the libraries that notebooks install are already installed.
_NO_PIP = 'get_ipython().register_magic_function(lambda line: None, magic_name="pip")\n'
#: Records what the notebook itself prints; the output of libraries differs between runs.
_PRINT = """
def print(*values, **options):
    import builtins, io
    text = io.StringIO()
    builtins.print(*values, **{{**options, "file": text}})
    with open({path!r}, "a") as file:
        file.write(text.getvalue())
    builtins.print(*values, **options)
"""
#: The lines from README.md with which unchanged Petastorm notebooks use mdstorm.
AS_PETASTORM = "import mdstorm\nmdstorm.install_as_petastorm()\n"

_SPARK = "--master local[2] --conf spark.ui.enabled=false --conf spark.sql.shuffle.partitions=2"
_SECONDS_PER_CELL = int(os.environ.get("MDSTORM_TEST_SECONDS", "300"))

#: Allowed difference between numbers with a decimal point, because machines round differently.
_TOLERANCE = 0.1
#: Side of a square in pixels, and the allowed difference between the mean colours (0 to 255) of two
#: squares: larger than the effect of rounding, but smaller than that of a different digit.
_SQUARE, _COLOUR_TOLERANCE = 4, 25
#: Rates and the duration at the end of a progress line, in an output's JSON.
_SPEED = re.compile(r'(?:, [\d,.]+ (?:rows|\w*B)/s)*, [\d,.]+ s(?="|</div>)')
_PORT = re.compile(r"(127\.0\.0\.1):\d+")
_NUMBER = re.compile(r"\d+(?:\.\d+)?(?:e[-+]\d+)?")


def check_notebook(
    name: str, folder: Path, *, first: str = "", environment: Mapping[str, str] | None = None
) -> None:
    """Run a notebook, and compare the outputs of its cells with the committed ones.

    Words and whole numbers must be equal, fractions close, and pictures equal except for rounding.

    Parameters
    ----------
    name : str
        The notebook's path under `NOTEBOOKS`, without a suffix.
    folder : Path
        Where the notebook writes its files.
    first : str
        Code to run before the notebook.
    environment : mapping, optional
        Environment variables for this notebook only.
    """
    path = NOTEBOOKS / f"{name}.ipynb"
    notebook = nbformat.read(path, as_version=4)
    recorded = NOTEBOOKS / path.name  # a notebook in `before` must match the migrated one
    committed = nbformat.read(recorded, as_version=4)
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
    printed = {*noted.read_text("utf-8").splitlines(keepends=True)}
    differences = []
    for old, new in zip(committed.cells, notebook.cells, strict=True):
        outputs = [_cleaned(o, folder) for o in new.get("outputs", []) if _is_shown(o, printed)]
        if found := difference(old.get("outputs", []), outputs):
            differences.append(f"{found}\n\nin the cell\n\n{new.source}")
            old.outputs = outputs
    if "MDSTORM_RECORD_NOTEBOOKS" not in os.environ or path != recorded:
        assert not differences, "\n\n".join(differences)
    elif differences:
        path.write_text(nbformat.writes(committed) + "\n", "utf-8")


def _is_shown(output: nbformat.NotebookNode, printed: set[str]) -> bool:
    """Remove from an output the lines that libraries print; return whether anything is left."""
    if output.output_type == "stream":
        lines = output.text.splitlines(keepends=True) if output.name == "stdout" else []
        output.text = "".join(line for line in lines if line in printed)
        return bool(output.text)
    return True


def _cleaned(output: nbformat.NotebookNode, folder: Path) -> nbformat.NotebookNode:
    """Return an output without the run's directory, server ports and speed."""
    text = json.dumps(output).replace(f"{folder}/data", "/tmp/examples-cache")
    text = _SPEED.sub("", _PORT.sub(r"\1:8080", text))
    cleaned = json.loads(text.replace(str(folder), "/tmp"))
    cleaned.pop("execution_count", None)
    if output.output_type == "execute_result":
        cleaned["execution_count"] = None
    return nbformat.from_dict(cleaned)


def pictures_of(outputs: Sequence[nbformat.NotebookNode]) -> list[bytes]:
    """Return the PNG files in a cell's outputs."""
    found = (output.get("data", {}).get("image/png") for output in outputs)
    return [base64.b64decode(picture) for picture in found if picture]


def difference(
    committed: Sequence[nbformat.NotebookNode], found: Sequence[nbformat.NotebookNode]
) -> str:
    """Describe the first difference between a cell's outputs, or return an empty string."""
    for old_line, line in zip_longest(_lines_of(committed), _lines_of(found)):
        if not _agree(old_line, line):
            return f"{line!r} instead of {old_line!r}"
    for number, pair in enumerate(zip_longest(pictures_of(committed), pictures_of(found)), 1):
        if None in pair or not _look_the_same(*pair):
            return f"picture {number} differs"
    return ""


def _lines_of(outputs: Sequence[nbformat.NotebookNode]) -> list[str]:
    """Return the lines that a cell prints or displays."""
    texts = (
        output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs
    )
    return [line for text in texts for line in text.splitlines()]


def _agree(old: str | None, new: str | None) -> bool:
    """Whether lines are equal except for fractions, which must be close."""
    if old is None or new is None or _NUMBER.sub("#", old) != _NUMBER.sub("#", new):
        return False
    return all(
        one == other or ("." in one and abs(float(one) - float(other)) <= _TOLERANCE)
        for one, other in zip(_NUMBER.findall(old), _NUMBER.findall(new), strict=True)
    )


def _look_the_same(one: bytes, other: bytes) -> bool:
    """Whether pictures differ by no more than rounding on different machines."""
    images = [Image.open(BytesIO(picture)).convert("RGB") for picture in (one, other)]
    if images[0].size != images[1].size:
        return False
    squares = [np.asarray(image.reduce(_SQUARE), np.float64) for image in images]
    return bool(np.abs(squares[0] - squares[1]).max() <= _COLOUR_TOLERANCE)
