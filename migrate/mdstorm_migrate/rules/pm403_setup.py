"""PM403: ``setup.py``, ``setup.cfg`` and other INI files."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements
from mdstorm_migrate.packaging.factors import report_factors
from mdstorm_migrate.packaging.ini_text import requirement_lines
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.origins import other_origins
from mdstorm_migrate.packaging.own_extras import lost_with
from mdstorm_migrate.packaging.requirement import (
    find_requirements,
    is_requirement,
    is_versioned,
)
from mdstorm_migrate.packaging.rewriting import (
    of_fork,
    requirement_of,
    rewrite_requirement,
    verdict,
)
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.string_lists import is_list_of_packages, lists_requirements
from mdstorm_migrate.packaging.tool_settings import tool_settings
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.archives import shipped_library
from mdstorm_migrate.python.call_strings import is_docstring
from mdstorm_migrate.python.formed import formed_text
from mdstorm_migrate.python.literals import inner_span, string_value
from mdstorm_migrate.python.module import PythonModule
from mdstorm_migrate.python.required import (
    is_in_list,
    is_required,
    is_written,
    read_as,
    read_from_list,
)
from mdstorm_migrate.python.resolved import anchored, is_path

CODE = "PM403"
TITLE = "setup.py and setup.cfg name mdstorm"
CLASS: Class = "exact"
KIND = ("python", "setup_cfg")

#: The channel of a package of conda's, as in ``conda-forge::petastorm``.
_CHANNEL = re.compile(r"^[\w-]+::")
_PINNED = re.compile(rf"(?<![\w./-]){OLD_ROOT}(?:\[[^\]]*\])?[ ]?[=<>~!]=")
_COMMANDS = re.compile(r"\binstall\b")
_FROM_REPOSITORY = re.compile(r"(?:git|hg|svn)\+|\S+#egg=")
#: Names of what runs commands.
_RUNS = re.compile(
    r"(?i:subprocess|popen|system|shell|install|command|script|docker|operator|check_(?:call|output))"
    r"|^(?:run|call|exec|spawn|ssh|sh|cmd)(?:_|$|[A-Z])"
)
_WHAT = "this string names Petastorm as a package to install"
_REMEDY = f"{_WHAT}: name mdstorm, which has versions of its own"
#: A requirement in JSON within a string, as sparkmagic's ``%%configure`` has it.
_IN_JSON = re.compile(
    r"""[:,\[]\s*(?P<quote>["'])(?:[^"'\n]*,\s*)?petastorm(?:\[[^\]\n]*\])?\s*[=<>~!]=[^"'\n]*(?P=quote)"""
)


def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a ``setup.py`` or of an INI file."""
    if isinstance(module, PythonModule):
        is_setup = module.document.path is not None and module.document.path.name == "setup.py"
        yield from _strings(module) if is_setup else _installs(module)
    else:
        yield from _of_ini(module)


@with_installs
def _of_ini(module: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of an INI file."""
    text = module.text
    settings = [(one.start, one.stop) for one in tool_settings(module)]
    lines = [
        line
        for line in requirement_lines(text)
        if is_requirement(line["requirement"])
        # others are of a tool that names modules
        and not any(start <= line.start("requirement") < stop for start, stop in settings)
    ]
    for line in lines:
        for found in find_requirements(text, *line.span("requirement")):
            yield from rewrite_requirement(module, found, CODE, "ini")
    yield from report_factors(module, lines, CODE)
    yield from rewrite_commands(module, CODE)
    yield from rewrite_runs(module, CODE)


def _strings(module: PythonModule) -> Iterator[Edit | Finding]:
    """Yield the edits of requirements among the strings of a ``setup.py``.

    They may be put together in any way, so a string counts that is one by its form: in a list, or
    with a version or an extra.
    """
    seen: set[ast.expr] = set()
    origins = {one: _repository(str(one.value)) for one in module.scopes.strings}
    is_fork = any(origins.values())  # as in `dependency_links`
    for node in ast.walk(module.tree):
        if not (isinstance(node, ast.Constant) and isinstance(node.value, str)):
            continue
        formed = formed_text(node, module.scopes.parents) if OLD_ROOT in node.value else None
        if formed is None and is_requirement(node.value) and inner_span(module, node) is None:
            formed = node, node.value  # in several pieces, or with escapes
        if formed is not None:
            yield from () if formed[0] in seen else _of_formed(module, *formed)
            seen.add(formed[0])
            continue
        if (origin := origins.get(node)) is not None:
            yield Finding(CODE, "manual", *module.span(node), origin.message, origin.remedy)
            continue
        if OLD_ROOT in node.value and _is_told(module, node):
            yield Finding(CODE, "manual", *module.span(node), _WHAT, _REMEDY)
            continue
        if not is_requirement(node.value) or "\n" in node.value:
            continue
        if is_in_list(module, node) or is_versioned(node.value):
            for found in find_requirements(module.text, *module.span(node)):
                marker = _marker_above(module, node)
                edits = rewrite_requirement(module.document, found, CODE, "string", marker)
                yield from [of_fork(found, CODE)] if is_fork else edits


def _marker_above(module: PythonModule, node: ast.AST) -> str:
    """Return the marker in the name of an extra, as in ``{":python_version<'3.10'": [...]}``."""
    for child, parent in pairwise([node, *module.ancestors(node)]):
        if isinstance(parent, ast.Dict) and child in parent.values:
            key = string_value(parent.keys[parent.values.index(child)]) or ""
            if ":" in key:
                return f";{key.partition(':')[2]}"
    return ""


def _repository(value: str) -> Finding | None:
    """Return what is said of a string that names a repository of Petastorm; None of others."""
    return next(other_origins(value, CODE), None) if _FROM_REPOSITORY.match(value) else None


def _is_told(module: PythonModule, node: ast.Constant) -> bool:
    """Whether a string requires Petastorm in a way that is left to people.

    It lists several requirements, or has a name that requirements are made of.
    """
    value = str(node.value)
    if value == OLD_ROOT:
        made = ((one, module.source_of(one)) for one in read_as(module, node))
        return any(is_in_list(module, one) or is_versioned(source) for one, source in made)
    return lists_requirements(module, node)


def _of_formed(module: PythonModule, node: ast.expr, text: str) -> Iterator[Edit | Finding]:
    """Yield what becomes of a requirement that is put together, such as ``"petastorm==" + V``."""
    document, needs = module.document, module.document.needs
    for found in find_requirements(text) if is_requirement(text) else ():
        beside = lost_with(needs.beside, found.extras)
        if found.is_fork or text[found.stop :].strip() or needs.importers or beside:
            yield Finding(CODE, "manual", *module.span(node), _WHAT, _REMEDY)
        else:
            cls, message = verdict(document)
            new = f'"{requirement_of(document, found.extras)}"'
            yield Edit(CODE, cls, *module.span(node), new, message, topic="install")


def _installs(module: PythonModule) -> Iterator[Finding]:
    """Yield a finding for each string that requires or installs Petastorm, but for docstrings."""
    for string in module.scopes.strings:
        value = str(string.value)
        formed = formed_text(string, module.scopes.parents) if OLD_ROOT in value else None
        if formed is not None:
            value = formed[1]
        if is_docstring(module, string) or _is_anchor(module, string):
            continue
        value = _CHANNEL.sub("", value)
        is_of_conda = re.fullmatch(r"petastorm=[\d.*]+", value) is not None
        pinned = is_of_conda or (is_requirement(value) and is_versioned(value))
        installs = value == OLD_ROOT and _is_installed(module, string)
        # Commands may go without their first word: ``run_line_magic("pip", "install petastorm")``.
        command = f"pip {value}" if value.startswith("install ") else value
        in_command = any(command_requirements(command)) or any(other_origins(value, CODE))
        in_command = in_command and shipped_library(value) is None  # PM103 has those
        in_list = is_required(module, string)
        is_list = in_list or is_written(module, string) or _PINNED.search(value)
        lists = is_list and lists_requirements(module, string, words=in_list)
        lists = lists or is_list_of_packages(module, string)
        if in_command and not (pinned or installs or lists) and _is_data(module, string):
            yield Finding(CODE, "note", *module.span(string), _WHAT)
        elif pinned or installs or lists or in_command or _IN_JSON.search(value):
            yield Finding(CODE, "manual", *module.span(string), _WHAT, _REMEDY)


def _is_installed(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a name is installed where it stands, or where it is read."""
    if is_required(module, string):
        return True
    reads = list(read_as(module, string))
    if not is_path(module, string):  # PM103 has those
        reads += read_from_list(module, string)
    made = (module.source_of(one) for one in reads if not isinstance(one, ast.Name))
    return any(is_required(module, one) for one in reads) or any(map(_COMMANDS.search, made))


def _is_anchor(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the package of a relative import, such as ``load(".x", package=…)``."""
    parent = module.scopes.parents.get(string)
    call = module.scopes.parents.get(parent) if isinstance(parent, ast.keyword) else None
    first = call.args[:1] if isinstance(call, ast.Call) else []
    is_relative = any((string_value(one) or "").startswith(".") for one in first)
    return is_relative or anchored(module, string) is not None


def _is_data(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a command stands in a table of a file that neither uses Petastorm nor runs any."""
    table = module.scopes.parents.get(string)
    if not isinstance(table, ast.List | ast.Tuple | ast.Set | ast.Dict):
        return False
    is_given = isinstance(module.scopes.parents.get(table), ast.keyword | ast.Call)
    names = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(module.tree))
    is_run = any(isinstance(name, str) and _RUNS.search(name) for name in names)
    return not (is_given or is_run or OLD_ROOT in module.imported_roots)
