"""Pins beside a requirement of mdstorm."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.packaging.bounds import known_names, normalised
from mdstorm_migrate.packaging.calls import install_calls
from mdstorm_migrate.packaging.commands import install_commands, installed_values
from mdstorm_migrate.packaging.flow_lists import flow_items
from mdstorm_migrate.packaging.pin import LISTED, PYTHON, Pin, Style
from mdstorm_migrate.packaging.pyproject import dependency_keys, requirement_strings
from mdstorm_migrate.packaging.pythons import pythons_of
from mdstorm_migrate.packaging.requirement import VERSION, VERSIONS, is_for_old_python
from mdstorm_migrate.packaging.toml_text import TomlKey, toml_keys
from mdstorm_migrate.packaging.tox_text import legacy_ini

_PYTHON_KEY = re.compile(r"requires[-_]python|python[-_]requires|python(_full)?_version|python")


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
#: The name of a variable of shells and templates.
_VARIABLE = re.compile(r"\$[\[{( ]*(?:\w+\.)?(?P<name>\w+)")
_ITEM = re.compile(r"""^[ \t]*-[ \t]+["']?(?P<value>[^#\r\n"']*)""", re.MULTILINE)
_LINE = re.compile(r"^[ \t]*(?P<body>[^#\r\n-](?:[^#\r\n]|(?<=\S)\#)*)", re.MULTILINE)
#: A package of conda's as a string of code: ``"python=3.8.10"``.
_CONDA_STRING = re.compile(rf"""(["']){_CONDA.pattern}\1""", re.IGNORECASE | re.VERBOSE)
_STRING = re.compile(r"""[ \t]*(["'])(?P<version>[^"'\n]*)\1""")
_VERSION = re.compile(r"""\bversion[ \t]*=[ \t]*(["'])(?P<version>[^"'\n]*)\1""")


def pins_of(document: Document) -> Iterator[Pin]:
    """Yield the pins of a document, of the distributions that `known_names` returns alone."""
    seen: set[int] = set()
    for pin in (*_of(document), *pythons_of(document)):
        if pin.start not in seen:
            seen.add(pin.start)
            yield _resolved(pin, document.text) if "$" in pin.specifier else pin


def _resolved(pin: Pin, text: str) -> Pin:
    """Return a pin with the value of the variable in it, where the text says it."""
    name = _VARIABLE.search(pin.specifier)
    value = name and re.search(
        rf"""\b{name["name"]}\s*(?:[:?]?=|:-|:|[ \t])\s*["']?(?P<value>\d[\w.*]*)""", text
    )
    if not value:
        return pin
    operator = pin.specifier[: pin.specifier.index("$")].strip()
    return replace(pin, specifier=f"{operator}{value['value']}", is_fixed=True)


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
            yield from _of_commands(text)
            yield from _pins(text, *legacy_ini(text))
        case "pipfile":
            for key in toml_keys(text):
                if key.table not in ("", "source", "scripts", "pipenv"):
                    yield from _of_key(text, key)
        case "setup_cfg":
            yield from _pins(text, 0, len(text))
        case "conda":
            yield from _of_conda(text)
        case "cluster":
            yield from _of_commands(text)
            yield from _of_lists(text)
        case "docker" | "shell" | "magic" | "text":
            yield from _of_commands(text)
            yield from _of_variables(text)
            if document.kind == "text":
                yield from _of_lists(text)
        case "python":
            if document.path is not None and document.path.name == "setup.py":
                yield from _of_setup(text)
            else:
                for start, stop in install_calls(document):
                    yield from _of_call(text, start, stop)


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


def _of_conda(text: str) -> Iterator[Pin]:
    spans = [item.span("value") for item in _ITEM.finditer(text)]
    spans += [(item.start, item.stop) for item in flow_items(text)]
    for at, end in spans:
        match = _CONDA.match(text, at, end)
        if match is not None:
            yield _of_package(match)


def _of_package(match: re.Match[str]) -> Pin:
    """Return the pin of a package of conda's, as `_CONDA` has it."""
    group = "spec" if match["spec"] is not None else "plain"
    name = match["name"].lower()
    name = PYTHON if name == PYTHON else normalised(name)
    return Pin(name, *match.span(group), match[group].strip(), "conda")


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


def _of_variables(text: str) -> Iterator[Pin]:
    """Yield the pins in variables that are installed: nobody but the user changes them."""
    for start, stop in installed_values(text):
        for pin in _pins(text[start:stop], 0, stop - start):
            first, last = start + pin.start, start + pin.stop
            yield replace(pin, start=first, stop=last, is_fixed=True)


_QUOTED_OR_ITEM = re.compile(
    rf"""(?: ["'\[,] | -[ ] | :[ ] ) \s*
    (?P<body> (?:{_NAMES}) (?:\[[^\]\n]*\])? [ \t]* {VERSIONS} ) \s* (?= ["'\],;}}\r\n] | \Z )""",
    re.IGNORECASE | re.VERBOSE,
)


def _of_lists(text: str) -> Iterator[Pin]:
    """Yield the pins in lists of JSON and YAML: strings and items that are one requirement."""
    for match in _QUOTED_OR_ITEM.finditer(text):
        yield from _pins(text, *match.span("body"), in_command=True)


def _of_setup(text: str) -> Iterator[Pin]:
    """Yield the pins among the strings of a ``setup.py``."""
    for match in re.finditer(
        rf"""(["'])(?P<body>(?:{_NAMES})(?:\[[^\]\n]*\])?[ \t]*{VERSIONS}[^"'\n]*)\1""", text, re.I
    ):
        yield from _pins(text, *match.span("body"))


#: ``installPyPI("pyarrow", version="0.17.1")``
_NAME_AND_VERSION = re.compile(
    rf"""(["'])(?P<name>{_NAMES})\1\s*,\s*(?:version\s*=\s*)?(["'])(?P<version>\d[\w.]*)\3""", re.I
)


def _of_call(text: str, start: int, stop: int) -> Iterator[Pin]:
    """Yield the pins in a call that installs something: nobody but the user changes them."""
    for pin in _pins(text, start, stop):
        yield replace(pin, is_fixed=True)
    for match in _CONDA_STRING.finditer(text, start, stop):
        pin = _of_package(match)
        yield replace(pin, is_fixed=True, where=LISTED if pin.name == PYTHON else "")
    for match in _NAME_AND_VERSION.finditer(text, start, stop):
        name = normalised(match["name"])
        yield Pin(name, *match.span("version"), f"=={match['version']}", is_fixed=True)
