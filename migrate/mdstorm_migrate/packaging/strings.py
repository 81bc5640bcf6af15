"""Requirements in the strings of code, and what takes them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from typing import Literal, NamedTuple

from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import LISTED, installed
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_addresses,
    is_versioned,
    requirements_at,
)
from mdstorm_migrate.packaging.rewriting import RequirementPlace
from mdstorm_migrate.packaging.words import Command, Word, shell, split, unescaped, word_in_code
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.calls import is_docstring, words_before
from mdstorm_migrate.python.module import PythonModule, inner_span, last_name, string_value
from mdstorm_migrate.python.reads import reads, reads_of_value

#: Arguments, keys and functions that take requirements for pip to install, also as a single string.
#: A string that is not in one of them, or in a command, is reported and left.
_PIP = frozenset(
    [
        *("install_requires", "setup_requires", "tests_require", "extras_require"),  # setup()
        *("PipInstall()", "PythonPyPiLibrary()", "add_pip_package()", "installPyPI()"),
        *("install()", "install_pypi_package()", "pip_install()", "uv_pip_install()"),
        *("session.install()", "micropip.install()"),
        *("dependencies", "packages_to_install", "pip", "pip_packages", "pypi", "requirements"),
        "pypiPackage",
        *("extra_pip_requirements", "pip_requirements"),  # MLflow
    ]
)
#: Those of them whose values may also be names of tasks or plugins, if they have no version.
_ALSO_OTHERS = ("dependencies", "install()")
#: The same for conda.
_CONDA = frozenset({"conda_install()", "conda_packages"})
#: The argument of ``setup()`` with what is always installed.
_ALWAYS = "install_requires"
_CONDA_COMMAND = re.compile(r"(?:.*/)?(?:conda|mamba|micromamba)")
#: What a command does to packages; the first one may also stand alone, as in ``pip.main([…])``.
_VERBS = ("install", "add", "download", "wheel")
_PIP_COMMAND = re.compile(r"pip|\buv\b|poetry|\bpdm\b|python")
_ADDRESS = re.compile(r"git\+")
#: A version in a dictionary of packages and versions.
_VERSION = re.compile(r"[=<>~^]*\d[\w.*]*")
_LISTS = (ast.List, ast.Tuple, ast.Set)


class InString(NamedTuple):
    """A requirement in a string of code.

    Attributes
    ----------
    requirement : Requirement
        With its span in the document; that of the string's literal if `tool` is None.
    place : RequirementPlace
    tool : {"pip", "conda"} or None
        What installs it; None if nothing is known to, or it is not written as one piece.
    is_message : bool
        Whether the string only tells a person what to install, or is compared with such a text.
    """

    requirement: Requirement
    place: RequirementPlace
    tool: Literal["pip", "conda"] | None
    is_message: bool = False


def is_module_run(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is the module that an interpreter, or a launcher of modules, runs."""
    before = [string_value(one) or ast.unparse(one) for one in words_before(module, string)]
    return before[-1:] == ["-m"] and acts.runs_modules(before[:-1])


def commands_of_string(
    module: PythonModule, string: ast.Constant, *, is_placed: bool = False
) -> Sequence[Command]:
    """Return the commands in a string of code, or the one of which it is a word.

    Positions are those in its value, or in the document if it is placed.
    """
    span = inner_span(module, string) if is_placed else None
    text, at = (str(string.value), 0) if span is None else (module.text[slice(*span)], span[0])
    rest = tuple(Word(one, -1) for one in _words_after(module, string))
    if re.search(r"\s", text):
        commands = list(split(unescaped(text), at))
        if commands and rest:
            commands[-1] = replace(commands[-1], words=(*commands[-1].words, *rest))
        return commands
    parent = module.scopes.parents.get(string)
    items = parent.args if isinstance(parent, ast.Call) else getattr(parent, "elts", ())
    if string not in items:
        return [Command((Word(text, at), *rest), at + len(text))]
    words = (Word(text, at) if one is string else Word(word_in_code(one), -1) for one in items)
    return [Command(tuple(words), at + len(text))]


def _words_after(module: PythonModule, string: ast.Constant) -> Iterator[str]:
    """Yield the words of the strings that are added to a string."""
    node: ast.AST = string
    while isinstance(above := module.scopes.parents.get(node), ast.BinOp):
        added = ast.walk(above.right) if above.left is node else ()
        yield from (word for one in added for word in (string_value(one) or "").split())
        node = above


