"""What the code of a project needs to be installed, read from its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath

from mdstorm_migrate.base.document import Document, SourceError
from mdstorm_migrate.base.needs import Needs
from mdstorm_migrate.packaging.bounds import EXTRAS
from mdstorm_migrate.packaging.required_names import required_names
from mdstorm_migrate.petastorm.extras import USES
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.fallbacks import has_fallbacks_alone
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.parsing import parse_python
from mdstorm_migrate.run.brought import is_in
from mdstorm_migrate.run.installs import imported_packages, imports_through
from mdstorm_migrate.run.settings import Settings
from mdstorm_migrate.sources import find_source
from mdstorm_migrate.sources.python import DATABRICKS_HEADER

_NAME = rb"[A-Za-z_][\w.]*(?:[ \t]+as[ \t]+\w+)?"
_STATEMENT = (
    rb"(?:from[ \t]+([A-Za-z_]\w*)[\w.]*[ \t]+import\b"
    rb"|import[ \t]+(" + _NAME + rb"(?:[ \t]*,[ \t]*" + _NAME + rb")*))"
)
_IMPORT = re.compile(rb"^(?:# MAGIC )?[ \t]*" + _STATEMENT, re.MULTILINE)
#: In the strings of a notebook.
_IMPORT_IN_JSON = re.compile(rb'(?:"|\\n)[ \t]*' + _STATEMENT)
#: What shows that an extra is needed.
_EXTRAS = {extra: re.compile(names.encode()) for extra, names in USES.items()}
#: Methods of converters, which files may have from others that import Petastorm.
_CONVERTED = {
    "tf": re.compile(rb"(?<!self)\.make_tf_dataset\("),
    "torch": re.compile(rb"(?<!self)\.make_torch_dataloader\("),
}
#: Lines that are commented out, but for magics at Databricks; the same in strings of a notebook.
_COMMENTS = re.compile(
    rb"""^[ \t]*\#(?![ ]?MAGIC\b)[^\r\n]* | [ \t]{2,}\#[ \t][^\r\n"']*$""", re.M | re.X
)
_COMMENTS_IN_JSON = re.compile(
    rb"""(?: (?:^|[\[,])[ \t]*" | \\n ) [ \t]*\#(?:\\[^n]|[^"\\\r\n])*
    | [ ]{2,}\#[ ][^"'\\\r\n]*(?=\\n|"[ ]*[,\]\r\n])""",
    re.MULTILINE | re.VERBOSE,
)
_READER = re.compile(rb"\bmake_(?:batch_)?reader\b")
_DELTA = re.compile(rb"""\.format\(\s*\\?["']delta\\?["']\s*\)|\bDeltaTable\b|\bdeltalake\b""")
_INSTALLING = re.compile(
    rb"""\binstall | %run[ \t] | ^\#[ ]///[ ]script
    | spark_version | py(?:thon)?_version | emr-\d | [gG]lue_?[vV]ersion | image_version
    | @(?:\w+\.)?(?:conda|pypi) | (?i:image)\w*["']?[^\n=:]{0,9}[:=]\s*\(?["'][^"'\n]*py
    | (?i:image)\w*["']?\s*[:=]\s*[A-Z][A-Z\d_]*\s*[,)}]""",
    re.VERBOSE | re.MULTILINE,
)
#: What of Spark needs pandas, which the code need not import for it.
_WITH_PANDAS = re.compile(rb"\b(?:toPandas|pandas_udf|\w+InPandas|pandas_api)\b")
_ON_DATABRICKS = (b"dbutils.", b"application/vnd.databricks")


@dataclass(frozen=True)
class Facts:
    """What one file of code, or all below a directory, imports and needs.

    Attributes
    ----------
    imports : frozenset of str
        First parts of the modules that are imported.
    extras : frozenset of str
        Extras of mdstorm that what it uses needs; ``reader`` and ``delta-table`` together stand for
        ``delta``.
    is_moved : bool
        Whether it imports mdstorm.
    keeps : tuple of Path
        Files that import Petastorm, themselves or by way of another library.
    on_databricks : bool
        Whether it shows that it runs on Databricks, which brings Spark.
    starts_spark : bool
        Whether it may start a session of Spark itself.
    installs : tuple of Path
        Files that install something, name its host, or run others that may.
    falls_back : tuple of Path
        Those of `keeps` that import Petastorm where mdstorm is not installed, and nowhere else.
    through : tuple of Path
        Those of `keeps` that import a library which imports Petastorm itself.
    """

    imports: frozenset[str] = frozenset()
    extras: frozenset[str] = frozenset()
    is_moved: bool = False
    keeps: tuple[Path, ...] = field(default=())
    on_databricks: bool = False
    starts_spark: bool = False
    installs: tuple[Path, ...] = field(default=())
    falls_back: tuple[Path, ...] = field(default=())
    through: tuple[Path, ...] = field(default=())

    def __or__(self, other: Facts) -> Facts:
        """Return the facts of both."""
        return Facts(
            self.imports | other.imports,
            self.extras | other.extras,
            self.is_moved or other.is_moved,
            tuple(dict.fromkeys([*self.keeps, *other.keeps])),
            self.on_databricks or other.on_databricks,
            self.starts_spark or other.starts_spark,
            tuple(dict.fromkeys([*self.installs, *other.installs])),
            tuple(dict.fromkeys([*self.falls_back, *other.falls_back])),
            tuple(dict.fromkeys([*self.through, *other.through])),
        )


