"""PM001: lines that still mention Petastorm and are not reported by any other rule."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from mdstorm_migrate.base.document import WRITTEN, Document
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging.comments import ANY, SQL, is_commented_out
from mdstorm_migrate.petastorm.names import OLD_ROOT, REST_OF_KEY
from mdstorm_migrate.python.calls import is_docstring
from mdstorm_migrate.python.module import PythonModule, dotted, last_name, string_value
from mdstorm_migrate.rules.rule import rule

CODE = "PM001"

#: The library's name, even before a version or in a pattern, and the names of its version, scripts
#: and files; but not the library's name within one of the user's own names, an address, or a path
#: other than that of an installation or a label of Bazel.
_MENTION = re.compile(
    rf"""(?:(?<![\w/\\.$-])(?<!\w@)|(?<=\\b)|(?<=\bp\.)|(?<=\bs/)
      |(?<=\w//)|(?<=-packages/)){OLD_ROOT}
      (?!{REST_OF_KEY}|\w|(?<!-packages/{OLD_ROOT})/|\\(?!\.|b(?!\w))|-[a-z])
    | (?<![\w.-]){OLD_ROOT}-[a-z-]+\.py\b
    | \b{OLD_ROOT}_version\b
    | \bPYTHONPATH\b[^\n]*{OLD_ROOT}
    | (?<![a-z0-9]){OLD_ROOT}(?!_?[a-z])[^\s"'`,;]{{0,80}}\.(?:git|gz|whl|zip)\b""",
    re.IGNORECASE | re.VERBOSE,
)
#: Commands that Petastorm installs.
_SCRIPT = re.compile(rf"(?<![\w.-]){OLD_ROOT}-[a-z-]+\.py\b", re.IGNORECASE)
#: An import in a docstring example.
_EXAMPLE = re.compile(rf">>> *(?:from|import) +{OLD_ROOT}\b")
#: A requirement that is commented out, and that someone may restore.
_COMMENTED = re.compile(
    rf"""[ \t]*\#[ \t]*(?:-[ \t]+)?["']?{OLD_ROOT}(?:\[[^\]\n]*\])?[ \t]*[=<>~!]=""", re.IGNORECASE
)
#: Arguments of command definitions that contain help texts.
_HELP = frozenset({"description", "epilog", "help"})
#: Maximum number of lines reported in a file other than Python; further lines are only counted.
_LIMIT = 10
#: Maximum number of characters shown for a line.
_WIDTH = 80


@rule(CODE, "Lines that still mention Petastorm", "note", *WRITTEN, "text")
def check(module: PythonModule | Document) -> Iterable[Finding]:
    """Yield a note for each mention; the run drops notes on lines that have another finding."""
    if isinstance(module, PythonModule):
        return _in_python(module)
    return _in_text(module)


def _in_python(module: PythonModule) -> Iterator[Finding]:
    for string in module.scopes.strings:
        parent = module.scopes.parents.get(string)
        whole = parent if isinstance(parent, ast.JoinedStr) else string
        pattern = _EXAMPLE if is_docstring(module, string) else _MENTION
        if _is_help(module, whole):
            pattern = _SCRIPT
        if not _is_marker(module, string):
            for found in pattern.finditer(module.text, *module.span(whole)):
                yield _note(module.document, *found.span())
    for node in module.scopes.nodes[ast.Attribute]:
        if node.attr == OLD_ROOT and _is_module(module, node.value):
            _, stop = module.span(node)
            yield _note(module.document, stop - len(OLD_ROOT), stop)
    for statement in module.scopes.nodes[ast.ImportFrom]:
        for one in statement.names:
            if one.name == OLD_ROOT:
                yield _note(module.document, *module.span(one))


def _is_module(module: PythonModule, owner: ast.expr) -> bool:
    """Whether `owner` may be a module that imports the library, as in ``compat.petastorm``."""
    found = dotted(owner)
    if found is None or last_name(owner) == "mark":  # pytest's attribute for markers
        return False
    bindings = module.bindings(found[0].id, module.scope_of(found[0]))
    return not bindings or any(isinstance(one.node, ast.alias) for one in bindings)


def _is_marker(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a pytest marker, whose name is the user's own."""
    call = module.scopes.parents.get(string)
    is_line = isinstance(call, ast.Call) and last_name(call.func) == "addinivalue_line"
    return is_line and string_value(call.args[0]) == "markers"  # type: ignore[union-attr]


def _is_help(module: PythonModule, string: ast.AST) -> bool:
    """Whether a string is a command's help text."""
    word = module.scopes.parents.get(string)
    return isinstance(word, ast.keyword) and word.arg in _HELP


def _in_text(document: Document) -> Iterator[Finding]:
    lines: dict[int, tuple[int, int]] = {}
    is_sql = document.path is not None and document.path.suffix.lower() == ".sql"
    for mention in _MENTION.finditer(document.text):
        at, line = mention.start(), document.lines.start_of(mention.start())
        marks = (ANY, SQL) if is_sql else (ANY,)
        is_comment = any(is_commented_out(document.text, at, mark) for mark in marks)
        if not is_comment or _COMMENTED.match(document.text, line):
            lines.setdefault(line, mention.span())
    spans = list(lines.values())
    yield from (_note(document, *span) for span in spans[:_LIMIT])
    if spans[_LIMIT:]:
        what = f"{len(spans) - _LIMIT:,} more lines mention Petastorm; check whether they should"
        yield Finding(CODE, "note", *spans[_LIMIT], what)


def _note(document: Document, start: int, stop: int) -> Finding:
    line = document.text[document.lines.start_of(start) : stop + _WIDTH].splitlines()[0].strip()
    shown = line if len(line) <= _WIDTH else line[:_WIDTH].rstrip() + " …"
    what = f"still mentions Petastorm; check whether it should: {shown}"
    return Finding(CODE, "note", start, stop, what)
