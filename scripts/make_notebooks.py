"""Write the example notebooks in their other formats.

The sources are the files in ``examples/databricks``, in the form in which Databricks exports
notebooks. The Jupyter notebooks in ``examples/notebooks`` are generated from them. A cell that has
not changed keeps its outputs; `make notebooks` runs all notebooks.

Notebooks that show a migration are written for Petastorm, in ``before``. The result of
`mdstorm migrate --write`, in either form, is the file with the same name in the parent folder,
apart from the end of the title.

Notebook pictures that are shown on pages are copied to ``docs/images``.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from mdstorm_migrate import migrate

EXAMPLES = Path(__file__).parents[1] / "examples"
SOURCES = EXAMPLES / "databricks"
BEFORE = SOURCES / "before"
NOTEBOOKS = EXAMPLES / "notebooks"
#: The end of the titles in `BEFORE`, which the migrated notebooks do not have.
FOR_PETASTORM = " (for Petastorm)"
IMAGES = EXAMPLES.parent / "docs" / "images"
#: For each picture on a page, the notebook whose first picture is copied to the page.
SHOWN = {
    "digits.png": "01_pytorch",
    "mislabelled.png": "14_mislabelled_images",
    "shuffled.png": "12_composer",
}

_HEADER = "# Databricks notebook source\n"
_COMMAND = re.compile(r"^# COMMAND -+\n", re.MULTILINE)
_MAGIC = re.compile(r"^# MAGIC ?", re.MULTILINE)


def made_files() -> Mapping[Path, str]:
    """Return the text of each file that is generated from other files."""
    made = {}
    for path in sorted(BEFORE.glob("*.py")):
        source = path.read_text("utf-8")
        notebook = path.with_suffix(".ipynb").name
        after = source.replace(FOR_PETASTORM, "", 1)
        made[SOURCES / path.name] = migrated(after, path.name)
        made[NOTEBOOKS / "before" / notebook] = as_jupyter(source)
        made[NOTEBOOKS / notebook] = with_outputs(
            migrated(as_jupyter(after), notebook), NOTEBOOKS / notebook
        )
    for path in sorted({*SOURCES.glob("*.py")} - made.keys()):
        notebook = NOTEBOOKS / path.with_suffix(".ipynb").name
        made[notebook] = with_outputs(as_jupyter(path.read_text("utf-8")), notebook)
    return made


def made_pictures() -> Mapping[Path, bytes]:
    """Return the bytes of each copied picture, except from notebooks that have not been run."""
    found = {name: next(pictures_of(notebook), None) for name, notebook in SHOWN.items()}
    return {IMAGES / name: picture for name, picture in found.items() if picture}


def pictures_of(notebook: str) -> Iterator[bytes]:
    """Yield the PNG files in a notebook's outputs."""
    for cell in json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"))["cells"]:
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                yield base64.b64decode("".join(output["data"]["image/png"]))


def with_outputs(text: str, path: Path | None) -> str:
    """Return a notebook in which the cells have the outputs stored in the file `path`, if any."""
    notebook = json.loads(text)
    committed = json.loads(path.read_text("utf-8"))["cells"] if path and path.exists() else []
    outputs = {"".join(cell["source"]): cell.get("outputs", []) for cell in committed}
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            cell["outputs"] = outputs.get("".join(cell["source"]), [])
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def migrated(text: str, name: str) -> str:
    """Return the result of `mdstorm migrate --write` on a file."""
    result = migrate(text, path=name)
    left = [*result.errors, *(found for found in result.findings if found.cls != "note")]
    if left:
        raise SystemExit(f"{name}: left to do by hand: {left}")
    return result.output


def as_jupyter(source: str) -> str:
    """Convert a notebook from Databricks' form to Jupyter's JSON."""
    if not source.startswith(_HEADER):
        raise SystemExit(f"begins with {source[:40]!r} instead of {_HEADER!r}")
    cells = [
        {
            "cell_type": kind,
            "id": f"cell-{number}",
            "metadata": {},
            **({"execution_count": None, "outputs": []} if kind == "code" else {}),
            "source": text.splitlines(keepends=True),
        }
        for number, (kind, text) in enumerate(cells_of(source), 1)
    ]
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    notebook = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True) + "\n"


def cells_of(source: str) -> Iterator[tuple[str, str]]:
    """Yield the kind of each cell, ``markdown`` or ``code``, and its text."""
    for cell in _COMMAND.split(source.removeprefix(_HEADER)):
        text = cell.strip("\n")
        if text.startswith("# MAGIC"):
            text = _MAGIC.sub("", text)
        body = text.removeprefix("%md")
        yield ("code", text) if body == text else ("markdown", body.strip("\n "))


if __name__ == "__main__":
    for made_path, text in made_files().items():
        made_path.write_text(text, "utf-8", newline="\n")
    for made_path, picture in made_pictures().items():
        made_path.write_bytes(picture)
