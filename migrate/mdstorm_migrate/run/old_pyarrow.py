"""Uses of names that pyarrow has removed since the versions that Petastorm needed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from mdstorm_migrate.base.document import DecodedFile
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.environment import Condition
from mdstorm_migrate.python.module import PythonModule, dotted

_PICKLE = "use `pickle`, or `pyarrow.ipc` for Arrow data"
_FS = "use `pyarrow.fs`"
_DATASET = "use `pyarrow.dataset`"
#: Names and keywords that current pyarrow does not have, and what to do instead.
_REMOVED = {
    "pyarrow.filesystem": _FS,
    "pyarrow.hdfs": "use `pyarrow.fs.HadoopFileSystem`",
    "pyarrow.localfs": "use `pyarrow.fs.LocalFileSystem`",
    "pyarrow.FileSystem": _FS,
    "pyarrow.LocalFileSystem": "use `pyarrow.fs.LocalFileSystem`",
    "pyarrow.HadoopFileSystem": "use `pyarrow.fs.HadoopFileSystem`",
    "pyarrow.serialize": _PICKLE,
    "pyarrow.deserialize": _PICKLE,
    "pyarrow.serialize_to": _PICKLE,
    "pyarrow.deserialize_from": _PICKLE,
    "pyarrow.read_serialized": _PICKLE,
    "pyarrow.SerializationContext": _PICKLE,
    "pyarrow.default_serialization_context": _PICKLE,
    "pyarrow.plasma": "use `multiprocessing.shared_memory`",
    "pyarrow.open_stream": "use `pyarrow.ipc.open_stream`",
    "pyarrow.open_file": "use `pyarrow.ipc.open_file`",
    "pyarrow.get_tensor_size": "use `pyarrow.ipc.get_tensor_size`",
    "pyarrow.read_tensor": "use `pyarrow.ipc.read_tensor`",
    "pyarrow.Column": "use `pyarrow.ChunkedArray`",
    "pyarrow.compat": "use the standard library",
    "pyarrow.frombuffer": "use `pyarrow.py_buffer`",
    "pyarrow.parquet.ParquetDatasetPiece": _DATASET,
    "pyarrow.parquet.ParquetManifest": _DATASET,
    "pyarrow.parquet.ParquetPartitions": _DATASET,
    "pyarrow.parquet.PartitionSet": _DATASET,
    "validate_schema=": "leave it out",
    "metadata_nthreads=": "leave it out",
    "split_row_groups=": "use `pyarrow.parquet.ParquetFile` for single row groups",
    "use_legacy_dataset=": "leave it out",
    "nthreads=": "use `use_threads=`",
}


#: What code contains that uses one of them.
_LAST_WORDS = "|".join(name.rstrip("=").rpartition(".")[2] for name in _REMOVED)
_USED = re.compile(rf"\b(?:{_LAST_WORDS})\b")


class OldUse(NamedTuple):
    """A use of a removed name or keyword, and its place in the file."""

    name: str
    cell: int | None
    line: int


def may_be_old(text: str) -> bool:
    """Whether code may use a removed name or keyword; other code need not be parsed."""
    return "pyarrow" in text and _USED.search(text) is not None


def old_uses(file: DecodedFile, modules: Iterable[PythonModule]) -> Iterator[OldUse]:
    """Yield the uses of removed names and keywords in the modules of a file, in order."""
    for module in modules:
        if may_be_old(module.text):
            for start, name in _uses_in(module):
                found = Finding("pyarrow", "note", start, start, "")
                found = module.document.in_file(found, file.lines)
                yield OldUse(name, found.cell, found.line)


def old_conditions(uses: Mapping[Path, Iterable[OldUse]]) -> Iterator[Condition]:
    """Yield a condition for each removed name or keyword that files use, at its first use."""
    places: dict[str, list[tuple[Path, OldUse]]] = {}
    for path in sorted(uses):
        for use in uses[path]:
            places.setdefault(use.name, []).append((path, use))
    for name, found in places.items():
        path, first = found[0]
        more = len({(one, use.cell, use.line) for one, use in found}) - 1
        rest = f", here and on {more} more line{'s' * (more > 1)}" if more else ""
        message = f"`{name}` is not in current pyarrow{rest}: {_REMOVED[name]}"
        yield Condition("libraries", message, path, first.line, first.cell)


def _uses_in(module: PythonModule) -> list[tuple[int, str]]:
    """Return the position and the name of each use in a module, in order."""
    uses: list[tuple[ast.AST, str]] = []
    for binding in module.scopes.bindings:
        uses += [(binding.node, path) for path in (binding.target or "", binding.imported_module)]
    uses += [(one, _path(module, one)) for one in module.scopes.nodes[ast.Attribute]]
    for call in module.scopes.calls:
        if _is_of_pyarrow(module, call.func):
            uses += [(keyword, f"{keyword.arg}=") for keyword in call.keywords]
    return sorted({(module.span(node)[0], name) for node, name in uses if name in _REMOVED})


def _path(module: PythonModule, node: ast.AST) -> str:
    """Return the dotted path of a pyarrow name, or an empty string for other names."""
    found = dotted(node)
    if found is None:
        return ""
    name, attributes = found
    for binding in module.bindings(name.id, module.scope_of(name)):
        if (binding.target or "").partition(".")[0] == "pyarrow":
            return ".".join([binding.target or "", *attributes])
    return ""


def _is_of_pyarrow(module: PythonModule, function: ast.expr) -> bool:
    """Whether a function belongs to pyarrow, or is the method that converts tables to pandas."""
    is_method = isinstance(function, ast.Attribute) and function.attr == "to_pandas"
    return is_method or bool(_path(module, function))
