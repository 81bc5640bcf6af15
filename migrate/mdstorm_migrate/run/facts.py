"""Facts: what the bytes of a file show by themselves, the same before and after its migration.

What code imports is found in its statements by `python.links`, or in text that is not parsed by
`run.imports`; this module adds what it imports by name, configures and runs, and what lists
install. `run.project` relates the facts of all files to each other.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any

from mdstorm_migrate.base.document import (
    DATABRICKS_HEADER,
    DecodedFile,
    Document,
    DocumentKind,
    SourceError,
    TextSegment,
    is_setup_script,
)
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.mosaicml.names import FRONT
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import (
    command_text,
    commands_in,
    installs_all,
    libraries_run,
    runs,
    runs_in_string,
)
from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.packaging.lists import (
    is_constraint_file,
    is_generated,
    is_inventory,
    names_beside,
    required_names,
)
from mdstorm_migrate.packaging.parts import DocumentPart, parts_of
from mdstorm_migrate.packaging.strings import commands_of_string, is_module_run, required_in
from mdstorm_migrate.packaging.words import COMMANDS, instructions
from mdstorm_migrate.petastorm.attributes import CONVERTER_FILES, UNMISTAKABLE
from mdstorm_migrate.petastorm.names import (
    CONVERTER_METHODS,
    NEW_ROOT,
    NEW_SCRIPTS,
    OLD_ROOT,
    is_configured,
    is_known,
    is_within,
    words,
)
from mdstorm_migrate.python.calls import PATCHING, RESOLVING, is_docstring, resolved_as
from mdstorm_migrate.python.links import (
    DISTRIBUTIONS,
    Links,
    all_imports,
    dotted_import,
    links_of,
    resolves,
)
from mdstorm_migrate.python.module import PythonModule, inner_span, parse_python, string_value
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.rules import pm403_setup, pm414_settings
from mdstorm_migrate.rules.pm103_dotted_strings import FIND_CLASS
from mdstorm_migrate.rules.versions import looked_up
from mdstorm_migrate.run.discover import CODE, is_code
from mdstorm_migrate.run.imports import TEST, configured_imports, text_imports
from mdstorm_migrate.run.old_pyarrow import may_be_old
from mdstorm_migrate.run.seen import Seen, seen_in
from mdstorm_migrate.sources import find_source, read_file
from mdstorm_migrate.sources.plain import kind_of

#: The two libraries that code uses.
ROOTS = (OLD_ROOT, NEW_ROOT)
#: What imports Petastorm itself: Horovod's Spark estimators, and the examples in Petastorm's wheel.
_THROUGH = words(
    "horovod.spark.keras horovod.spark.torch horovod.spark.lightning horovod.spark.common.store "
    "horovod.spark.common.estimator horovod.spark.common.backend examples.hello_world "
    "examples.imagenet examples.mnist examples.spark_dataset_converter"
)
_THROUGH_ROOTS = {one.partition(".")[0] for one in _THROUGH}
#: Words in code that must be parsed to know what it imports.
_PARSED = tuple(
    word.encode()
    for word in (
        *ROOTS,
        "import_module",
        "metadata",
        "pkg_resources",
        "sys.modules",
        *(f"{one}(" for one in RESOLVING | DISTRIBUTIONS),
    )
)
#: An import of one of the libraries in code that cannot be parsed.
_UNPARSED = re.compile(rf"^[^#\n]*\b(?:from|import)[ \t]+({'|'.join(ROOTS)})\b", re.MULTILINE)
#: A string that may be the name of a module to import, or of a part of one of the libraries.
_NAMES_MODULE = re.compile(rf"\b(?:{'|'.join(sorted(RESOLVING))})\b[^\n]*[\"']")
_ALLOWED = re.compile(rf"[\"']{OLD_ROOT}(?:\.\w*)*[\"']")
_NAMES_PART = re.compile(rf"[\"'](?:{'|'.join(ROOTS)})\.")
#: What a string contains that runs a command or module of Petastorm.
_COMMAND_OF_PETASTORM = re.compile(rf"-(?:(?<=\b{OLD_ROOT}-)|[cm][^\n]*{OLD_ROOT}\b)")
#: A fixture of pytest, and the parameters of functions.
_FIXTURE = re.compile(
    r"^@[\w.]*fixture\b[^\n]*\n(?:[@ \t)][^\n]*\n)*(?:async[ ])?def[ ](?P<name>\w+)"
    r"(?P<body>[^\n]*(?:\n(?:[ \t)][^\n]*)?)*)",
    re.MULTILINE,
)
_PARAMETERS = re.compile(r"\bdef \w+\(([^)]*)\)")
_WORD_OF_CODE = re.compile(r"[A-Za-z_]\w*")
#: Attributes that only Petastorm's objects usually have, their uses, and their definitions.
_DISTINCT = sorted(CONVERTER_FILES | UNMISTAKABLE)
_USED = re.compile(rf"\.({'|'.join(_DISTINCT)})\b(?!\s*(?::|=(?!=)))")
_DEFINED = re.compile(
    rf"\bdef ({'|'.join(_DISTINCT)})\b"
    rf"|(?:\b(?:self|cls)\.|^[ \t]+)({'|'.join(_DISTINCT)})\s*(?::|=(?!=))",
    re.MULTILINE,
)
#: Code that uses pandas without importing it.
_USES_PANDAS = ("TransformSpec", "toPandas", "to_pandas", "pandas_udf", "InPandas")
#: Strings that identify code for Databricks, which provides Spark; and scripts and definitions.
_CODE_FOR_DATABRICKS = (b"dbutils.", b"application/vnd.databricks")
_FOR_DATABRICKS = (b"/databricks/", b"spark_version")
#: Kinds of files that list requirements, and those that run commands where they install packages.
LISTS: frozenset[DocumentKind] = frozenset(
    {"conda", "pipfile", "pyproject", "requirements", "setup_cfg"}
)
RUNNING: frozenset[DocumentKind] = frozenset({"cluster", "docker", "shell"})
#: Kinds of files in which code is configured.
_CONFIGURED: frozenset[DocumentKind] = frozenset({"cluster", "conda", "text"})
#: Names of files that describe an environment, in addition to lists and files with commands.
_ENVIRONMENT = frozenset({".python-version", "runtime.txt", "setup.py"})
#: The name of a Python file in a string.
_SCRIPT_NAME = re.compile(r"\.py(?<=\w\.py)[\"'\s]")
#: An argument for what launches code with the version of Python that it names.
_LAUNCHES = "py_version"
#: The suffix of a list of requirements.
_LIST_SUFFIX = re.compile(r"\.(?:in|pip|txt)\b")
_FILE_NAME = re.compile(r"[\w.-]+")
#: A line that includes another list of requirements.
_INCLUDES = re.compile(r"^[ \t]*(?:-r|--requirement)[ \t=]*(?P<name>[^\s#]+)", re.MULTILINE)
_REQUIRED_EXTRAS = re.compile(rf"\b{NEW_ROOT}\[([\w, -]+)\]")
#: A string that may require mdstorm.
_REQUIRED = re.compile(rf"""["'][^"'\n]*\b{NEW_ROOT}(?:\[[\w, -]*\])?(?=[\s"'=<>~!;@])""")
#: A file or folder that a command names, and what an image copies.
_PATH = re.compile(
    r"(?<![\w.:/-])(?:\./)?((?:[\w.-]+/)+[\w.-]*|[\w-]+\.(?:py|ipynb))(?![\w:/-])", re.MULTILINE
)
#: Words in files that may install a list without mentioning either library.
_INSTALLING = (b"install", b"env create", b"env update")
_BUILDS = re.compile(r"\b(?:build|context)[\"']?[ \t]*:[ \t]*[\"']?(\.[\w./-]*|[\w-][\w./-]*)")
_WORD = re.compile(r"[^\s\\\[\]\"',]+")


@dataclass(frozen=True)
class Facts:
    """What the bytes of a file show by themselves, and whether a library has to stay for it.

    Attributes
    ----------
    is_examined : bool
        Whether rules look for edits in it: it mentions Petastorm, or objects of Petastorm reach it.
    kind : DocumentKind or None
        The kind of its only document; None if it has several, or was not read: then its name
        determines its kind.
    links : Links
        What links its code to other files.
    makes_loaders, makes_converter : bool
        Whether it calls a method that makes a converter's loaders; and whether it names the
        function of Petastorm that makes a converter.
    fixtures, parameters : frozenset of str
        The fixtures of a ``conftest.py`` that use what it imports, and the parameters of the
        functions in a test.
    attributes, defined : frozenset of str
        The attributes that it uses, and that it defines, with names that only Petastorm's objects
        usually have.
    imports : frozenset of str
        The dotted names that code imports, also by their names in strings, that configuration
        creates, and that commands run.
    needs : frozenset of str
        The libraries among `ROOTS` that must be installed for it, directly or through others.
    extras : frozenset of str
        Extras of mdstorm that it needs.
    patched : frozenset of str
        The libraries among `ROOTS` whose parts it replaces by their dotted names.
    is_installing : bool
        Whether it is a ``setup.py``, or strings in its code require or install one of the
        libraries.
    installs : frozenset of str
        The distributions that it requires or installs.
    beside : frozenset of str
        Those that are installed wherever one of the libraries is; others are in optional groups.
    required_extras : frozenset of str
        Extras of mdstorm that it requires or installs.
    is_inventory : bool
        Whether it pins at least a hundred distributions, as ``pip freeze`` does.
    is_complete : bool
        Whether its commands install packages, but not from a list.
    includes : tuple of str
        The lists of requirements that it includes.
    lists : frozenset of str
        Names of files in its text that may be lists of requirements.
    paths, copies, builds, folders : frozenset of str
        Files and folders that its commands name; what an image copies; the folders with the images
        that its services use; and those in which commands run, or whose projects they install.
    names_script : bool
        Whether its code names a Python file, which it may run.
    is_bare : bool
        Whether it gets no code of the project, as an image that copies nothing.
    parts : tuple of Facts
        The facts about its parts that are installed separately, and first, about what is in none;
        empty if it has no parts.
    name, above, is_direct
        Of a part: see `packaging.parts.DocumentPart`.
    on_databricks : bool
        Whether it is made for Databricks, which provides Spark.
    builds_session : bool
        Whether code builds a Spark session; otherwise, a notebook's host provides one.
    is_given_session : bool
        Whether code uses a session `spark` that it does not create, so its host provides Spark.
    shared : frozenset of str
        What its commands run of Petastorm that mdstorm also has: scripts, modules, and the library
        itself for code in a command, which may only check what is installed.
    seen : Seen
    """

    is_examined: bool = False
    kind: DocumentKind | None = None
    links: Links = field(default_factory=Links)
    makes_loaders: bool = False
    makes_converter: bool = False
    fixtures: frozenset[str] = frozenset()
    parameters: frozenset[str] = frozenset()
    attributes: frozenset[str] = frozenset()
    defined: frozenset[str] = frozenset()
    imports: frozenset[str] = frozenset()
    needs: frozenset[str] = frozenset()
    extras: frozenset[str] = frozenset()
    patched: frozenset[str] = frozenset()
    is_installing: bool = False
    installs: frozenset[str] = frozenset()
    beside: frozenset[str] = frozenset()
    required_extras: frozenset[str] = frozenset()
    is_inventory: bool = False
    is_complete: bool = False
    includes: tuple[str, ...] = ()
    lists: frozenset[str] = frozenset()
    paths: frozenset[str] = frozenset()
    copies: frozenset[str] = frozenset()
    builds: frozenset[str] = frozenset()
    folders: frozenset[str] = frozenset()
    names_script: bool = False
    is_bare: bool = False
    parts: tuple[Facts, ...] = ()
    name: str = ""
    above: frozenset[int] = frozenset({0})
    is_direct: bool = False
    on_databricks: bool = False
    builds_session: bool = False
    is_given_session: bool = False
    shared: frozenset[str] = frozenset()
    seen: Seen = field(default_factory=Seen)

    @property
    def moved(self) -> bool:
        """Whether it needs mdstorm."""
        return NEW_ROOT in self.needs

    @property
    def keeps(self) -> bool:
        """Whether it needs Petastorm."""
        return OLD_ROOT in self.needs

    def also_needing(self, root: str) -> Facts:
        """Return the facts if the file, outside of its parts, also needs a library."""
        parts = tuple(one if n else one.also_needing(root) for n, one in enumerate(self.parts))
        return replace(self, needs=self.needs | {root}, parts=parts)


@dataclass(frozen=True)
class Parsed:
    """A file that has been read, and its Python documents."""

    file: DecodedFile
    modules: Sequence[PythonModule] = ()


def parsed(path: Path, data: bytes) -> Parsed | None:
    """Return a file with its Python documents parsed, or None if it cannot be read or parsed."""
    source = find_source(path, data)
    if source is None:
        return None
    try:
        file = source.read(data, path)
        code = [one for one in file.documents if one.kind == "python"]
        return Parsed(file, [PythonModule(one, parse_python(one.code)) for one in code])
    except (SourceError, RecursionError):
        return None


def facts(
    path: Path, data: bytes, known: Parsed | None = None, before: Facts | None = None
) -> Facts:
    """Return the facts about a file.

    Parameters
    ----------
    path : Path
    data : bytes
    known : Parsed, optional
        The file, if it has been parsed; otherwise it is parsed if it may use either library.
    before : Facts, optional
        What `linked` returns for the file before edits to names, which keep its links; what is
        seen in it is not looked for again.
    """
    text = data.decode("utf-8", "replace")
    is_old = is_code(path) and may_be_old(text)
    is_installing = kind_of(path) in RUNNING and any(word in data for word in _INSTALLING)
    if known is None and (is_old or is_installing or any(word in data for word in _PARSED)):
        known = parsed(path, data)
    file = _file(path, data, known)
    before = before or _linked(path, data, known, file)
    imports = frozenset(_imports(path, text, known, before.links))
    needs = frozenset(_needs(path, imports))
    makes_loaders = path.suffix in CODE and any(f".{one}(" in text for one in CONVERTER_METHODS)
    marks = _CODE_FOR_DATABRICKS if is_code(path) else _FOR_DATABRICKS
    modules = known.modules if known is not None else ()
    describing = _describing(file, before.is_installing)
    kind = before.kind or kind_of(path)
    is_list = known is not None or kind in LISTS or is_setup_script(path)
    installation = _installation(path, describing, kind) if is_list else {}
    if is_list and modules and describing and all(one.kind == "python" for one in describing):
        # The name in another string, such as a description, requires nothing.
        roots = {root for root in ROOTS if any(_requires(one, root) for one in modules)}
        for name in ("installs", "beside"):
            installation[name] = installation[name] - ({*ROOTS} - roots)
    if not is_list and before.seen.versions:  # it may describe where a list is installed
        installation["paths"] = frozenset(_paths(describing))
        installation["folders"] = frozenset(_folders(describing))
    whole = replace(
        before,
        makes_loaders=makes_loaders,
        names_script=is_code(path) and bool(needs) and _SCRIPT_NAME.search(text) is not None,
        imports=imports,
        needs=needs,
        extras=frozenset(_extras(text, imports, modules) if needs or makes_loaders else ()),
        patched=frozenset(_patched(known)),
        on_databricks=data.startswith(DATABRICKS_HEADER) or any(one in data for one in marks),
        builds_session="SparkSession.builder" in text,
        shared=frozenset(_shared(known.file.documents, modules) if known else ()),
        lists=frozenset(_lists(text)),
        **installation,
    )
    if known is None or len(known.file.documents) != 1:
        return whole
    return replace(whole, parts=tuple(_parts(path, known, whole)))


def _parts(path: Path, known: Parsed, whole: Facts) -> Iterator[Facts]:
    """Yield the facts about each part of a file with one document."""
    (document,) = known.file.documents
    parts = parts_of(document, *known.modules)
    for part in parts:
        text = "".join(document.text[start:stop] for start, stop in part.spans)
        if known.modules and part is parts[0]:
            imports = frozenset(_imports(path, text, known, whole.links, parts[1:]))
            yield replace(whole, imports=imports, needs=frozenset(_needs(path, imports)))
            continue
        piece = Document(document.kind, [TextSegment(text)], path)
        imports = frozenset(_named_in(piece))
        if known.modules:
            imports |= {*libraries_run(text, commands_in(piece))}
        if part.function is not None:
            text += document.text[slice(*known.modules[0].span(part.function))]
            imports |= {*_imported_in(part.function, text)}
        needs = frozenset(_needs(path, imports))
        own = replace(
            whole,
            imports=imports,
            needs=needs,
            extras=frozenset(_extras(text, imports, known.modules) if needs else ()),
            shared=frozenset(_shared_by(piece)),
            name=part.name,
            above=part.above,
            is_direct=part.is_direct,
            **_installation(path, [piece], whole.kind),
        )
        is_bare = part.is_bare or own.is_bare
        yield replace(own, is_bare=is_bare, is_complete=whole.is_complete)


def linked(path: Path, data: bytes, known: Parsed | None) -> Facts:
    """Return the facts about a file's code that edits to names do not change, and what is seen."""
    return _linked(path, data, known, _file(path, data, known))


