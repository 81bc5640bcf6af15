"""What code files import and use, and the mdstorm extras that they need."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from mdstorm_migrate.base.document import DATABRICKS_HEADER, Kind, SourceError
from mdstorm_migrate.packaging.commands import TARGETS, dotted_values, needs_petastorm
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT, is_configured, is_within
from mdstorm_migrate.python.calls import resolved_as
from mdstorm_migrate.python.module import PythonModule, parse_python
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.sources import find_source, read_file

_NAME = rb"[A-Za-z_][\w.]*(?:[ \t]+as[ \t]+\w+)?"
#: Import statements on their own lines, and in the strings of a notebook.
_IMPORT = re.compile(
    rb'(?:^(?:# MAGIC )?|"|\\n)[ \t]*(?:from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b'
    rb"|import[ \t]+(" + _NAME + rb"(?:[ \t]*,[ \t]*" + _NAME + rb")*))",
    re.MULTILINE,
)
#: Imports of a module that is given by its name, also in the strings of a notebook.
_BY_NAME = re.compile(
    rb"\b(?:__import__|import_module|importorskip)\(\s*" + rb"""\\?["']([A-Za-z_]\w*)"""
)
#: Code that uses pandas without importing it.
_USES_PANDAS = re.compile(rb"(?:TransformSpec|toPandas|pandas_udf|InPandas)\b")
#: Imports of Horovod's Spark estimators, which import Petastorm themselves.
_HOROVOD = re.compile(
    rb'(?:^|["n>])[ \t]*(?:from|import)[ \t]+horovod\.spark'
    rb"(?:\.(?:keras|torch|lightning|common\.(?:store|estimator|backend))\b"
    rb"|[ \t]+import[ \t][^\n]*\b(?:keras|torch|lightning)\b)",
    re.MULTILINE,
)
#: The kinds of documents that contain commands.
_COMMANDS: frozenset[Kind] = frozenset({"cluster", "docker", "magic", "shell"})
_ON_DATABRICKS = (b"dbutils.", b"application/vnd.databricks")


@dataclass(frozen=True)
class CodeUse:
    """Imports and uses in one code file, or in all code under a directory.

    Attributes
    ----------
    imports : frozenset of str
        Top-level packages that are imported.
    extras : frozenset of str
        Extras of mdstorm that the code needs.
    keeps : tuple of str
        Files that import Petastorm, directly or through another library.
    on_databricks : bool
        Whether the code is made for Databricks, which provides Spark.
    builds_session : bool
        Whether the code builds a Spark session; otherwise, a notebook's host provides one.
    is_given_session : bool
        Whether it uses a session `spark` that it does not create, so its host provides Spark.
    """

    imports: frozenset[str] = frozenset()
    extras: frozenset[str] = frozenset()
    keeps: tuple[str, ...] = ()
    on_databricks: bool = False
    builds_session: bool = False
    is_given_session: bool = False

    @property
    def moved(self) -> bool:
        """Whether the code imports mdstorm."""
        return NEW_ROOT in self.imports

    @property
    def uses_either(self) -> bool:
        """Whether the code uses either library."""
        return self.moved or bool(self.keeps)

    def __or__(self, other: CodeUse) -> CodeUse:
        """Return the combined imports and uses of this object and another one."""
        return CodeUse(
            self.imports | other.imports,
            self.extras | other.extras,
            tuple(dict.fromkeys([*self.keeps, *other.keeps])),
            self.on_databricks or other.on_databricks,
            self.builds_session or other.builds_session,
            self.is_given_session or other.is_given_session,
        )


def use_of(path: Path, data: bytes, modules: Sequence[PythonModule] | None = None) -> CodeUse:
    """Return the imports and uses in a code file, given its bytes.

    Parameters
    ----------
    path : Path
    data : bytes
    modules : sequence of PythonModule, optional
        The parsed code, perhaps before edits to names of either library.
    """
    imports = frozenset(_imports(data))
    if _USES_PANDAS.search(data):
        imports |= {"pandas"}
    is_through = b"horovod.spark" in data and _HOROVOD.search(data) is not None
    moved, keeps = NEW_ROOT in imports, imports_library(path, data, OLD_ROOT)
    if modules is None and (moved or keeps):
        modules = _modules(path, data)
    is_used = moved or keeps or b".make_t" in data
    is_kept = keeps or (is_through and not is_in_project(path, "horovod"))
    is_marked = any(one in data for one in _ON_DATABRICKS)
    return CodeUse(
        imports,
        extras=frozenset(extras_used(data)) if is_used else frozenset(),
        keeps=(str(path),) if is_kept else (),
        on_databricks=is_marked or data.startswith(DATABRICKS_HEADER),
        builds_session=b"SparkSession.builder" in data,
        is_given_session=any(map(_is_given_session, modules or ())),
    )


