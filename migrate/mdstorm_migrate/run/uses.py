"""What a file uses: what it imports, configures and runs, and which libraries that needs.

What code imports is found in its statements by `python.links`, or in text that is not parsed by
`run.imports`; this module adds what it imports by name, configures and runs.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path

from mdstorm_migrate.base.document import Document, DocumentKind, is_setup_script
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.mosaicml.names import FRONT
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import commands_in, libraries_run, runs, runs_in_string
from mdstorm_migrate.packaging.configuration import TARGETS, dotted_values
from mdstorm_migrate.packaging.parts import DocumentPart
from mdstorm_migrate.packaging.strings import commands_of_string, is_module_run
from mdstorm_migrate.packaging.words import COMMANDS
from mdstorm_migrate.petastorm.names import (
    NEW_ROOT,
    NEW_SCRIPTS,
    OLD_ROOT,
    is_configured,
    is_known,
    is_within,
    words,
)
from mdstorm_migrate.python.calls import PATCHING, RESOLVING, is_docstring, resolved_as
from mdstorm_migrate.python.links import Links, all_imports, dotted_import, links_of, resolves
from mdstorm_migrate.python.module import PythonModule, inner_span, string_value
from mdstorm_migrate.python.shadow import is_in_project
from mdstorm_migrate.rules import pm414_settings
from mdstorm_migrate.rules.string_uses import FIND_CLASS
from mdstorm_migrate.rules.versions import looked_up
from mdstorm_migrate.run.discover import CODE, is_code
from mdstorm_migrate.run.imports import configured_imports, text_imports
from mdstorm_migrate.run.parsing import Parsed

#: The two libraries that code uses.
ROOTS = (OLD_ROOT, NEW_ROOT)
#: What imports Petastorm itself: Horovod's Spark estimators, and the examples in Petastorm's wheel.
_THROUGH = words(
    "horovod.spark.keras horovod.spark.torch horovod.spark.lightning horovod.spark.common.store "
    "horovod.spark.common.estimator horovod.spark.common.backend examples.hello_world "
    "examples.imagenet examples.mnist examples.spark_dataset_converter"
)
_THROUGH_ROOTS = {one.partition(".")[0] for one in _THROUGH}
#: An import of one of the libraries in code that cannot be parsed.
_UNPARSED = re.compile(rf"^[^#\n]*\b(?:from|import)[ \t]+({'|'.join(ROOTS)})\b", re.MULTILINE)
#: A string that may be the name of a module to import, or of a part of one of the libraries.
_NAMES_MODULE = re.compile(rf"\b(?:{'|'.join(sorted(RESOLVING))})\b[^\n]*[\"']")
_ALLOWED = re.compile(rf"[\"']{OLD_ROOT}(?:\.\w*)*[\"']")
_NAMES_PART = re.compile(rf"[\"'](?:{'|'.join(ROOTS)})\.")
#: An import by R's reticulate, which has the environment of the project's Python.
_IMPORTED_IN_R = re.compile(rf"^[^#\n]*\bimport\([\"']{OLD_ROOT}\b", re.MULTILINE)
#: What a string contains that runs a command or module of Petastorm.
_COMMAND_OF_PETASTORM = re.compile(rf"-(?:(?<=\b{OLD_ROOT}-)|[cm][^\n]*{OLD_ROOT}\b)")
#: Code that uses pandas without importing it.
_USES_PANDAS = ("TransformSpec", "toPandas", "to_pandas", "pandas_udf", "InPandas")
#: Kinds of files in which code is configured.
_CONFIGURED: frozenset[DocumentKind] = frozenset({"cluster", "conda", "text"})


def links_in(path: Path, text: str, known: Parsed | None) -> Links:
    """Return what links a file to others: its imports, and the names that configuration has."""
    if path.suffix not in CODE:
        return Links(tuple(configured_imports(text)))
    if known is None:
        return Links(tuple(text_imports(text)), resolves=resolves(text))
    return next(map(links_of, known.modules), Links())


def imported_in(
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
        yield from named_in(document)


def _used_pandas(text: str) -> Iterator[str]:
    yield from ["pandas"] if any(one in text for one in _USES_PANDAS) else []


def imported_by(function: ast.FunctionDef, text: str) -> Iterator[str]:
    """Yield the dotted names that a function imports itself."""
    yield from _used_pandas(text)
    yield from (dotted_import(one) for one in all_imports(ast.walk(function)) if not one.level)


def named_in(document: Document) -> Iterator[str]:
    """Yield the dotted names that a document other than code configures, and what it runs."""
    if document.kind in _CONFIGURED:
        for root in (*ROOTS, FRONT):
            values = dotted_values(document.text, root)
            names = (one for key, one, _, _ in values if key in TARGETS or is_configured(key, one))
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
    is_in_r = document.kind in ("other", "text")
    is_kept |= is_in_r and _IMPORTED_IN_R.search(document.text) is not None
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


def shared_in(documents: Iterable[Document], modules: Iterable[PythonModule]) -> Iterator[str]:
    """Yield what commands run of Petastorm that mdstorm also has."""
    yield from chain.from_iterable(shared_by(one) for one in documents if one.kind in COMMANDS)
    for module in modules:
        for string in _commands(module):
            text, ran = str(string.value), _run_by(module, string)
            yield from (text[one.start : one.stop] for one in ran if isinstance(one, Edit))


def shared_by(document: Document) -> Iterator[str]:
    """Yield what commands in a document run of Petastorm that mdstorm also has."""
    text, commands = document.text, commands_in(document)
    for one in runs(text, "", commands):
        yield from [text[one.start : one.stop]] if isinstance(one, Edit) else []
    ran = chain.from_iterable(map(acts.runs, commands))
    is_moved = any(one.kind == "code" and NEW_ROOT in one.word.text for one in ran)
    yield from [NEW_ROOT] if is_moved else []


def needed_for(path: Path, imports: frozenset[str]) -> Iterator[str]:
    """Yield the libraries that must be installed for what a file imports."""
    roots = {one.partition(".")[0] for one in imports}
    yield from (root for root in ROOTS if root in roots)
    for through in _THROUGH if not roots.isdisjoint(_THROUGH_ROOTS) else ():
        is_imported = any(is_within(one, through) for one in imports)
        if is_imported and not is_in_project(path, *through.split(".")):
            yield OLD_ROOT


def patched_in(known: Parsed | None) -> Iterator[str]:
    """Yield the libraries whose parts code replaces by their dotted names."""
    for module in known.modules if known is not None else ():
        if any(word in module.text for word in PATCHING) and _NAMES_PART.search(module.text):
            for string in module.scopes.nodes[ast.Constant]:
                root = str(string.value).partition(".")[0]
                if root in ROOTS and resolved_as(module, string) == "patched":
                    yield root


def is_given_session(known: Parsed | None) -> bool:
    """Whether code uses a session `spark` that it does not create."""
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


def extras_for(
    text: str, imports: frozenset[str], modules: Sequence[PythonModule]
) -> Iterator[str]:
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
