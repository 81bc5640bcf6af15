"""Facts: what the bytes of a file show by themselves, the same before and after its migration.

`run.uses` knows what a file uses, and `run.installing` what it installs. `run.project` relates the
facts of all files to each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from mdstorm_migrate.base.document import (
    DATABRICKS_HEADER,
    DecodedFile,
    Document,
    DocumentKind,
    TextSegment,
    is_setup_script,
)
from mdstorm_migrate.packaging.commands import commands_in, libraries_run
from mdstorm_migrate.packaging.parts import parts_of
from mdstorm_migrate.packaging.words import COMMANDS
from mdstorm_migrate.petastorm.attributes import CONVERTER_FILES, UNMISTAKABLE
from mdstorm_migrate.petastorm.names import CONVERTER_METHODS, NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.calls import RESOLVING
from mdstorm_migrate.python.links import DISTRIBUTIONS, Links
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.run.discover import CODE, is_code
from mdstorm_migrate.run.imports import TEST
from mdstorm_migrate.run.installing import (
    LISTS,
    RUNNING,
    folders_in,
    installation_of,
    lists_in,
    paths_in,
    requires,
)
from mdstorm_migrate.run.old_pyarrow import may_be_old
from mdstorm_migrate.run.parsing import Parsed, parsed
from mdstorm_migrate.run.seen import Seen, seen_in
from mdstorm_migrate.run.uses import (
    ROOTS,
    extras_for,
    imported_by,
    imported_in,
    is_given_session,
    links_in,
    named_in,
    needed_for,
    patched_in,
    shared_by,
    shared_in,
)
from mdstorm_migrate.sources import read_file
from mdstorm_migrate.sources.plain import kind_of

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
#: Strings that identify code for Databricks, which provides Spark; and scripts and definitions.
_CODE_FOR_DATABRICKS = (b"dbutils.", b"application/vnd.databricks", b"databricks.sdk.runtime")
_FOR_DATABRICKS = (
    *(b"/databricks/", b"spark_version"),
    *(b"environment_key", b"existing_cluster_id", b"task_key"),
)
#: Names of files that describe an environment, in addition to lists and files with commands.
_ENVIRONMENT = frozenset({".python-version", "runtime.txt", "setup.py"})
#: The name of a Python file in a string.
_SCRIPT_NAME = re.compile(r"\.py(?<=\w\.py)[\"'\s]")
#: An argument for what launches code with the version of Python that it names.
_LAUNCHES = "py_version"
#: Words in files that may install a list without mentioning either library.
_INSTALLING = (b"install", b"env create", b"env update")


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
        What its commands run of Petastorm that mdstorm also has: scripts and modules; and either
        library itself for code in a command, which may only check what is installed.
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
    is_parsed = is_old or is_installing or is_setup_script(path)
    if known is None and (is_parsed or any(word in data for word in _PARSED)):
        known = parsed(path, data)
    file = _file(path, data, known)
    before = before or _linked(path, data, known, file)
    imports = frozenset(imported_in(path, text, known, before.links))
    needs = frozenset(needed_for(path, imports))
    makes_loaders = path.suffix in CODE and any(f".{one}(" in text for one in CONVERTER_METHODS)
    marks = _CODE_FOR_DATABRICKS if is_code(path) else _FOR_DATABRICKS
    modules = known.modules if known is not None else ()
    describing = _describing(file, before.is_installing)
    kind = before.kind or kind_of(path)
    is_list = known is not None or kind in LISTS or is_setup_script(path)
    installation = installation_of(path, describing, kind, modules) if is_list else {}
    if is_list and modules and describing and all(one.kind == "python" for one in describing):
        # The name in another string, such as a description, requires nothing.
        roots = {root for root in ROOTS if any(requires(one, root) for one in modules)}
        for name in ("installs", "beside"):
            installation[name] = installation[name] - ({*ROOTS} - roots)
    if not is_list and before.seen.versions:  # it may describe where a list is installed
        installation["paths"] = frozenset(paths_in(describing))
        installation["folders"] = frozenset(folders_in(describing))
    whole = replace(
        before,
        makes_loaders=makes_loaders,
        names_script=is_code(path) and bool(needs) and _SCRIPT_NAME.search(text) is not None,
        imports=imports,
        needs=needs,
        extras=frozenset(extras_for(text, imports, modules) if needs or makes_loaders else ()),
        patched=frozenset(patched_in(known)),
        on_databricks=data.startswith(DATABRICKS_HEADER) or any(one in data for one in marks),
        builds_session="SparkSession.builder" in text,
        shared=frozenset(shared_in(known.file.documents, modules) if known else ()),
        lists=frozenset(lists_in(text)),
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
            imports = frozenset(imported_in(path, text, known, whole.links, parts[1:]))
            yield replace(whole, imports=imports, needs=frozenset(needed_for(path, imports)))
            continue
        piece = Document(document.kind, [TextSegment(text)], path)
        imports = frozenset(named_in(piece))
        if known.modules:
            imports |= {*libraries_run(text, commands_in(piece))}
        if part.function is not None:
            text += document.text[slice(*known.modules[0].span(part.function))]
            imports |= {*imported_by(part.function, text)}
        needs = frozenset(needed_for(path, imports))
        own = replace(
            whole,
            imports=imports,
            needs=needs,
            extras=frozenset(extras_for(text, imports, known.modules) if needs else ()),
            shared=frozenset(shared_by(piece)),
            name=part.name,
            above=part.above,
            is_direct=part.is_direct,
            **installation_of(path, [piece], whole.kind),
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
        requires(module, root) for module in modules for root in ROOTS
    )
    is_whole = known is not None and len(file.documents) == 1
    is_distinct = is_code(path) and any(one in text for one in _DISTINCT)  # faster
    links, is_test = links_in(path, text, known), TEST.fullmatch(path.stem) is not None
    return Facts(
        kind=file.documents[0].kind if is_whole else None,
        links=links,
        fixtures=frozenset(_fixtures(text, links) if path.stem == "conftest" else ()),
        parameters=frozenset(_WORD_OF_CODE.findall(" ".join(_PARAMETERS.findall(text))))
        if is_test and path.suffix == ".py"
        else frozenset(),
        is_installing=is_installing,
        is_given_session=is_given_session(known),
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
