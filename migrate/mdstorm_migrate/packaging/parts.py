"""The parts of a file that are installed separately, each with what it runs.

A stage of a Dockerfile, a service, a job, a container, an environment of tox, and a command in
code that both installs packages and runs a program. What is in no such part is the first part.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

from mdstorm_migrate.base.document import Document, DocumentKind, Shift, TextSegment
from mdstorm_migrate.base.edits import Finding
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import commands_in, installed, runs, runs_in_string
from mdstorm_migrate.packaging.words import commands_of, shell
from mdstorm_migrate.petastorm.names import NEW_ROOT, OLD_ROOT
from mdstorm_migrate.python.calls import is_docstring
from mdstorm_migrate.python.module import PythonModule

Span = tuple[int, int]


@dataclass(frozen=True)
class DocumentPart:
    """A part of a document.

    Attributes
    ----------
    spans : tuple of (int, int)
        Its characters.
    name : str
        The name of a stage, or of the stage that a service runs; empty otherwise.
    above : frozenset of int
        The numbers of the parts whose packages it has, with its own.
    is_bare : bool
        Whether it gets no code of the project, as far as its text shows.
    is_direct : bool
        Whether it only runs the files of the project that its commands name.
    function : ast.FunctionDef or None
        The function that runs with its packages.
    """

    spans: tuple[Span, ...]
    name: str = ""
    above: frozenset[int] = frozenset()
    is_bare: bool = False
    is_direct: bool = False
    function: ast.FunctionDef | None = None

    def has(self, position: int) -> bool:
        """Whether the part contains a character."""
        return any(start <= position < stop for start, stop in self.spans)


def parts_of(document: Document, module: PythonModule | None = None) -> list[DocumentPart]:
    """Return the parts of a document, in textual order after the first one; none if it is one."""
    text = document.text
    is_divided = document.kind in ("cluster", "docker")  # also without their names
    if not is_divided and OLD_ROOT not in text and NEW_ROOT not in text:
        return []
    if module is not None:
        sessions = list(_sessions(module))
        others = (*_commands(module), *_environments(module))
        apart = (one for one in others if not any(part.has(one.spans[0][0]) for part in sessions))
        parts = sorted([*sessions, *apart], key=lambda one: one.spans)
    elif document.kind == "docker":
        return _stages(text)
    elif document.kind == "cluster" and not text.lstrip().startswith("{"):
        parts = list(_in_yaml(text))
    elif document.kind == "setup_cfg":
        parts = [
            DocumentPart((one.span(),), is_bare=_is_bare(one[0], document.kind))
            for one in _TESTENV.finditer(text)
        ]
    else:
        parts = []
    if not parts:
        return []
    rest = DocumentPart(tuple(_between((one.spans[0] for one in parts), len(text))))
    return [replace(one, above=frozenset({number})) for number, one in enumerate([rest, *parts])]


def pieces(document: Document, module: PythonModule | None = None) -> list[Document]:
    """Return a document of each part, or the document itself if it has none."""
    return [
        replace(
            document, segments=[TextSegment(document.text[a:b], Shift(a)) for a, b in part.spans]
        )
        for part in parts_of(document, module)
    ] or [document]


def _between(spans: Iterable[Span], end: int) -> Iterator[Span]:
    """Yield the spans that are in none of the given ones."""
    at = 0
    for start, stop in [*spans, (end + 1, end + 1)]:  # the end of a text is also in it
        yield at, start
        at = stop


def _commands(module: PythonModule) -> Iterator[DocumentPart]:
    """Yield the strings that install Petastorm and run what only Petastorm has."""
    for string in module.scopes.strings if "install" in module.text else ():
        value = str(string.value)
        is_installing = "install" in value and any(installed(value, shell(value)))
        if not is_installing or is_docstring(module, string):
            continue
        if any(isinstance(one, Finding) for one in runs_in_string(value, shell(value), "")):
            yield DocumentPart((module.span(string),), is_bare=_is_bare(value, "shell"))


def _sessions(module: PythonModule) -> Iterator[DocumentPart]:
    """Yield nox's sessions that install Petastorm and run what only Petastorm has."""
    for one in module.scopes.nodes[ast.FunctionDef] if "session.install(" in module.text else ():
        start, stop = module.span(one)
        text = module.text[start:stop]
        start = min([start, *(module.span(decorator)[0] for decorator in one.decorator_list)])
        is_installing = _INSTALLS.search(text) is not None
        ran = runs(text, "", commands_of(text, "python")) if is_installing else ()
        if any(isinstance(found, Finding) and found.holds for found in ran):
            yield DocumentPart(((start, stop),), is_bare=_is_bare(text, "python"), function=one)