def required_in(
    module: PythonModule, string: ast.Constant, name: str = OLD_ROOT
) -> Iterator[InString]:
    """Yield the requirements for a distribution in a string, except a docstring.

    The name is a pattern. A name alone counts only where something takes it.
    """
    value, span = str(string.value), inner_span(module, string)
    parent = module.scopes.parents.get(string)
    if is_docstring(module, string):
        return
    place: RequirementPlace = "string"
    tool: Literal["pip", "conda"] | None = "pip"
    is_message = False
    if _ADDRESS.match(value):
        requirements = list(find_addresses(value, name=name))
    elif commands := list(installed(value, shell(value), name)):
        requirements = [one for _, one in commands]
        by = commands[0][0]
        place = LISTED.get(by, "word")
        tool = "pip" if by in LISTED else "conda" if by == "conda" else None
        if is_message := _is_message(module, string):
            requirements = [one for one in requirements if _FIRST.search(value, 0, one.start)]
    else:
        requirements, tool = list(_lines(value, name)), _tool(module, string)
        # An address is the argument of another command, or of what a message is about.
        if any(map(acts.installs, shell(value))) or _is_message(module, string):
            requirements = [one for one in requirements if not one.is_copy]
        if _is_pinned_key(module, string):
            tool = None
        elif tool is None and not is_versioned(value):
            return
    is_verbatim = span is not None and module.text[slice(*span)] == value
    is_whole = is_verbatim and not any(_is_joined(module, one) for one in _copies(module, string))
    for one in requirements:
        # The rest of a pattern, such as `\[torch\]`, would have to change as well.
        is_open = is_message and value.startswith("\\", one.stop)
        if span is None or tool is None or is_open or not is_whole:
            start, stop = module.span(string)
            yield InString(replace(one, start=start, stop=stop), place, None)
            return
        at = replace(one, start=span[0] + one.start, stop=span[0] + one.stop)
        if place == "string" and "\n" in value:
            place = "line"
        elif place == "string" and isinstance(parent, ast.Call) and _command(parent) is None:
            place = "alone"  # most functions accept a single requirement
        yield InString(at, place, tool, is_message)


#: What precedes a requirement in a message: more words between would be a sentence.
_FIRST = re.compile(
    r"""\binstall[ ]+(?:-\S+[ ]+)*(?:[\w.\[\]<>=-]+[ ]+)?["'`]?\Z""",
    re.VERBOSE,
)
#: Functions that show a text, or test one.
_SHOWING = frozenset(
    [
        *("critical", "debug", "echo", "error", "exception", "exit", "fail", "info", "log"),
        *("print", "skip", "warn", "warning", "compile", "fullmatch", "match", "search"),
        *("assertIn", "assertNotIn", "assertRegex", "assertNotRegex"),
        *("assertRaisesRegex", "assertWarnsRegex"),
    ]
)


