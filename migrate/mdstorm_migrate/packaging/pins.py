"""Pins beside a requirement of mdstorm: versions of other distributions, and of Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.bounds import known_names, normalised
from mdstorm_migrate.packaging.commands import install_commands
from mdstorm_migrate.packaging.pyproject import dependency_keys, requirement_strings
from mdstorm_migrate.packaging.requirement import VERSION, VERSIONS, is_for_old_python
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys, toml_strings

Style: TypeAlias = Literal["pip", "poetry", "conda", "version", "list", "runtime"]

PYTHON = "python"
_PYTHON_KEY = re.compile(r"requires[-_]python|python[-_]requires|python(_full)?_version|python")


@dataclass(frozen=True)
class Pin:
    """A version, or several, that a file asks for.

    Attributes
    ----------
    name : str
        Of the distribution, as the tables have it; ``python`` for Python itself.
    start, stop : int
        The span of the versions.
    specifier : str
    style : {"pip", "poetry", "conda", "version", "list", "runtime"}
        How they are written; ``version`` is one version and no range, as in ``FROM python:3.8``,
        ``list`` several, each of which is used, ``runtime`` one of Databricks.
    word : int or None
        Where the word begins that it is part of, in a command or in YAML.
    yaml : bool
        Whether it is a value of YAML, quotes included.
    """

    name: str
    start: int
    stop: int
    specifier: str
    style: Style = "pip"
    word: int | None = None
    yaml: bool = False


_NAMES = "|".join(name.replace("-", "[-_.]") for name in known_names())
_PIN = re.compile(
    rf"""(?<![\w./@=-]) (?P<name>{_NAMES}) (?![\w/-]|\.\w)
    (?:[ \t]*\[[^\]\n]*\])? [ \t]* (?: \( (?P<inner>{VERSIONS}) \) | (?P<spec>{VERSIONS}) )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CONDA = re.compile(
    rf"""(?:[\w-]+::)?(?P<name>{_NAMES}|python)
    (?: [ ]*(?P<spec>(?:=(?!=)|{VERSION})[^\s"'#\]]*) | [ ]+(?P<plain>\d[\w.*]*) )""",
    re.IGNORECASE | re.VERBOSE,
)
_ITEM = re.compile(r"""^[ \t]*-[ \t]+["']?(?P<value>[^#\r\n"']*)""", re.MULTILINE)
_LINE = re.compile(r"^[ \t]*(?P<body>[^#\r\n-](?:[^#\r\n]|(?<=\S)\#)*)", re.MULTILINE)
_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"'\n]*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"'\n]*)\1""")
_IMAGE = re.compile(
    r"^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)?(?:\S+/)?python:(?P<version>\d(?:\.\d+)+)", re.M | re.I
)
_ARGUMENT = re.compile(
    r"^[ \t]*(?:ARG|ENV)[ \t]+PYTHON_?VERSION[= \t]+[\"']?(?P<version>\d(?:\.\d+)+)", re.M | re.I
)
#: ``image: python:3.8`` of a workflow.
_YAML_IMAGE = re.compile(
    r"""\b(?:image|container)["']?[ \t]*:[ \t]*["']?(?:\S+/)?python:(?P<version>\d(?:\.\d+)+)"""
)
#: ``python: 3.8`` of an environment of MLflow, ``language_version`` of hooks.
_YAML_PYTHON = re.compile(
    r"""^[ \t]*python:[ \t]*(?P<version>(["']?)\d\.\d+(?:\.\d+)?\2)\s*$""", re.MULTILINE
)
_HOOK_PYTHON = re.compile(r"""\blanguage_version[ \t]*:[ \t]*["']?python(?P<version>\d\.\d+)""")
_BASE_PYTHON = re.compile(
    r"^base_?python[ \t]*=[ \t]*(?:python|py)(?P<version>\d\.?\d+)", re.MULTILINE
)
_HATCH_PYTHON = re.compile(r"tool\.hatch\.envs\..*")
#: ``python-version: ["3.8", "3.10"]`` of a matrix; lists of versions of tox.
_MATRIX = re.compile(r"""python[-_]?versions?["']?[ \t]*:[ \t]*\[(?P<version>[^\]\n]*)\]""", re.I)
_ENVIRONMENTS = re.compile(
    r"^env_?list[ \t]*=[ \t]*(?P<version>(?:py\d+|,|[ \t])*py\d+)[ \t]*$", re.MULTILINE
)
_RUNTIME = re.compile(
    r"""\bspark_version["']?[ \t]*[:=][ \t]*["']?(?P<version>\d+\.[\dx]+)\.?x?-[\w.-]*scala"""
)
_SETUP_PYTHON = re.compile(
    r"""python-version["']?[ \t]*:[ \t]*(?P<version>(["']?)\d\.\d+\2)\s*$""", re.MULTILINE
)
_INI_PYTHON = re.compile(r"^python_requires[ \t]*=[ \t]*(?P<version>[^#\s][^#\r\n]*)", re.M)