_INSTALLS = re.compile(rf"\bsession\.install\((?:[^()]|\([^()]*\))*[\"']{OLD_ROOT}\b")
#: Arguments with the packages of an environment in which only a function runs.
_PACKAGES = ("packages_to_install", "requirements")


def _environments(module: PythonModule) -> Iterator[DocumentPart]:
    """Yield the lists of packages for a function, which is decorated, or given to the same call."""
    if not any(word in module.text for word in _PACKAGES):
        return
    functions = {one.name: one for one in module.scopes.nodes[ast.FunctionDef]}
    for word in module.scopes.nodes[ast.keyword]:
        call = module.scopes.parents[word]
        if (
            word.arg in _PACKAGES
            and isinstance(word.value, ast.List)
            and isinstance(call, ast.Call)
        ):
            given = [*call.args[:1], *(one.value for one in call.keywords)]
            function = module.scopes.parents.get(call)
            for one in (functions.get(one.id) for one in given if isinstance(one, ast.Name)):
                function = one or function
            if isinstance(function, ast.FunctionDef):
                yield DocumentPart((module.span(word.value),), is_bare=True, function=function)


_TESTENV = re.compile(r"^\[testenv:[^\n]*\n(?:(?!\[)[^\n]*(?:\n|\Z))*", re.MULTILINE)

_STAGE = re.compile(
    r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)*(?P<base>\S+)(?:[ \t]+AS[ \t]+(?P<name>\S+))?",
    re.MULTILINE | re.IGNORECASE,
)
#: The stage that an instruction copies from or mounts.
_OF_STAGE = re.compile(r"\bfrom=([\w.-]+)")


def _stages(text: str) -> list[DocumentPart]:
    """Return the stages of a Dockerfile that has several."""
    found = list(_STAGE.finditer(text))
    if len(found) < 2:
        return []
    starts = [one.start() for one in found]
    numbers: dict[str, int] = {}
    parts = [DocumentPart(((0, starts[0]),), above=frozenset({0}))]
    for number, one in enumerate(found, 1):
        span = one.start(), [*starts, len(text) + 1][number]
        own = map(str.lower, _OF_STAGE.findall(text, *span))
        above = {numbers[word] for word in (one["base"].lower(), *own) if word in numbers}
        above = {number}.union(*(parts[other].above for other in above))
        name = (one["name"] or "").lower()
        parts.append(DocumentPart((span,), name, frozenset(above)))
        numbers |= {name or str(number - 1): number, str(number - 1): number}
    return parts


_KEYS = "jobs|services|containers|initContainers|templates"
_HEADER = re.compile(
    rf"""^(?P<indent>[ ]*)["']?(?P<key>{_KEYS})["']?:[ \t]*(?:\#[^\n]*)?\r?$""", re.MULTILINE
)
#: The beginning of a text in YAML on lines of its own.
_BLOCK_TEXT = re.compile(
    r"^(?P<indent>[ ]*(?:-[ ]+)*)[^\s#-][^\n]*[:\s-][ ]*[|>][-+\d]*[ ]*(?:\#[^\n]*)?\r?\n",
    re.MULTILINE,
)
_TEXT_LINE = re.compile(r"(?P<indent>[ ]*)(?P<text>[^\n]*)(?:\n|\Z)")
_LINE = re.compile(r"^(?P<indent>[ ]*)(?P<text>[^\s#][^\n]*)\n?", re.MULTILINE)
_DOCUMENT = re.compile(r"(?<=\n)---(?![^\s])")
_SCRIPT = re.compile(r"^[ ]+script:", re.MULTILINE)
_TARGET = re.compile(r"\btarget[ \t]*:[ \t]*[\"']?([\w.-]+)")
#: How a container or a job gets code of the project, besides its commands.
_GETS_CODE = re.compile(r"\b(?:volumes|volumeMounts|build|checkout)\b")