def _is_message(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string with a command is shown or raised, or compared with such a text."""
    return any(_is_shown(module, one, str(string.value)) for one in _copies(module, string))


def _is_shown(module: PythonModule, node: ast.AST, value: str) -> bool:
    for above in module.ancestors(node):
        match above:
            case ast.Raise() | ast.keyword(arg="match" | "msg" | "reason"):
                return True
            case ast.Compare(ops=[ast.In() | ast.NotIn()]):
                return True
            case ast.Compare():
                return _PIP_COMMAND.search(value.split()[0]) is None
            case ast.Call(func=function) if last_name(function) in _SHOWING:
                return True
            case ast.Call(func=function) if last_name(function) not in _SAME:
                return isinstance(module.scopes.parents.get(above), ast.Raise)
            case ast.stmt():
                return False
    return False


def _is_joined(module: PythonModule, node: ast.AST) -> bool:
    """Whether a string becomes a part of a longer one, as in ``"%s==%s" % (name, version)``."""
    match module.scopes.parents.get(node):
        case ast.BinOp() | ast.FormattedValue():
            return True
        case ast.List() | ast.Tuple() as words:
            match module.scopes.parents.get(words):
                case ast.BinOp(op=ast.Mod()):
                    return isinstance(words, ast.Tuple)
                case ast.Call(func=ast.Attribute(ast.Constant(str(mark)), "join")):
                    return bool(mark.strip())  # ``"==".join(["petastorm", VERSION])``
        case ast.Call(func=function):
            return last_name(function) == "format"
    return False


def _whole(module: PythonModule, node: ast.AST) -> ast.AST:
    """Return the expression that a string is a part of, as ``"petastorm==" + VERSION``."""
    parents = module.scopes.parents
    while _is_joined(module, node) or isinstance(parents.get(node), ast.JoinedStr | ast.IfExp):
        node = parents[node]
        if isinstance(node, ast.List | ast.Tuple):  # the words that `join` or ``%`` joins
            node = parents[node]
    return node


def _copies(module: PythonModule, node: ast.AST) -> Iterator[ast.AST]:
    """Yield an expression and, if it is assigned to a variable, the reads of the variable."""
    yield node
    yield from reads_of_value(module, node)


def _lines(value: str, name: str) -> Iterator[Requirement]:
    """Yield the requirements in a string that is one, or has one on each line."""
    for line in re.finditer(r"[^\n]+", value):
        yield from islice(requirements_at(value, *line.span(), name), 1)


def _tool(module: PythonModule, string: ast.Constant) -> Literal["pip", "conda"] | None:
    """Return what installs a string that is a requirement, ``pip`` or ``conda``, or None."""
    parent = module.scopes.parents.get(string)
    for word in (_whole(module, one) for one in _copies(module, string)):
        command = _command(module.scopes.parents.get(word))
        if command is not None:
            before = words_before(module, word)
            is_value = bool(before) and acts.takes_value(string_value(before[-1]) or "")
            return command if command != "other" and not is_value else None
    siblings = parent.elts if isinstance(parent, _LISTS) else []
    is_beside_pip = any(isinstance(one, ast.Dict) for one in siblings)  # `- pip: […]`
    for name in _takers(module, string):
        if name in _CONDA or (name in _PIP and is_beside_pip):
            return "conda"
        if name in _PIP:
            return "pip" if name not in _ALSO_OTHERS or is_versioned(str(string.value)) else None
    return None


def grouped_lines(module: PythonModule) -> Iterator[tuple[str, str]]:
    """Yield the lines of the strings in a ``setup.py``, each with the group that it belongs to.

    The group is empty for what is always installed, and for what nothing is known to take.
    """
    for string in module.scopes.nodes[ast.Constant]:
        if isinstance(string.value, str):
            takers = [*_takers(module, string)]
            group = "" if _ALWAYS in takers else "/".join(takers)
            yield from ((group, line) for line in string.value.splitlines())


def _is_pinned_key(module: PythonModule, string: ast.Constant) -> bool:
    """Whether a string is a key of packages and versions: ``packages={"petastorm": "0.12"}``."""
    match module.scopes.parents.get(string):
        case ast.Dict(keys=keys, values=values) as table if string in keys:
            version = string_value(values[keys.index(string)]) or ""
            is_given = isinstance(module.scopes.parents.get(table), ast.keyword)
            return is_given and bool(_VERSION.fullmatch(version))
    return False


def _command(parent: ast.AST | None) -> Literal["pip", "conda", "other"] | None:
    """Return the tool of an install command whose words a list or call contains, or None."""
    words = parent.args if isinstance(parent, ast.Call) else getattr(parent, "elts", ())
    values = [string_value(one) or "" for one in words]
    verb = next((one for one in _VERBS if one in values), None)
    if verb is None:
        return None
    tools = [one for one in values[: values.index(verb)] if one[:1].isalpha()]
    if any(_CONDA_COMMAND.fullmatch(one) for one in tools):
        return "conda"
    if any(map(_PIP_COMMAND.search, tools)) or (not tools and verb == "install"):
        return "pip"
    return "other" if verb == "install" else None


#: Functions and methods that return what they are given in a different form.
_SAME = frozenset(
    [
        *("format", "frozenset", "join", "list", "set", "sorted", "split", "splitlines"),
        *("strip", "tuple"),
    ]
)
#: Maximum number of variables and functions through which a value is followed.
_DEPTH = 3


def _takers(module: PythonModule, node: ast.AST, depth: int = _DEPTH) -> Iterator[str]:
    """Yield the names of the arguments, keys and calls that take a value, from the inside outward.

    The name of a called function ends with ``()``. A value is followed through variables and the
    results of functions. What takes a ``package`` is the next one: ``pypi`` in
    ``{"pypi": {"package": "petastorm"}}``.
    """
    child = node
    for owner in module.ancestors(node):
        match owner:
            case ast.Dict(keys=keys, values=values) if child in values:
                yield string_value(keys[values.index(child)]) or ""
            case ast.keyword(arg="package" | "packages"):
                pass
            case ast.keyword(arg=argument):
                yield argument or ""
                return
            case ast.Attribute(attr=method) if method in _SAME:
                pass
            case ast.Call(func=ast.Attribute(value=ast.Name() as name, attr="append" | "extend")):
                for one in _same(module, name) if depth else ():
                    yield from _takers(module, one, depth - 1)
                return
            case ast.Call(func=function) if last_name(function) not in _SAME:
                yield f"{ast.unparse(function)}()"
                yield f"{last_name(function)}()"
                return
            case ast.Subscript(value=value) if value is child:
                pass
            case ast.List() | ast.Tuple() | ast.Set() | ast.Starred() | ast.BinOp() | ast.Call():
                pass
            case ast.IfExp() | ast.JoinedStr() | ast.FormattedValue():
                pass
            case ast.Assign(targets=[ast.Subscript(slice=key)]):
                yield string_value(key) or ""
                return
            case ast.stmt():
                for read in reads(module, owner) if depth else ():
                    yield from _takers(module, read, depth - 1)
                return
            case _:
                return
        child = owner


def _same(module: PythonModule, name: ast.Name) -> Iterator[ast.Name]:
    """Yield the reads of the variable that a name reads."""
    home = module.scope_of(name).home(name.id)
    for read in module.scopes.references.get(name.id, ()):
        if read.node is not name and read.scope.home(name.id) is home:
            yield read.node
