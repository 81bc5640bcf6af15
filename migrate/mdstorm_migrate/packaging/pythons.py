"""Which Pythons, and runtimes of Databricks, files ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.packaging.pin import PYTHON, Pin, Style
from mdstorm_migrate.packaging.toml_text import toml_keys, toml_strings

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
_ONE_OR_MORE = re.compile(r"""[ \t]*(?:\[(?P<list>[^\]]*)\]|(["'])(?P<version>[\d.]+)\2)""")
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
_SETUP = re.compile(r"""\bpython_requires["']?[ \t]*[=:][ \t]*(["'])(?P<version>[^"'\n]*)\1""")
#: Files that say which Python others of their folder run on: of pyenv and uv, of Heroku.
HOSTS = (".python-version", "runtime.txt")
_HOST = re.compile(r"\A(?:python-)?(?P<version>3\.\d+(?:\.\d+)?)\s*\Z")
#: What is looked for in documents of a kind.
_PATTERNS: dict[Kind, tuple[tuple[re.Pattern[str], Style], ...]] = {
    "cluster": (
        (_YAML_IMAGE, "version"),
        (_HOOK_PYTHON, "version"),
        (_MATRIX, "list"),
        (_RUNTIME, "runtime"),
    ),
    "docker": ((_IMAGE, "version"), (_ARGUMENT, "version")),
    "magic": ((_RUNTIME, "runtime"),),
    "setup_cfg": ((_INI_PYTHON, "pip"), (_ENVIRONMENTS, "list"), (_BASE_PYTHON, "version")),
    "shell": ((_RUNTIME, "runtime"),),
    "text": ((_RUNTIME, "runtime"),),
}


def pythons_of(document: Document) -> Iterator[Pin]:
    """Yield the versions of Python and of Databricks Runtime that a document asks for."""
    text = document.text
    name = "" if document.path is None else document.path.name
    if document.kind == "cluster":
        yield from (
            replace(_python(found, "version"), yaml=True) for found in _SETUP_PYTHON.finditer(text)
        )
        if name.startswith("python_env."):
            yield from (
                replace(_python(found, "version"), yaml=True)
                for found in _YAML_PYTHON.finditer(text)
            )
    for pattern, style in _PATTERNS.get(document.kind, ()):
        yield from (_python(found, style) for found in pattern.finditer(text))
    if name in HOSTS:
        yield from (_python(found, "version") for found in _HOST.finditer(text))
    if document.kind == "pyproject":
        for string in toml_strings(text):
            if (string.table, string.key) == ("project", "requires-python"):
                yield Pin(PYTHON, string.start, string.stop, string.value)
        yield from _of_hatch(text)
    elif name == "setup.py":
        yield from (_python(found, "pip") for found in _SETUP.finditer(text))


def _python(match: re.Match[str], style: Style) -> Pin:
    return Pin(PYTHON, *match.span("version"), match["version"], style)


def _of_hatch(text: str) -> Iterator[Pin]:
    """Yield the Pythons of Hatch's environments: one, or those of a matrix."""
    for key in toml_keys(text):
        if key.name == "python" and _HATCH_PYTHON.fullmatch(key.table):
            value = text[key.value_start : key.value_stop]
            match = _ONE_OR_MORE.match(value)
            if match is not None:
                style: Style = "list" if match["version"] is None else "version"
                start, stop = (key.value_start + at for at in match.span(style))
                yield Pin(PYTHON, start, stop, text[start:stop], style)
