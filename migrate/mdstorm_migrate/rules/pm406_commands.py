"""PM406: install commands in Dockerfiles, shell scripts and makefiles."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit, Finding
from mdstorm_migrate.packaging.commands import command_requirements, report_variables
from mdstorm_migrate.packaging.installing import rewrite_commands
from mdstorm_migrate.packaging.left_installs import with_installs
from mdstorm_migrate.packaging.remaining import report_remaining
from mdstorm_migrate.packaging.runs import rewrite_runs
from mdstorm_migrate.packaging.traces import report_traces

CODE = "PM406"
TITLE = "Install commands install mdstorm"
CLASS: Class = "exact"
KIND = ("docker", "shell")


@with_installs
def check(document: Document) -> Iterator[Edit | Finding]:
    """Yield the edits of the commands, and findings for other uses of Petastorm."""
    yield from rewrite_commands(document, CODE)
    variables = list(report_variables(document.text, CODE))
    yield from variables
    yield from rewrite_runs(document, CODE)
    done = {found.start for _, found in command_requirements(document.text)}
    done.update(found.start for found in variables)
    traces = list(report_traces(document, CODE))
    yield from traces
    done.update(trace.start for trace in traces)
    yield from report_remaining(document, CODE, done)
