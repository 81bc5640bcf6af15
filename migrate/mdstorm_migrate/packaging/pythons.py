"""Which Pythons, runtimes of Databricks, and images with Spark, files ask for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document, Kind
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.conda_lists import conda_packages
from mdstorm_migrate.packaging.hosts import (
    pythons_of_arguments,
    pythons_of_code,
    pythons_of_commands,
    pythons_of_images,
    pythons_of_keys,
)
from mdstorm_migrate.packaging.image_variables import pins_of_filled_images
from mdstorm_migrate.packaging.pin import PYTHON, Pin, Style
from mdstorm_migrate.packaging.releases import pythons_of_releases, sparks_of_images
from mdstorm_migrate.packaging.stages import other_stages
from mdstorm_migrate.packaging.toml_text import toml_keys, toml_strings
from mdstorm_migrate.packaging.tox_text import ini_environments, toml_environments
from mdstorm_migrate.petastorm.names import OLD_ROOT

_HOOK_PYTHON = re.compile(r"""\blanguage_version[ \t]*:[ \t]*["']?python(?P<version>\d\.\d+)""")
_BASE_PYTHON = re.compile(
    r"^base_?python[ \t]*=[ \t]*(?:python|py)(?P<version>\d\.?\d+)", re.MULTILINE
)
_ONE_OR_MORE = re.compile(r"""[ \t]*(?:\[(?P<list>[^\]]*)\]|(["'])(?P<version>[\d.]+)\2)""")
_HATCH_PYTHON = re.compile(r"tool\.hatch\.envs\..*")
_RUNTIME = re.compile(
    r"""\bspark_version["']?[ \t]*[:=][ \t]*["']?(?P<version>\d+\.[\dx]+)\.?x?-[\w.-]*scala"""
)
_INI_PYTHON = re.compile(r"^python_requires[ \t]*=[ \t]*(?P<version>[^#\s][^#\r\n]*)", re.M)
_SETUP = re.compile(r"""\bpython_requires["']?[ \t]*[=:][ \t]*(["'])(?P<version>[^"'\n]*)\1""")
#: The Pythons of Nox's sessions.
_NOX = re.compile(
    r"""\bsession\((?:[^()]*,)?\s*python\s*=\s*(?P<value>\[[^\]]*\]|["'][\d.]+["'])"""
)
#: Files that say which Python others of their folder run on: of pyenv and uv, of Heroku.
HOSTS = (".python-version", "runtime.txt")
_HOST = re.compile(r"\A(?:python-)?(?P<version>[23]\.\d+(?:\.\d+)?)\s*\Z")
#: The same, of the managers asdf and mise, for several tools at once.
_MANAGERS = {
    ".tool-versions": re.compile(r"^python[ \t]+(?P<version>[23]\.\d+(?:\.\d+)?)", re.M),
    "mise.toml": re.compile(
        r"""^python[ \t]*=[ \t]*(["'])(?P<version>[23]\.\d+(?:\.\d+)?)\1""", re.M
    ),
}
_VARIABLE = re.compile(r"\bpython_requires[ \t]*=[ \t]*(?P<name>[A-Za-z_]\w*)\b")
#: What is looked for in documents of a kind.
_PATTERNS: dict[Kind, tuple[tuple[re.Pattern[str], Style], ...]] = {
    "cluster": (
        (_HOOK_PYTHON, "version"),
        (_RUNTIME, "runtime"),
    ),
    "magic": ((_RUNTIME, "runtime"),),
    "python": ((_RUNTIME, "runtime"),),
    "setup_cfg": ((_INI_PYTHON, "pip"), (_BASE_PYTHON, "version")),
    "shell": ((_RUNTIME, "runtime"),),
    "text": ((_RUNTIME, "runtime"),),
}


def pythons_of(document: Document) -> Iterator[Pin]:
    """Yield the versions of Python, Databricks Runtime and an image's Spark that are asked for.

    Those of a Dockerfile's stages that only other packages are installed in are left out.
    """
    others = other_stages(document.text) if document.kind == "docker" else []
    for pin in _of(document):
        if not any(start <= pin.start < stop for start, stop in others):
            yield pin


def _of(document: Document) -> Iterator[Pin]:
    text = document.text
    name = "" if document.path is None else document.path.name
    pins: list[Pin] = []
    if document.kind == "cluster":
        pins += pythons_of_keys(text, name)
    if document.kind in ("docker", "shell", "text"):
        pins += pythons_of_arguments(text)
    if document.kind in ("cluster", "docker", "python", "shell", "text"):
        pins += pythons_of_releases(text)
    if document.kind in ("cluster", "docker", "shell", "text"):
        pins += [*pythons_of_images(text), *sparks_of_images(text)]
        yield from pins_of_filled_images(text, pins)
    yield from pins
    if document.kind in ("cluster", "docker", "magic", "shell", "text"):
        yield from pythons_of_commands(text)
    if document.kind == "python":
        yield from pythons_of_code(text)
    if document.kind == "text":
        packages = conda_packages(text)
        if PYTHON in packages and OLD_ROOT in packages:
            yield replace(_python(packages[PYTHON], "version"), is_fixed=True)
    if document.kind == "setup_cfg":
        yield from ini_environments(text)
    for pattern, style in _PATTERNS.get(document.kind, ()):
        for found in pattern.finditer(text):
            if not is_commented_out(text, found.start(), ANY):
                yield _python(found, style)
    if name in HOSTS:
        yield from (_python(found, "version") for found in _HOST.finditer(text))
    if manager := _MANAGERS.get("mise.toml" if name == ".mise.toml" else name):
        yield from (_python(found, "version") for found in manager.finditer(text))
    if document.kind == "pyproject":
        for string in toml_strings(text):
            if (
                string.table in ("", "project", "tool.flit.metadata")
                and string.key == "requires-python"
            ):
                yield Pin(PYTHON, string.start, string.stop, string.value)
        yield from _of_hatch(text)
        yield from toml_environments(text)
    elif document.kind == "python" and "nox" in text:
        for session in _NOX.finditer(text):
            for pin in _one_or_more(text, *session.span("value")):
                yield replace(pin, is_fixed=True)
    elif name == "setup.py":
        yield from (_python(found, "pip") for found in _SETUP.finditer(text))
        for variable in _VARIABLE.finditer(text):
            defined = rf"""^{variable["name"]}[ \t]*=[ \t]*(["'])(?P<version>[^"'\n]*)\1"""
            yield from (_python(found, "pip") for found in re.finditer(defined, text, re.M))


def _python(match: re.Match[str], style: Style) -> Pin:
    return Pin(PYTHON, *match.span("version"), match["version"], style)


def _of_hatch(text: str) -> Iterator[Pin]:
    """Yield the Pythons of Hatch's environments: one, or those of a matrix."""
    for key in toml_keys(text):
        if key.name == "python" and _HATCH_PYTHON.fullmatch(key.table):
            yield from _one_or_more(text, key.value_start, key.value_stop)


def _one_or_more(text: str, start: int, stop: int) -> Iterator[Pin]:
    """Yield what a value asks for, a version in quotes or several in brackets."""
    match = _ONE_OR_MORE.match(text[start:stop])
    if match is not None:
        style: Style = "list" if match["version"] is None else "version"
        found, end = (start + at for at in match.span(style))
        yield Pin(PYTHON, found, end, text[found:end], style)