def _linked(path: Path, data: bytes, known: Parsed | None, file: DecodedFile) -> Facts:
    text = data.decode("utf-8", "replace")
    modules = known.modules if known is not None else ()
    is_installing = is_setup_script(path) or any(
        _requires(module, root) for module in modules for root in ROOTS
    )
    is_whole = known is not None and len(file.documents) == 1
    is_distinct = is_code(path) and any(one in text for one in _DISTINCT)  # faster
    links, is_test = _links(path, text, known), TEST.fullmatch(path.stem) is not None
    return Facts(
        kind=file.documents[0].kind if is_whole else None,
        links=links,
        fixtures=frozenset(_fixtures(text, links) if path.stem == "conftest" else ()),
        parameters=frozenset(_WORD_OF_CODE.findall(" ".join(_PARAMETERS.findall(text))))
        if is_test and path.suffix == ".py"
        else frozenset(),
        is_installing=is_installing,
        is_given_session=_is_given_session(known),
        makes_converter="make_spark_converter" in text
        and any(OLD_ROOT in one.imported_roots for one in modules),
        attributes=frozenset(_USED.findall(text) if is_distinct else ()),
        defined=frozenset(filter(None, sum(_DEFINED.findall(text) if is_distinct else [], ()))),
        seen=_seen(path, data, file, modules, is_installing),
    )