def configured_use(path: Path, data: bytes) -> CodeUse | None:
    """Return what a file uses by dotted names in its values, or by commands, or None if nothing."""
    documents = read_file(path, data).documents
    roots = {
        root
        for root in (OLD_ROOT, NEW_ROOT)
        for one in documents
        if one.kind in ("cluster", "conda", "text")
        for key, value, _, _ in dotted_values(one.text, root)
        if key in TARGETS or is_configured(value)
    }
    if any(one.kind in _COMMANDS and needs_petastorm(one.text) for one in documents):
        roots.add(OLD_ROOT)
    if not roots:
        return None
    keeps = (str(path),) if OLD_ROOT in roots else ()
    return CodeUse(frozenset(roots), frozenset(extras_used(data)), keeps)


def imports_library(path: Path, data: bytes, root: str) -> bool:
    """Whether code imports a package, also by its name, or seems to but cannot be parsed."""
    if root not in _imports(data):
        return False
    modules = _modules(path, data)
    return modules is None or any(
        is_within(name, root) for module in modules for name in _imported(module)
    )


def _imported(module: PythonModule) -> Iterator[str]:
    """Yield the modules that code imports, also by their names in strings."""
    yield from (one.imported_module for one in module.scopes.bindings)
    for string in module.scopes.nodes[ast.Constant]:
        if resolved_as(module, string) == "imported":
            yield str(string.value)


def _imports(data: bytes) -> Iterator[str]:
    yield from (match[1].decode() for match in _BY_NAME.finditer(data))
    for match in _IMPORT.finditer(data):
        if match[1] is not None:
            yield match[1].decode()
            continue
        for one in match[2].split(b","):
            yield one.split()[0].partition(b".")[0].decode()


def _modules(path: Path, data: bytes) -> list[PythonModule] | None:
    """Return the Python documents of a file, or None if the file cannot be parsed as a whole."""
    source = find_source(path, data)
    try:
        file = source.read(data, path) if source is not None else None
        if file is None or any(cell.imports for cell in file.broken):
            return None
        code = (one for one in file.documents if one.kind == "python")
        return [PythonModule(one, parse_python(one.code)) for one in code]
    except (SourceError, RecursionError):
        return None


def _is_given_session(module: PythonModule) -> bool:
    scopes = module.scopes
    return "*" not in scopes.module.bindings and any(
        one.scope.home("spark") is None for one in scopes.references.get("spark", ())
    )


#: The text before a module that is imported from the package, as in ``from petastorm import``.
_FROM = r"\bfrom[ \t]+(?:petastorm|mdstorm)[ \t]+import(?:[ \t]*\([^)]*?|(?:[^\n\\(#;]|\\\r?\n)*?)"
_USES = {
    "images": r"\bCompressedImageCodec\b",
    "spark": (
        rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)spark(?:_utils)?\b|\bmaterialize_dataset\b"
        r"|\bmake_spark_converter\b|\bdict_to_spark_row\b"
    ),
    "tf": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)tf_utils\b|\bmake_tf_dataset\b",
    "torch": rf"(?:\b(?:petastorm|mdstorm)\.|{_FROM}\b)pytorch\b|\bmake_torch_dataloader\b",
}
#: The distribution that each of these extras installs.
LIBRARIES = {
    "images": "pillow",
    "spark": "pyspark",
    "tf": "tensorflow",
    "torch": "torch",
}
_COMMENT = re.compile(rb"^[ \t]*#[^\r\n]*", re.MULTILINE)


def extras_used(code: bytes) -> Iterator[str]:
    """Yield the extras that code needs, ignoring its comments."""
    code = _COMMENT.sub(b"", code)
    for extra in _USES:
        if _pattern(extra).search(code):
            yield extra


@cache
def _pattern(extra: str) -> re.Pattern[bytes]:
    return re.compile(_USES[extra].encode())
