"""Which Pythons the machines run that install something: images, systems, matrices, commands."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.pin import PYTHON, Pin, Style
from mdstorm_migrate.packaging.variables import REFERENCE

#: What a Python is asked for by, before a variable that says which one.
_ASKED = re.compile(
    rf"""(?: (?:python[-_]?versions?|versionSpec|(?<![\w.-])python)["']?[ ]*[:=][ ]*
    | (?<![\w.-])python | --python[ =]? ) ["']? (?:python)? {REFERENCE}""",
    re.VERBOSE | re.IGNORECASE,
)
#: Keys whose values are versions of Python, in all files and in those of a name.
_KEYS = r"python[-_]?versions?|versionSpec"
_KEYS_OF = re.compile(
    r"\.travis\.ya?ml|buildspec[\w.-]*\.ya?ml|\.readthedocs\.ya?ml|python_env\.ya?ml"
)
#: Keys of a matrix whose values are versions of Python if they look like some.
_OF_MATRIX = r"py(?:thons?|ver)?"
_MATRIX = re.compile(r"\bmatrix[\"']?[ \t]*:")
_VERSION = r"[23]\.\d+(?:\.\d+)?"
_IMAGE = re.compile(rf"(?<![\w.-])python:(?:\d+-)?(?P<version>{_VERSION})", re.IGNORECASE)
_RUNTIME = re.compile(r"""\bruntime["']?[ ]*[:=][ ]*["']?python(?P<version>[23]\.?\d+)""", re.I)
#: The whole name of an image, in Dockerfiles and elsewhere.
_NAME = re.compile(
    r"""(?: ^[ \t]*FROM[ \t]+(?:--\S+[ \t]+)?
    | \b(?:image|image_uri|container|dockerImage)["']?[ \t]*[:=(]?[ \t]*["']? )
    (?P<name>[\w./:@-]+)""",
    re.VERBOSE | re.MULTILINE | re.IGNORECASE,
)
#: Such as ``py38``, ``python-3.8.8``; of Miniconda's ``py38_4.9``, its own version follows.
_TAG = re.compile(
    r"(?<=[:._-])py(?:thon)?-?(?P<version>3\.\d+(?:\.\d+)?|3\d+|2\.?7(?:\.\d+)?|(?<=[yn])2)(?![^\W_]|\.\d)"
)
_SYSTEM = re.compile(
    r"(?P<version>ubuntu[:-]?(?:1[468]\.04|20\.04|xenial|bionic|focal)"
    r"|debian[:-]?(?:9|10|11|stretch|buster|bullseye)\b)",
    re.IGNORECASE,
)
#: The machine of a workflow, whose own Python is used if nothing there brings another one.
_RUNNER = re.compile(
    r"""\b(?:runs-on|vmImage)["']?[ \t]*:[ \t]*\[?["']?(?P<version>ubuntu-(?:16|18|20)\.04)\b""",
    re.I,
)
_BRINGS_PYTHON = re.compile(
    r"python[-_]?version|versionSpec|\bcontainer\b|conda|mamba|pyenv|deadsnakes|docker|\buvx?\b"
    r"|python3\.\d",
    re.IGNORECASE,
)
#: The Pythons of systems that are older than what mdstorm needs, by the end of their names.
_SYSTEMS = {
    **{"14.04": "3.4", "16.04": "3.5", "xenial": "3.5", "18.04": "3.6", "bionic": "3.6"},
    **{"20.04": "3.8", "focal": "3.8", "9": "3.5", "stretch": "3.5"},
    **{"10": "3.7", "buster": "3.7", "11": "3.9", "bullseye": "3.9"},
}
_PACKAGES = (
    r"\b(?:apt(?:-get)?|apk|yum|dnf|amazon-linux-extras)\b(?:[^\n\\;&|]|\\[ \t]*\r?\n|\\.)*?"
)
_SYSTEM_PYTHON = re.compile(rf"{_PACKAGES}[ \t]python3(?:-(?:pip|dev|venv))?(?![\w.-])")
#: A version of a system's Python, of which it has one or two.
_SYSTEM_VERSION = re.compile(rf"{_PACKAGES}[ \t]python{REFERENCE}", re.VERBOSE)
_OTHER_PYTHON = re.compile(r"conda|mamba|pyenv|deadsnakes|\buv[ ]|python3\.\d")
#: What a Python is called for that installs something, or makes an environment.
_MAKES = r"[ \t]+-m[ \t]+(?:pip|venv|virtualenv)"
#: A variable that is called so, or handed to what makes one: ``$(PYTHON) -m venv``.
_CALLED = re.compile(
    rf"""{REFERENCE} (?:[:}}][^}}\s]*)? \}}? ["']? (?={_MAKES}|[ \t]+install\b)""", re.VERBOSE
)
_HANDED = re.compile(
    rf"""\b(?:uv|virtualenv|pipenv|poetry)\b[^\n;&|]*?[ \t](?:--python|-p|env[ ]use)[ =]["']?
    {REFERENCE}""",
    re.VERBOSE,
)
_BY_VARIABLE = (_CALLED, _HANDED)
#: Where such a variable gets a Python.
_PROGRAM = (
    r"""(?:(?<![\w.$-]){0}[ \t]*(?:[:?]{{0,2}}=|:-?)|^[ \t]*ENV[ \t]+{0}[ \t])[ \t]*["']?"""
    r"""(?:\$\{{\w+:?-)?(?:[\w./~-]*/)?(?:python|pip)(?P<version>3\.\d+|2(?:\.\d)?)(?![\w.])"""
)
#: Commands that name a Python, which nobody but the user can exchange for another.
_COMMANDS = (
    re.compile(
        r"""\bpip[\d.]*\b(?:[^\n\\;&|]|\\[ \t]*\r?\n|\\.)*?--python-version"""
        r"""(?:[ \t=]|["'][ \t]*,[ \t]*["'])["']?(?P<version>[23]\.?\d+)(?:\.\d+)?(?!\d)"""
    ),
    re.compile(rf"""(?<![\w.-])python(?P<version>3\.\d+|2(?:\.\d)?)(?=\}}?["']?{_MAKES})"""),
    re.compile(r"(?<![\w.-])pip(?P<version>3\.\d+|2(?:\.\d)?)(?=[ \t]+install\b)"),
    re.compile(
        r"\b(?:uv|virtualenv|pipenv|poetry)\b[^\n;&|]*?[ \t](?:--python|-p|env[ ]use)[ =]"
        r"(?:[\w./~-]*/)?(?:python)?(?P<version>[23]\.\d+|(?<=python)2(?![\w.]))"
    ),
    re.compile(
        r"\b(?:module[ ]+(?:load|add)|ml)[ ](?:[^\n;&|]*[ ])?[Pp]ython[23]?/(?P<version>[23]\.\d+)"
    ),
    re.compile(
        rf"\bpyenv[ ](?:install|local|global|virtualenv)[ ](?:-\S+[ ])*(?P<version>{_VERSION})"
    ),
    re.compile(rf"{_PACKAGES}[ \t]python(?P<version>3\.?\d+)(?![\d.])"),
)
#: In code: images, and Pythons of environments that a scheduler makes.
_IMAGE_IN_CODE = re.compile(
    r"""\b\w*image(?:_?(?:uri|name|url|spec))?["']?(?:[ ]*:[ ]*str)?\s*[:=]\s*\(?\s*[rf]?(["'])"""
    r"""(?P<name>[\w./:@-]+)\1""",
    re.IGNORECASE,
)
#: A variable that holds one, and where it gets its value.
_IMAGE_VARIABLE = re.compile(
    r"""\b\w*image(?:_?(?:uri|name|url|spec))?["']?\s*[:=]\s*(?P<name>[A-Za-z_]\w*)"""
    r"""[ ]*(?=[,)}\n])""",
    re.IGNORECASE,
)
_IMAGE_VALUE = r"""^[ \t]*(?:{0})(?:[ ]*:[ ]*\w+)?[ ]*=[ ]*\(?[rf]?(["'])(?P<name>[\w./:@-]+)\1"""
_PYTHON_IN_CODE = (
    re.compile(rf"""\bpython_version\s*=\s*(["'])(?P<version>{_VERSION})\1"""),
    re.compile(
        rf"""@(?:\w+\.)?(?:conda|pypi|conda_base|pypi_base)\((?:[^()]|\([^()]*\))*?"""
        rf"""\bpython\s*=\s*(["'])(?P<version>{_VERSION})\1"""
    ),
)


def pythons_of_code(text: str) -> Iterator[Pin]:
    """Yield the Pythons of images and environments that Python code names."""
    variables = "|".join(sorted(set(_names(_IMAGE_VARIABLE, text))))
    values = re.finditer(_IMAGE_VALUE.format(variables), text, re.M) if variables else ()
    images = {one.start("name"): one for one in (*_IMAGE_IN_CODE.finditer(text), *values)}
    for found in images.values():
        if is_commented_out(text, found.start()):
            continue
        span = found.span("name")
        python, tag = _IMAGE.search(text, *span), _TAG.search(text, *span)
        where = "" if python else found["name"].rpartition("/")[2]
        if version := python or tag:
            yield _fixed(version, dotted(version["version"]), where)
    for pattern in _PYTHON_IN_CODE:
        for found in pattern.finditer(text):
            if not is_commented_out(text, found.start("version")):
                yield _fixed(found, found["version"], "")


def pythons_of_images(text: str) -> Iterator[Pin]:
    """Yield the Pythons of images: those of ``python:3.8``, of tags, of a system's own."""
    for pattern in (_IMAGE, _RUNTIME):
        for found in pattern.finditer(text):
            if not is_commented_out(text, found.start(), ANY):
                span = found.span("version")
                if "." in found["version"]:
                    yield Pin(PYTHON, *span, found["version"], "version")
                else:  # ``python38``
                    yield Pin(PYTHON, *span, dotted(found["version"]), "version", is_fixed=True)
    has_system_python = _SYSTEM_PYTHON.search(text) and not _OTHER_PYTHON.search(text)
    for image in _NAME.finditer(text):
        if is_commented_out(text, image.start("name"), ANY):
            continue
        where = image["name"].rpartition("/")[2]
        tag = _TAG.search(text, *image.span("name"))
        if tag is not None:
            yield _fixed(tag, dotted(tag["version"]), where)
        system = _SYSTEM.search(text, *image.span("name"))
        if system is not None and has_system_python:
            end = re.split(r"[:-]|(?<=[un])(?=\d)", system["version"].lower())[-1]
            yield _fixed(system, _SYSTEMS[end], system["version"])


def pythons_of_commands(text: str) -> Iterator[Pin]:
    """Yield the Pythons that commands name, such as ``python3.8 -m pip``."""
    for pattern in _COMMANDS:
        for found in pattern.finditer(text):
            if not is_commented_out(text, found.start(), ANY):
                yield _fixed(found, dotted(found["version"]), "")
    for name in sorted({one for called in _BY_VARIABLE for one in _names(called, text)}):
        for found in re.finditer(_PROGRAM.format(re.escape(name)), text, re.MULTILINE):
            if not is_commented_out(text, found.start(), ANY):
                yield _fixed(found, found["version"], "")


def pythons_of_keys(text: str, name: str) -> Iterator[Pin]:
    """Yield the Pythons of YAML's keys that say them, and of the variables that stand for them.

    Parameters
    ----------
    text : str
    name : str
        Of the file.
    """
    yield from _defined(text, _KEYS)
    if _KEYS_OF.fullmatch(name):
        yield from _defined(text, "python")
    if _MATRIX.search(text):
        yield from _defined(text, _OF_MATRIX)
    for variable in sorted(set(_names(_ASKED, text))):
        yield from _defined(text, re.escape(variable))
    for runner in () if _BRINGS_PYTHON.search(text) else _RUNNER.finditer(text):
        if not is_commented_out(text, runner.start(), ANY):
            yield _fixed(runner, _SYSTEMS[runner["version"].rpartition("-")[2]], runner["version"])


def pythons_of_arguments(text: str) -> Iterator[Pin]:
    """Yield the values of the variables of a Dockerfile or a script that say a Python."""
    names = "|".join([r"PYTHON_?VERSION", *map(re.escape, sorted(set(_names(_ASKED, text))))])
    pattern = (
        rf"""^[ \t]*(?:(?:ARG|ENV|export)[ \t]+)?(?P<name>{names})[= \t]+["']?"""
        rf"""(?P<version>{_VERSION})"""
    )
    of_system = set() if "deadsnakes" in text else set(_names(_SYSTEM_VERSION, text))
    for name in sorted(of_system):  # which may have its value from another one
        given = re.compile(rf"""\b{name}[=\ \t]["']?{REFERENCE}""", re.VERBOSE)
        of_system.update(_names(given, text))
    for found in re.finditer(pattern, text, re.MULTILINE | re.IGNORECASE):
        is_fixed = found["name"] in of_system
        yield Pin(PYTHON, *found.span("version"), found["version"], "version", is_fixed=is_fixed)


def dotted(version: str) -> str:
    """Return ``3.8`` for ``38``; ``2`` stays."""
    return version if "." in version or len(version) == 1 else f"{version[0]}.{version[1:]}"


def _names(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """Yield the names of the variables that a pattern finds."""
    return (found[found.lastgroup or 0] for found in pattern.finditer(text))


def _defined(text: str, names: str) -> Iterator[Pin]:
    """Yield the versions that keys of YAML have: one, a list on one line, a list of lines."""
    key = rf"""(?<![\w.-])["']?(?:{names})["']?[ \t]*:"""
    item = rf"""(?:[ \t]*-[ \t]+["']?{_VERSION}["']?[ \t]*(?:\#[^\n]*)?(?:\n|\Z))"""
    styles: tuple[tuple[Style, str], ...] = (
        ("list", rf"""{key}[ \t]*["']?\[(?P<version>[^\]{{}}]*)\]"""),
        ("block", rf"{key}[ \t]*(?:\#[^\n]*)?\n(?P<version>{item}+)"),
        ("version", rf"""{key}[ \t]*(?P<version>(["']?){_VERSION}\2)(?=[ \t]*(?:[,}}\n#\r]|\Z))"""),
        (
            "version",
            rf"""\bname:[ \t]*["']?(?:{names})["']?[ \t]*\n[ \t]*value:"""
            rf"""[ \t]*(?P<version>(["']?){_VERSION}\2)""",
        ),
    )
    for style, pattern in styles:
        for found in re.finditer(pattern, text, re.IGNORECASE):
            if not is_commented_out(text, found.start(), ANY):
                yield Pin(PYTHON, *found.span("version"), found["version"], style, yaml=True)


def _fixed(found: re.Match[str], version: str, where: str) -> Pin:
    span = found.span("version")
    return Pin(PYTHON, *span, version, "version", is_fixed=True, where=where)