def _fixtures(text: str, links: Links) -> Iterator[str]:
    """Yield the fixtures in the text of a ``conftest.py`` that use what it imports."""
    imported = {one.bound for one in links.imports} | {name for name, _ in links.parts}
    for found in _FIXTURE.finditer(text):
        words = _WORD_OF_CODE.findall(found["body"])
        if "*" in imported or not imported.isdisjoint(words):
            yield found["name"]


def seen_after(path: Path, data: bytes, known: Parsed, is_installing: bool) -> Seen:
    """Return what is seen in a file after edits."""
    return _seen(path, data, known.file, known.modules, is_installing)


def _file(path: Path, data: bytes, known: Parsed | None) -> DecodedFile:
    """Return the decoded file, without documents if none of them describes anything."""
    if known is not None:
        return known.file
    is_described = kind_of(path) in LISTS | COMMANDS or path.name in _ENVIRONMENT
    is_described |= path.suffix == ".py" and _LAUNCHES.encode() in data
    return read_file(path, data) if is_described else DecodedFile("", ())


def _describing(file: DecodedFile, is_installing: bool) -> list[Document]:
    """Return the documents that list, install or describe what code runs with."""
    others = ("lock", "markdown", "other", "text", *(() if is_installing else ("python",)))
    return [
        one
        for one in file.documents
        if one.kind not in others or (one.path is not None and one.path.name in _ENVIRONMENT)
    ]