def pins_of(document: Document) -> Iterator[Pin]:
    """Yield the pins of a document, of the distributions that `known_names` returns alone."""
    seen: set[int] = set()
    for pin in _of(document):
        if pin.start not in seen:
            seen.add(pin.start)
            yield pin


def _of(document: Document) -> Iterator[Pin]:
    text = document.text
    match document.kind:
        case "requirements":
            for line in _LINE.finditer(text):
                yield from _pins(text, *line.span("body"))
        case "pyproject":
            for string in requirement_strings(text):
                yield from _pins(text, string.start, string.stop)
            for key in dependency_keys(text):
                yield from _of_key(text, key)
            for string in toml_strings(text):
                if (string.table, string.key) == ("project", "requires-python"):
                    yield Pin(PYTHON, string.start, string.stop, string.value)
            yield from _of_hatch(text)
            yield from _of_commands(text)
        case "pipfile":
            for key in toml_keys(text):
                if key.table not in ("", "source", "scripts", "pipenv"):
                    yield from _of_key(text, key)
        case "setup_cfg":
            yield from _pins(text, 0, len(text))
            yield from (_python(found, "pip") for found in _INI_PYTHON.finditer(text))
            yield from (_python(found, "list") for found in _ENVIRONMENTS.finditer(text))
            yield from (_python(found, "version") for found in _BASE_PYTHON.finditer(text))
        case "conda":
            yield from _of_conda(text)
        case "docker":
            yield from _of_commands(text)
            for pattern in (_IMAGE, _ARGUMENT):
                yield from (_python(found, "version") for found in pattern.finditer(text))
        case "cluster":
            yield from _of_commands(text)
            for found in _SETUP_PYTHON.finditer(text):
                yield replace(_python(found, "version"), yaml=True)
            if document.path is not None and document.path.stem == "python_env":
                for found in _YAML_PYTHON.finditer(text):
                    yield replace(_python(found, "version"), yaml=True)
            yield from (_python(found, "version") for found in _YAML_IMAGE.finditer(text))
            yield from (_python(found, "version") for found in _HOOK_PYTHON.finditer(text))
            yield from (_python(found, "list") for found in _MATRIX.finditer(text))
            yield from _of_lists(text)
            yield from (_python(found, "runtime") for found in _RUNTIME.finditer(text))
        case "shell" | "magic" | "text":
            yield from _of_commands(text)
            if document.kind == "text":
                yield from _of_lists(text)
            yield from (_python(found, "runtime") for found in _RUNTIME.finditer(text))
        case "python":
            yield from _of_setup(document)


def _pins(text: str, start: int, stop: int, in_command: bool = False) -> Iterator[Pin]:
    for match in _PIN.finditer(text, start, stop):
        line = text[text.rfind("\n", 0, match.start()) + 1 : match.start()]
        end = text.find("\n", match.end())
        rest = text[match.end() : len(text) if end < 0 else end]
        if re.search(r"(^|\s)#", line) or is_for_old_python(rest):
            continue
        group = "inner" if match["inner"] is not None else "spec"
        word = match.start() if in_command else None
        yield Pin(normalised(match["name"]), *match.span(group), match[group], word=word)


