"""PM402: ``pyproject.toml``: PEP 621, dependency groups, the tables of Poetry and others."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.factors import report_factors
from mdstorm_migrate.packaging.ini_text import requirement_lines
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.poetry import rewrite_dependency, rewrite_extras
from mdstorm_migrate.packaging.pyproject import (
    dependency_keys,
    is_of_conda,
    other_requirements,
    requirement_strings,
)
from mdstorm_migrate.packaging.requirement import (
    Requirement,
    find_requirements,
    is_requirement,
    of_conda,
)
from mdstorm_migrate.packaging.rewriting import of_fork, rewrite_requirement
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.tox_text import legacy_ini
from mdstorm_migrate.packaging.uv_sources import has_own_source, rewrite_indexes
from mdstorm_migrate.petastorm.names import OLD_ROOT

CODE = "PM402"
TITLE = "pyproject.toml names mdstorm"
CLASS: Class = "exact"
KIND = "pyproject"


@with_installs
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of a project's file."""
    text = document.text
    is_fork = has_own_source(text, OLD_ROOT)
    constraining = replace(document, needs=replace(document.needs, is_constraint=True))
    for string in requirement_strings(text):
        if is_requirement(string.value):
            of = constraining if string.key.startswith("constraint") else document
            for found in find_requirements(text, string.start, string.stop):
                if is_fork:
                    yield of_fork(found, CODE)
                else:
                    yield from rewrite_requirement(of, found, CODE, "string")
    for key in dependency_keys(text):
        if key.name.lower() != "petastorm":
            continue
        if is_of_conda(key):
            remedy = "take petastorm out here, and add mdstorm to the table `pypi-dependencies`"
            yield of_conda(Requirement(key.start, key.stop), CODE, remedy)
        else:
            yield from rewrite_dependency(document, key, CODE)
    for other in other_requirements(text):
        what = "this requires Petastorm in a place that is not migrated"
        remedy = f"{what}: name mdstorm here"
        span = other.start, other.stop
        yield Finding(CODE, "manual", *span, what, remedy, topic="install")
    yield from rewrite_extras(text, CODE)
    yield from rewrite_indexes(document, OLD_ROOT, CODE)
    start, stop = legacy_ini(text)
    lines = [
        line
        for line in requirement_lines(text)
        if start <= line.start() < stop and is_requirement(line["requirement"])
    ]
    for line in lines:
        for found in find_requirements(text, *line.span("requirement")):
            yield from rewrite_requirement(document, found, CODE, "ini")
    yield from report_factors(document, lines, CODE)
    yield from rewrite_commands(document, CODE)  # of scripts that environments and runners have
    yield from rewrite_runs(document, CODE)