def _is_bare(text: str, kind: DocumentKind) -> bool:
    """Whether nothing in a text runs or installs code of the project."""
    return _GETS_CODE.search(text) is None and _uses(text, kind) == {""}


def _uses(text: str, kind: DocumentKind) -> set[str]:
    """Return how commands in a text use code of the project."""
    return {"", *map(acts.uses_code, commands_in(Document(kind, [TextSegment(text)])))}


def _in_yaml(text: str) -> Iterator[DocumentPart]:
    """Yield the services, jobs and containers in YAML, and other documents if it has several."""
    text = _without_texts(text)
    starts = [0, *(one.start() for one in _DOCUMENT.finditer(text))]
    for start, stop in pairwise([*starts, len(text) + 1]):
        found = list(_blocks(text, start, stop))
        yield from found or ([DocumentPart(((start, stop),))] if len(starts) > 1 else ())


def _without_texts(text: str) -> str:
    """Return YAML in which lines of a text, such as a script, do not begin like keys or documents.

    A script may write other YAML.
    """
    at, pieces = 0, []
    while (block := _BLOCK_TEXT.search(text, at)) is not None:
        stop = block.end()
        while (line := _TEXT_LINE.match(text, stop)) and line.end() > stop:
            if line["text"].strip() and len(line["indent"]) <= len(block["indent"]):
                break
            stop = line.end()
        written = re.sub(r"(?m)^([ ]*)\S", r"\1.", text[block.end() : stop])
        pieces += [text[at : block.end()], written]
        at = stop
    return "".join([*pieces, text[at:]])


def _is_direct(text: str) -> bool:
    """Whether the only programs of the project in YAML are files that Python runs."""
    return _uses(text, "cluster") == {"", "file"}


def _blocks(text: str, start: int, stop: int) -> Iterator[DocumentPart]:
    """Yield the services, jobs and containers in one document of YAML."""
    at = start
    for header in _HEADER.finditer(text, start, stop):
        if header.start() < at:
            continue  # within another part
        for first, last in _children(text, header.end() + 1, stop, len(header["indent"])):
            block, at = text[first:last], last
            is_item = header["key"] == "jobs" and block.lstrip().startswith("-")
            target = _TARGET.search(block)
            name = target[1].lower() if target else ""
            is_bare = not is_item and _is_bare(block, "cluster")
            yield DocumentPart(((first, last),), name, is_bare=is_bare, is_direct=_is_direct(block))
    if at == start and _SCRIPT.search(text, start, stop):
        for first, last in _children(text, start, stop, -1):
            if _SCRIPT.search(text, first, last):
                yield DocumentPart(((first, last),), is_direct=_is_direct(text[first:last]))


def _children(text: str, start: int, stop: int, above: int) -> Iterator[Span]:
    """Yield the entries of the mapping or list that begins at a line, below a key at `above`."""
    indent, of_items = -1, False
    begin = start
    for line in _LINE.finditer(text, start, stop):
        own, is_item = len(line["indent"]), line["text"].startswith("-")
        if indent < 0:
            if own < above or (own == above and not is_item):
                return
            indent, of_items, begin = own, is_item, line.start()
        elif own < indent or (own == indent and is_item != of_items):
            yield begin, line.start()
            return
        elif own == indent:
            yield begin, line.start()
            begin = line.start()
    if indent >= 0:
        yield begin, stop