def read_facts(path: Path) -> tuple[Path, Facts] | None:
    """Return the facts of a file; None if it cannot be read, or has none."""
    try:
        found = facts_of(path.read_bytes(), path)
    except OSError:
        return None
    return (path, found) if found != Facts() else None


def facts_of(data: bytes, path: Path) -> Facts:
    """Return the facts of the bytes of a file of code."""
    is_json = path.suffix == ".ipynb"
    imports = frozenset(_imports(data, is_json))
    code = (_COMMENTS_IN_JSON if is_json else _COMMENTS).sub(b"", data)
    if is_json:
        code = code.replace(rb"\n", b"\n")  # a cell may be one string
    if "pyspark" in imports and _WITH_PANDAS.search(code):
        imports |= {"pandas"}
    extras: frozenset[str] = frozenset()
    moved = "mdstorm" in imports
    old = OLD_ROOT in imports
    if moved or old:
        extras = frozenset(name for name, pattern in _EXTRAS.items() if pattern.search(code))
        if _READER.search(code):
            extras |= {"reader"}
    elif b".make_t" in code:
        extras = frozenset(name for name, called in _CONVERTED.items() if called.search(code))
    if (b"delta" in data or b"Delta" in data) and _DELTA.search(code):
        extras |= {"delta-table"}
    through = imports_through(data)
    keeps = (path,) if through or (old and _still_imports(data, path)) else ()
    databricks = data.startswith(DATABRICKS_HEADER) or any(one in data for one in _ON_DATABRICKS)
    starts = b"SparkSession" in data
    installs = (path,) if _INSTALLING.search(data) else ()
    by_way = (path,) if through else ()
    falls_back = (path,) if keeps and moved and not through and _falls_back(data, path) else ()
    return Facts(imports, extras, moved, keeps, databricks, starts, installs, falls_back, by_way)


def needs_alone(
    data: bytes, path: PurePath | None, documents: Sequence[Document], settings: Settings
) -> Needs:
    """Return what is needed of the requirements of a file that is seen alone.

    A notebook says by its own code what its install commands must bring in. Spark it needs only
    where it starts a session itself: elsewhere, whoever runs it has one.
    """
    plain = Needs(settings.wanted, settings.index)
    kinds = {document.kind for document in documents}
    if path is None or not ("python" in kinds and kinds & {"magic", "pyproject", "shell"}):
        return plain
    return notebook_needs(facts_of(data, Path(path)), required_names(documents), plain)


def notebook_needs(facts: Facts, listed: set[str], plain: Needs) -> Needs:
    """Return what a notebook needs of its install commands, beside what is in `listed`."""
    extras = needed_extras(facts, listed)
    if facts.on_databricks or not facts.starts_spark:
        extras.discard("spark")
    named = {extra for extra in extras if not set(EXTRAS[extra]) <= listed}
    return replace(plain, extras=tuple(sorted(named)), uses=tuple(sorted(extras)))


def needed_extras(facts: Facts, listed: Collection[str] = ()) -> set[str]:
    """Return the extras that code needs beside what is `listed`.

    Code that uses Spark itself has needed no requirement of it but Petastorm's.
    """
    extras = set(facts.extras - {"reader", "delta-table"})
    if facts.extras >= {"reader", "delta-table"}:
        extras.add("delta")
    if "pyspark" in facts.imports and not is_in("pyspark", listed):
        extras.add("spark")
    return extras


def _imports(data: bytes, is_json: bool) -> Iterator[str]:
    for match in (_IMPORT_IN_JSON if is_json else _IMPORT).finditer(data):
        if match[1] is not None:
            yield match[1].decode()
            continue
        for one in match[2].split(b","):
            yield one.split()[0].partition(b".")[0].decode()


def _falls_back(data: bytes, path: Path) -> bool:
    """Whether all imports of Petastorm in a file are fallbacks."""
    source = find_source(path, data[:256])
    if source is None:
        return False
    try:
        documents = source.read(data, path).documents
        read = [
            PythonModule(one, parse_python(one.code)) for one in documents if one.kind == "python"
        ]
    except (SourceError, RecursionError):
        return False
    return all(map(has_fallbacks_alone, read))


def _still_imports(data: bytes, path: Path) -> bool:
    """Whether a file that seems to import Petastorm does so in code, and not in a text."""
    source = find_source(path, data[:256])
    if source is None:
        return True
    try:
        return OLD_ROOT in imported_packages(source.read(data, path))
    except (SourceError, RecursionError):
        return True