def _seen(
    path: Path,
    data: bytes,
    file: DecodedFile,
    modules: Sequence[PythonModule],
    is_installing: bool,
) -> Seen:
    """Return what the bytes of a file show; what launches code also describes an environment."""
    is_describing = is_installing or _LAUNCHES.encode() in data
    return seen_in(path, data, file, modules, _describing(file, is_describing))


# What code imports


def _links(path: Path, text: str, known: Parsed | None) -> Links:
    if path.suffix not in CODE:
        return Links(tuple(configured_imports(text)))
    if known is None:
        return Links(tuple(text_imports(text)), resolves=resolves(text))
    return next(map(links_of, known.modules), Links())


def _imports(
    path: Path, text: str, known: Parsed | None, links: Links, parts: Sequence[DocumentPart] = ()
) -> Iterator[str]:
    """Yield the dotted names that a file imports, configures or runs, outside of these parts."""
    if is_code(path):
        yield from _used_pandas(text)
    if known is None:
        if is_code(path):
            yield from (dotted_import(one) for one in links.imports if one.bound and not one.level)
            yield from _UNPARSED.findall(text)
        return
    for module in known.modules if not is_setup_script(path) else ():
        items = all_imports(_statements(module.tree))
        yield from (dotted_import(one) for one in items if not one.level)
        yield from _imported_by_name(module)
        yield from _run_by_code(module, parts)
        yield from looked_up(module)
        # A class in a pickle that Petastorm has written is imported from Petastorm.
        is_unpickling = FIND_CLASS.search(module.text) is not None
        yield from [OLD_ROOT] if is_unpickling and _ALLOWED.search(module.text) else []
    yield from (OLD_ROOT for cell in known.file.broken if cell.imports)
    for document in known.file.documents:
        yield from _named_in(document)