def _python(match: re.Match[str], style: Style) -> Pin:
    return Pin(PYTHON, *match.span("version"), match["version"], style)


def _of_key(text: str, key: TomlKey) -> Iterator[Pin]:
    """Yield the pins of a dependency of Poetry or Pipenv."""
    name = normalised(key.name)
    is_python = _PYTHON_KEY.fullmatch(key.name) is not None
    if not is_python and name not in known_names():
        return
    value = text[key.value_start : key.value_stop]
    plain = _STRING.match(value)
    for version in [plain] if plain else _VERSION.finditer(value):
        start, stop = (key.value_start + at for at in version.span("version"))
        style: Style = "version" if "_version" in key.name else "poetry"
        yield Pin(PYTHON if is_python else name, start, stop, version["version"], style)


def _of_hatch(text: str) -> Iterator[Pin]:
    """Yield the Pythons of Hatch's environments: one, or those of a matrix."""
    for key in toml_keys(text):
        if key.name == "python" and _HATCH_PYTHON.fullmatch(key.table):
            value = text[key.value_start : key.value_stop]
            match = re.match(
                r"""[ \t]*(?:\[(?P<list>[^\]]*)\]|(["'])(?P<version>[\d.]+)\2)""", value
            )
            if match is not None:
                style: Style = "list" if match["version"] is None else "version"
                start, stop = (key.value_start + at for at in match.span(style))
                yield Pin(PYTHON, start, stop, text[start:stop], style)


def _of_conda(text: str) -> Iterator[Pin]:
    for item in _ITEM.finditer(text):
        match = _CONDA.match(item["value"])
        if match is not None:
            group = "spec" if match["spec"] is not None else "plain"
            start, stop = (item.start("value") + at for at in match.span(group))
            name = match["name"].lower()
            name = PYTHON if name == PYTHON else normalised(name)
            yield Pin(name, start, stop, match[group].strip(), "conda")


def _of_commands(text: str) -> Iterator[Pin]:
    for tool, start, stop in install_commands(text):
        if tool == "pip":
            yield from _pins(text, start, stop, in_command=True)
            continue
        for word in re.finditer(r"""[^\s"']+""", text[start:stop]):
            match = _CONDA.fullmatch(word[0])
            if match is not None and match["spec"] is not None:
                at = start + word.start() + match.start("spec")
                name = match["name"].lower()
                name = PYTHON if name == PYTHON else normalised(name)
                yield Pin(
                    name, at, at + len(match["spec"]), match["spec"], "conda", start + word.start()
                )


_QUOTED_OR_ITEM = re.compile(
    rf"""(?: ["'\[,] | -[ ] | :[ ] ) \s*
    (?P<body> (?:{_NAMES}) (?:\[[^\]\n]*\])? [ \t]* {VERSIONS} ) \s* (?= ["'\],;}}\r\n] | \Z )""",
    re.IGNORECASE | re.VERBOSE,
)


def _of_lists(text: str) -> Iterator[Pin]:
    """Yield the pins in lists of JSON and YAML: strings and items that are one requirement."""
    for match in _QUOTED_OR_ITEM.finditer(text):
        yield from _pins(text, *match.span("body"), in_command=True)


def _of_setup(document: Document) -> Iterator[Pin]:
    """Yield the pins among the strings of a ``setup.py``."""
    if document.path is None or document.path.name != "setup.py":
        return
    text = document.text
    for match in re.finditer(
        rf"""(["'])(?P<body>(?:{_NAMES})(?:\[[^\]\n]*\])?[ \t]*{VERSIONS}[^"'\n]*)\1""", text, re.I
    ):
        yield from _pins(text, *match.span("body"))
    for match in re.finditer(
        r"""\bpython_requires["']?[ \t]*[=:][ \t]*(["'])(?P<version>[^"'\n]*)\1""", text
    ):
        yield _python(match, "pip")
