"""Jupyter notebooks."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any

from mdstorm_migrate.base.document import DecodedFile, Document, SourceError
from mdstorm_migrate.sources.cells import Cell, CellDocuments, documents_of
from mdstorm_migrate.sources.decoding import decode
from mdstorm_migrate.sources.json_strings import JsonPath, JsonStrings, strings_of

#: The names of Python kernels; sparkmagic's is called ``pyspark``.
_PYTHON = re.compile("i?python|pyspark|torchspark|tensorflowonspark")


class NotebookSource:
    """A Jupyter notebook of nbformat 3 or 4."""

    def claims(self, path: PurePath, head: bytes) -> bool:
        """Whether the file is a Jupyter notebook."""
        return path.suffix == ".ipynb"

    def read(self, data: bytes, path: PurePath | None) -> DecodedFile:
        """Return the cells."""
        text, mark = decode(data)
        notebook = _loaded(text)
        code, markdown = _cells_in(notebook, text)
        found = _documents(notebook, code, path) if code else CellDocuments([])
        prose = [Document("markdown", [cell.segment(0, len(cell.text))], path) for cell in markdown]
        documents = [*found.documents, *prose]
        return DecodedFile(text, documents, "utf-8", mark, found.broken, found.unparsed)


def code_cells(text: str) -> list[Cell]:
    """Return the code cells of a notebook, given the text of its file.

    Raises
    ------
    SourceError
        If the text is not a notebook.
    """
    return _cells_in(_loaded(text), text)[0]


def _loaded(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise SourceError(f"broken JSON: {error.msg}", error.lineno) from None
    except RecursionError:
        raise SourceError("broken JSON: nested too deeply") from None


def _documents(notebook: Any, cells: list[Cell], path: PurePath | None) -> CellDocuments:
    if _PYTHON.match(_language(notebook)):
        return documents_of(cells, path)
    return CellDocuments(
        [Document("other", [cell.segment(0, len(cell.text))], path) for cell in cells]
    )


def _language(notebook: Any) -> str:
    """Return the kernel's language in lower case, or ``python`` if the notebook specifies none."""
    try:
        metadata = notebook.get("metadata", {})
        info = metadata.get("language_info", {}).get("name")
        return str(info or metadata.get("kernelspec", {}).get("language") or "python").lower()
    except AttributeError:
        raise SourceError("not a notebook: its metadata is not an object") from None


def _cells_in(notebook: Any, text: str) -> tuple[list[Cell], list[Cell]]:
    """Return the code and Markdown cells, numbered among all cells as shown in notebooks."""
    spans: dict[JsonPath, list[tuple[int, int]]] = {}
    for at, start, stop in strings_of(text):
        for key in ("source", "input"):
            if key in at:
                spans.setdefault(at[: at.index(key) + 1], []).append((start, stop))
    code: list[Cell] = []
    markdown: list[Cell] = []
    lists = {"code": code, "markdown": markdown}
    for number, (path, cell) in enumerate(_cells(notebook), 1):
        key = "source" if "source" in cell else "input"
        found = spans.get((*path, key))
        cells = lists.get(str(cell.get("cell_type")))
        if cells is not None and found is not None:
            strings = JsonStrings(text, found, isinstance(cell[key], list))
            cells.append(Cell(number, strings.text, strings))
    return code, markdown


def _cells(notebook: Any) -> Iterator[tuple[JsonPath, dict[str, Any]]]:
    """Yield all cells with their paths."""
    try:
        sheets: list[tuple[JsonPath, Any]] = [((), notebook)]
        if "worksheets" in notebook:  # nbformat 3
            sheets = [
                (("worksheets", number), sheet)
                for number, sheet in enumerate(notebook["worksheets"])
            ]
        for path, sheet in sheets:
            for number, cell in enumerate(sheet.get("cells", ())):
                cell.get("cell_type")
                yield (*path, "cells", number), cell
    except (AttributeError, TypeError):
        raise SourceError("not a notebook: it has no list of cells") from None


SOURCES = (NotebookSource(),)