def _used_pandas(text: str) -> Iterator[str]:
    yield from ["pandas"] if any(one in text for one in _USES_PANDAS) else []


def _imported_in(function: ast.FunctionDef, text: str) -> Iterator[str]:
    """Yield the dotted names that a function imports itself."""
    yield from _used_pandas(text)
    yield from (dotted_import(one) for one in all_imports(ast.walk(function)) if not one.level)


def _named_in(document: Document) -> Iterator[str]:
    """Yield the dotted names that a document other than code configures, and what it runs."""
    if document.kind in _CONFIGURED:
        for root in (*ROOTS, FRONT):
            values = dotted_values(document.text, root)
            names = (one for key, one, _, _ in values if key in TARGETS or is_configured(one))
            found = [one.replace(":", ".") for one in names]
            yield from [*found, *_used_pandas("\n".join(found))]
    if document.kind in COMMANDS:
        yield from libraries_run(document.text, commands_in(document))
    is_kept = document.kind in ("pyproject", "setup_cfg") and pm414_settings.needs_petastorm(
        document
    )
    # No rule edits the entry points in a setup.py.
    is_kept |= (
        is_setup_script(document.path) and pm414_settings.ENTRY.search(document.text) is not None
    )
    yield from [OLD_ROOT] if is_kept else []


