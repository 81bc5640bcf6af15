"""PM413: files of kinds that nothing else reads: Terraform, Scala, templates, notes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.code_text import is_code, is_name
from mdstorm_migrate.packaging.commands import command_requirements
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.conda_lists import REMEDY as OF_LIST
from mdstorm_migrate.packaging.conda_lists import conda_packages
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.other_code import (
    imports_elsewhere,
    is_zeppelin,
    uses_of_zeppelin,
)
from mdstorm_migrate.packaging.other_languages import report_other_languages
from mdstorm_migrate.packaging.pyproject import dependency_keys
from mdstorm_migrate.packaging.remaining import report_remaining
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_requirements,
    is_requirement,
    of_conda,
)
from mdstorm_migrate.packaging.rewriting import rewrite_requirement
from mdstorm_migrate.packaging.running_text import is_page
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.traces import report_traces
from mdstorm_migrate.petastorm.names import OLD_ROOT

CODE = "PM413"
TITLE = "Files of other kinds install Petastorm"
CLASS: Class = "manual"
KIND = "text"

#: The library of a cluster or a job, as Terraform has it.
_PACKAGE = re.compile(r"""\bpackage[ \t]*=[ \t]*(["'])(?P<value>[^"'\n]*)\1""")
#: A cell of Python in a notebook of Databricks in SQL, Scala or R.
_CELL = re.compile(
    r"^(?:--|//|#) MAGIC[ \t]+(?P<code>(?:from|import)[ \t]+petastorm\b[^\r\n]*)", re.MULTILINE
)
#: A cell of Python in one of these, and a use of the library in it.
_PYTHON_CELL = re.compile(
    r"^(?P<mark>--|//|#) MAGIC[ \t]+%python\b[^\n]*(?:\n(?P=mark) MAGIC[^\n]*)*", re.MULTILINE
)
_USE = re.compile(r"""(?<![\w."'/])petastorm(?:\.[^\W\d]\w*)+""")
_LEFT = "cells here that import Petastorm are left to you"
#: A package in an expression of Nix: ``ps.petastorm``, or an item of a list.
_NIX = re.compile(
    r"(?:\b(?:\w+Packages|pp?|ps)\.|(?<=[\s\[]))(?P<name>petastorm)(?![\w.-]|[ ]*[=:])"
)
#: The package of a system, in what describes another one for Debian, RPM or Arch.
_OF_SYSTEM = re.compile(
    r"^(?!(?:Package|Source|Name|Provides)[ \t]*:|pkgname=)[^\n#]*?"
    r"(?<![\w.-])(?P<name>python[23]?-petastorm)(?![\w.-])",
    re.MULTILINE,
)
_DESCRIBES_PACKAGE = re.compile(r"control|PKGBUILD|.*\.spec")
#: What people name: resources and data of Terraform, stages of Jenkins, targets of Bazel.
_LABEL = re.compile(
    r"""(?:^[ \t]*(?:resource|data)[ \t]+"[^"\n]*"[ \t]+"
    |\bstage[ \t]*\([ \t]*(?:name[ \t]*:[ \t]*)?["'])(?P<label>[^"'\n]*)["']""",
    re.MULTILINE | re.VERBOSE,
)
_TARGET = re.compile(r"""\bname[ \t]*=[ \t]*["'](?P<label>[^"'\n]*)["']""")
#: Those of other repositories: ``@pip//petastorm``, ``@pypi_petastorm//:pkg``.
_OF_PIP = re.compile(r"""["'](?P<label>@[\w.~+-]*(?://|_)petastorm(?:(?://)?:[\w.-]+)?)["']""")
_BUILD = re.compile(r"BUILD(?:\.\w+)?|WORKSPACE(?:\.\w+)?|.*\.(?:bazel|bzl)")
#: Files of LaTeX, which cite what they name.
_CITING = frozenset({".bbl", ".bib", ".cls", ".sty", ".tex"})
#: What stands on a line that installs or requires something: a requirement with a version, the
#: name of an installer as an argument or a call, or a key that has requirements.
_NEAR = re.compile(
    r"""[\w\]](?:==|~=|>=)\d | coordinates | pypi
    | (?<![\w-])(?:pip[\d.]*|pipx|pipenv|poetry|pdm|uv|conda|mamba)(?:["'`]|[ \t]*[({\[:=.]
        |[ \t]+(?:-\S+[ \t]+)*(?:add|install)(?:[ \t]+-\S+)*[ \t]*["'`])
    | (?:py|conda|virtualenv)_install[ \t]*\(
    | (?<!install\.)
      (?:requirements?|requires|dependenc(?:y|ies)|deps|librar(?:y|ies)|packages?)\w*["']?
      (?:[ \t]*(?:[:({\[]|[+?:]?=(?!=)|<-|<<)|[ \t]+["'])""",
    re.VERBOSE | re.IGNORECASE,
)


def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits of what is plain, and a finding for each other line that requires Petastorm.

    Pages that people read are left alone.
    """
    if document.path is not None and document.path.suffix in _CITING:
        return
    names: set[int] = set()
    for one in _found(document):
        if isinstance(one, Edit) and is_page(document):
            what = "this page shows a command that uses Petastorm"
            yield Finding(CODE, "note", one.start, one.stop, what)
        elif not (isinstance(one, Edit) and _is_name(document, one)):
            yield one
        elif one.start not in names:
            names.add(one.start)
            what = "this name seems to hold a requirement of Petastorm"
            remedy = f"{what}: require mdstorm where it gets its value"
            span = one.start, one.start + len(OLD_ROOT)
            yield Finding(CODE, CLASS, *span, what, remedy, topic="install")


def _is_name(document: Document, edit: Edit) -> bool:
    stop = edit.start + len(OLD_ROOT)
    is_word = document.text[edit.start : stop].lower() == OLD_ROOT
    return is_word and is_code(document.path) and is_name(document.text, edit.start, stop)


@with_installs
def _found(document: Document) -> Iterator[Edit | Finding]:
    text = document.text
    if is_zeppelin(text):
        yield from uses_of_zeppelin(text, CODE)
        return
    seen = {found.start for _, found in command_requirements(text)}
    cells = list(_CELL.finditer(text))
    runs = list(rewrite_runs(document, CODE, in_prose=True))
    seen |= {at for one in runs for at in range(one.start, one.stop)}
    for one in (*rewrite_commands(document, CODE), *runs):
        if cells and isinstance(one, Edit) and one.cls == "exact":
            one = replace(one, cls="review", message=f"{one.message}; waits, since {_LEFT}")
        yield one
    yield from report_other_languages(document, CODE)
    for cell in cells:
        what = "this `%python` cell of a notebook in another language imports Petastorm"
        yield Finding(CODE, CLASS, *cell.span("code"), what, f"{what}: import mdstorm there")
    for cell in _PYTHON_CELL.finditer(text):
        for use in _USE.finditer(text, *cell.span()):
            line = text[text.rfind("\n", 0, use.start()) + 1 : use.start()]
            if not re.search(r"\b(?:from|import)[ \t]+\Z|MAGIC[ \t]+#", line):
                what = f"this `%python` cell of a notebook in another language uses `{use[0]}`"
                yield Finding(CODE, CLASS, *use.span(), what, f"{what}: name mdstorm there")
    if document.path is not None and _BUILD.fullmatch(document.path.name):
        for label in _OF_PIP.finditer(text):
            if not is_commented_out(text, label.start()):
                what = f"this target depends on `{label['label']}`"
                remedy = f"{what}: name that of mdstorm, once the lists of requirements have it"
                yield Finding(CODE, CLASS, *label.span("label"), what, remedy)
    if document.path is not None and document.path.suffix == ".nix":
        yield from _of_nix(text)
    if document.path is not None and _DESCRIBES_PACKAGE.fullmatch(document.path.name):
        for package in _OF_SYSTEM.finditer(text):
            what = "this requires a package of the system that has Petastorm"
            remedy = f"{what}: package mdstorm, or install it by pip"
            yield Finding(CODE, CLASS, *package.span("name"), what, remedy)
    if document.path is not None and document.path.suffix == ".toml":
        for key in dependency_keys(text):
            if key.name.lower() == OLD_ROOT:
                seen.add(key.start)
                what = "this seems to require Petastorm, in a table that is not migrated"
                remedy = f"{what}: require mdstorm"
                yield Finding(CODE, CLASS, key.start, key.stop, what, remedy, topic="install")
    if listed := conda_packages(text).get(OLD_ROOT):
        seen.add(listed.start("name"))
        yield of_conda(Requirement(*listed.span("name")), CODE, OF_LIST)
    for package in _PACKAGE.finditer(text):
        if is_requirement(package["value"]):
            for found in find_requirements(text, *package.span("value")):
                seen.add(found.start)
                yield from rewrite_requirement(document, found, CODE, "alone")
    yield from imports_elsewhere(document, CODE)
    traces = list(report_traces(document, CODE))
    yield from traces
    seen |= {trace.start for trace in traces}
    # Labels of resources, of stages and of targets require nothing.
    labels = {found.start for label in _labels(document) for found in _in(text, label)}
    yield from report_remaining(document, CODE, seen | labels, _NEAR)


def _of_nix(text: str) -> Iterator[Finding]:
    for found in _NIX.finditer(text):
        if not is_commented_out(text, found.start()):
            what = "this takes Petastorm from a set of packages of Nix"
            remedy = f"{what}: package mdstorm, or install it by pip"
            yield Finding(CODE, CLASS, *found.span("name"), what, remedy)


def _labels(document: Document) -> Iterator[re.Match[str]]:
    yield from _LABEL.finditer(document.text)
    if document.path is not None and _BUILD.fullmatch(document.path.name):
        yield from _TARGET.finditer(document.text)


def _in(text: str, match: re.Match[str]) -> Iterator[Requirement]:
    return find_requirements(text, *match.span("label"))