_WITH_BLOCKS: tuple[type[ast.AST], ...] = (
    *(ast.Module, ast.ExceptHandler, ast.match_case),
    *ast.stmt.__subclasses__(),
)
#: The fields of each kind of node that contain statements.
_BLOCKS = {
    kind: {"body", "orelse", "finalbody", "handlers", "cases"}.intersection(kind._fields)
    for kind in _WITH_BLOCKS
}


def _statements(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the statements of a module, also nested ones, without their expressions."""
    todo: list[ast.AST] = [tree]
    while todo:
        node = todo.pop()
        yield node
        for name in _BLOCKS.get(type(node), ()):
            todo += getattr(node, name)


def _imported_by_name(module: PythonModule) -> Iterator[str]:
    """Yield the modules that code imports by their names in strings."""
    if any(one in module.text for one in RESOLVING) and _NAMES_MODULE.search(module.text):
        for string in module.scopes.nodes[ast.Constant]:
            if isinstance(string.value, str) and resolved_as(module, string) == "imported":
                yield string.value
    if NEW_ROOT in module.text and _NAMES_PART.search(module.text) and resolves(module.text):
        for table in module.scopes.nodes[ast.Dict]:
            values = (string_value(one) or "" for one in table.values)
            yield from (one for one in values if is_known(one) and is_within(one, NEW_ROOT))


def _run_by_code(module: PythonModule, parts: Sequence[DocumentPart]) -> Iterator[str]:
    """Yield the modules that strings in commands name, and the libraries whose scripts they run."""

    def is_outside(string: ast.Constant) -> bool:
        return not any(part.has(module.span(string)[0]) for part in parts)

    if _NAMES_PART.search(module.text):
        for string in module.scopes.nodes[ast.Constant]:
            root = str(string.value).partition(".")[0]
            if root in ROOTS and is_module_run(module, string) and is_outside(string):
                yield str(string.value)
    outside = filter(is_outside, _commands(module))
    ran = (one for string in outside for one in _run_by(module, string))
    yield from [OLD_ROOT] if any(isinstance(one, Finding) for one in ran) else []
    if any(one in module.text for one in NEW_SCRIPTS):
        for string in module.scopes.nodes[ast.Constant]:
            if not any(one in str(string.value) for one in NEW_SCRIPTS):
                continue
            libraries = libraries_run(str(string.value), commands_of_string(module, string))
            if NEW_ROOT in libraries and is_outside(string):
                yield from () if is_docstring(module, string) else [NEW_ROOT]


def _commands(module: PythonModule) -> Iterator[ast.Constant]:
    """Yield the strings that may be commands with Petastorm's name."""
    is_there = any(word in module.text for word in ("-c", "-m", f"{OLD_ROOT}-"))  # faster
    if is_there and _COMMAND_OF_PETASTORM.search(module.text):
        yield from (one for one in module.scopes.strings if not is_docstring(module, one))


def _run_by(module: PythonModule, string: ast.Constant) -> Iterator[Edit | Finding]:
    """Yield what a string in code runs, if it is a command."""
    is_verbatim, commands = (
        inner_span(module, string) is not None,
        commands_of_string(module, string),
    )
    yield from runs_in_string(str(string.value), commands, "", is_verbatim=is_verbatim)


def _shared(documents: Iterable[Document], modules: Iterable[PythonModule]) -> Iterator[str]:
    """Yield what commands run of Petastorm that mdstorm also has."""
    yield from chain.from_iterable(_shared_by(one) for one in documents if one.kind in COMMANDS)
    for module in modules:
        for string in _commands(module):
            text, ran = str(string.value), _run_by(module, string)
            yield from (text[one.start : one.stop] for one in ran if isinstance(one, Edit))


def _shared_by(document: Document) -> Iterator[str]:
    text = document.text
    for one in runs(text, "", commands_in(document)):
        yield from [text[one.start : one.stop]] if isinstance(one, Edit) else []


def _needs(path: Path, imports: frozenset[str]) -> Iterator[str]:
    """Yield the libraries that must be installed for what a file imports."""
    roots = {one.partition(".")[0] for one in imports}
    yield from (root for root in ROOTS if root in roots)
    for through in _THROUGH if not roots.isdisjoint(_THROUGH_ROOTS) else ():
        is_imported = any(is_within(one, through) for one in imports)
        if is_imported and not is_in_project(path, *through.split(".")):
            yield OLD_ROOT


def _patched(known: Parsed | None) -> Iterator[str]:
    """Yield the libraries whose parts code replaces by their dotted names."""
    for module in known.modules if known is not None else ():
        if any(word in module.text for word in PATCHING) and _NAMES_PART.search(module.text):
            for string in module.scopes.nodes[ast.Constant]:
                root = str(string.value).partition(".")[0]
                if root in ROOTS and resolved_as(module, string) == "patched":
                    yield root


def _is_given_session(known: Parsed | None) -> bool:
    return any(
        "*" not in module.scopes.module.bindings
        and any(
            one.scope.home("spark") is None for one in module.scopes.references.get("spark", ())
        )
        for module in (known.modules if known is not None else ())
        if "spark" in module.text
    )


#: Modules and names of both libraries, by the extra of mdstorm that code with them needs.
_EXTRAS = {
    "images": ["CompressedImageCodec"],
    "spark": [
        *("materialize_dataset", "make_spark_converter", "dict_to_spark_row"),
        *(f"{root}.{module}" for root in ROOTS for module in ("spark", "spark_utils")),
    ],
    "tf": ["make_tf_dataset", *(f"{root}.tf_utils" for root in ROOTS)],
    "torch": ["make_torch_dataloader", *(f"{root}.pytorch" for root in ROOTS)],
}
#: What names no module: a comment, and the name of a logger; imports by name are seen otherwise.
_NO_MODULE = re.compile(
    rf"""^[ \t]*\#[^\r\n]* | \bgetLogger\([^\r\n)]*\)
    | ["'](?:{"|".join(ROOTS)})\.spark\.spark_dataset_converter["']""",
    re.MULTILINE | re.VERBOSE,
)


def _extras(text: str, imports: frozenset[str], modules: Sequence[PythonModule]) -> Iterator[str]:
    """Yield the extras that code needs; strings may name modules, but docstrings do not."""
    imported = "\n".join(imports)
    for extra, names in _EXTRAS.items():
        if any(one in imported for one in names):
            yield extra
        elif any(one in text for one in names):  # this is the faster test
            code = _NO_MODULE.sub("", text)
            for docstring in _docstrings(modules) if any(one in code for one in names) else ():
                code = code.replace(docstring, "")
            yield from [extra] if any(one in code for one in names) else []


def _docstrings(modules: Sequence[PythonModule]) -> Iterator[str]:
    """Yield the strings that are whole statements, as they are written."""
    for module in modules:
        for statement in _statements(module.tree):
            match statement:
                case ast.Expr(value=ast.Constant(value=str())):
                    yield module.source_of(statement)


# What is installed


def _installation(
    path: Path, documents: Sequence[Document], kind: DocumentKind | None
) -> dict[str, Any]:
    """Return the facts about what a file requires or installs; a constraint does neither."""
    text = "".join(map(command_text, documents))
    running = [one for one in documents if one.kind in RUNNING]
    copies = frozenset(word for one in running for word in _copied(one))
    extras = _REQUIRED_EXTRAS.findall(text)
    is_list = not is_constraint_file(path) and not is_generated(text)
    installs = frozenset(required_names(documents)) if is_list else frozenset()
    beside = frozenset(names_beside(documents, ROOTS)) if kind in LISTS else installs
    return {
        "installs": installs,
        "beside": beside & installs,
        "required_extras": frozenset(re.findall(r"[\w-]+", " ".join(extras))),
        "is_inventory": kind == "requirements" and is_inventory(text),
        "is_complete": installs_all(chain.from_iterable(map(commands_in, documents))),
        "includes": tuple(match["name"] for match in _INCLUDES.finditer(text)),
        "paths": frozenset(_paths([*running, *(one for one in documents if one.kind == "python")])),
        "copies": copies,
        "is_bare": kind == "docker" and not copies,
        "builds": frozenset(one for each in running for one in _BUILDS.findall(command_text(each))),
        "folders": frozenset(_folders(running)),
    }


def _copied(document: Document) -> Iterator[str]:
    """Yield what an image copies, except from other stages; the last word is where it goes."""
    for name, start, stop in instructions(document.text) if document.kind == "docker" else ():
        if name in ("COPY", "ADD") and "--from" not in document.text[start:stop]:
            yield from _WORD.findall(document.text, start, stop)[:-1]


def _folders(documents: Iterable[Document]) -> Iterator[str]:
    for document in documents:
        for command in commands_in(document):
            yield from acts.folders(command)


def _paths(documents: Sequence[Document]) -> Iterator[str]:
    """Yield the paths of files and folders that commands name, also as modules."""
    is_here = not any(_folders(documents))
    for document in documents:
        yield from (one for one in _PATH.findall(command_text(document)) if one.strip("./"))
        for command in commands_in(document):
            ran = (one.word.text for one in acts.runs(command) if one.kind == "module")
            yield from (f"{one.replace('.', '/')}.py" for one in ran)
            found = acts.installs(command) if is_here else None
            yield from (one.text for one in found.lists) if found is not None else ()


def _lists(text: str) -> Iterator[str]:
    """Yield the names in a text of files that may be lists of requirements."""
    if _LIST_SUFFIX.search(text) is not None:
        names = (one.rstrip(".") for one in _FILE_NAME.findall(text))
        yield from (one for one in names if _LIST_SUFFIX.search(one))


def _requires(module: PythonModule, root: str) -> bool:
    """Whether code requires or installs one of the libraries."""
    if root == OLD_ROOT:
        return OLD_ROOT in module.text.lower() and pm403_setup.requires(module)
    return _REQUIRED.search(module.text) is not None and any(
        one.tool is not None
        for string in module.scopes.nodes[ast.Constant]
        if NEW_ROOT in str(string.value)
        for one in required_in(module, string, NEW_ROOT)
    )
