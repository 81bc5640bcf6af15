"""PM401, 406, 407, 409: requirements files, install commands, and definitions of jobs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Edit, Finding
from mdstorm_migrate.packaging import acts
from mdstorm_migrate.packaging.commands import command_text, commands_in, rewrite_commands
from mdstorm_migrate.packaging.comments import ANY, is_commented_out
from mdstorm_migrate.packaging.lists import is_generated, rewrite_listed
from mdstorm_migrate.packaging.requirement import find_requirements
from mdstorm_migrate.packaging.rewriting import left
from mdstorm_migrate.rules.rule import rule

_ARGUMENT = re.compile(r"^[ \t]*ARG[ \t]+(?P<name>\w+)(?:=[^\s#]*)?[ \t]*(?:\r?\n|\Z)", re.M | re.I)
_VERSION = re.compile(r"[=<>~!]=?[ ]*\d")
#: The name of a setting that pip gets, such as ``EXTRA_PIP_PACKAGES``, or of Ansible's module, up
#: to one of its words; and how Databricks' command and its API get the name of a library.
_FOR_PIP = re.compile(
    r"""pip\w*["']?[ \t]*[:=]\s*(?:\{?[ ]*name[ ]*:[\s\[-]*)?["']?(?:[\w.,\[\]-]+[ ]+)*\Z
    | (?:--pypi-package[ =]|\bpackage\\?["'][ ]*:)[ ]*\\?["']?\Z""",
    re.IGNORECASE | re.VERBOSE,
)
#: The name of a variable or a setting, up to one of the words of its value.
_SET = re.compile(
    r"""(?: (?P<argument>\bbuild-arg\W+)? (?<![\w-])(?P<name>\w+) ["']?[ \t]*[:?]?[:=]
      | \bENV[ ]+(?P<env>\w+)[ ] )
    [ \t]*[(]? (?:["']?[\w.,\[\]-]+["']?[ ]+)* ["']? \Z""",
    re.VERBOSE,
)
#: A word in the name of an argument with which an image is built.
_FOR_IMAGE = "package"


@rule("PM401", "Requirements files name mdstorm", "exact", "requirements")
def requirements(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to a requirements file, and findings."""
    if not (is_generated(document.text) or document.needs.is_record):  # PM411 and PM001 report them
        results = list(rewrite_listed(document, "PM401"))
        # A template's "if" may be on the line of a requirement.
        yield from [*results, *elsewhere(document, results, "PM401")]


@rule("PM406", "Commands install mdstorm, and run its modules", "exact", "docker", "shell")
def commands(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to the commands in a document."""
    results = list(rewrite_commands(document, "PM406"))
    edits = [one for one in results if isinstance(one, Edit)]
    orphaned = list(_orphaned_arguments(document, edits))
    yield from [*results, *orphaned, *elsewhere(document, [*results, *orphaned], "PM406")]


def _orphaned_arguments(document: Document, edits: Sequence[Edit]) -> Iterator[Edit]:
    """Yield the edits that remove build arguments which only replaced requirements use."""
    text = document.text
    for found in _ARGUMENT.finditer(text) if document.kind == "docker" else ():
        uses = list(re.finditer(rf"\$\{{?{found['name']}\b", text))
        if uses and all(
            any(edit.start <= use.start() < edit.stop for edit in edits) for use in uses
        ):
            what = f"nothing uses the build argument {found['name']} any more"
            yield Edit("PM406", "exact", *found.span(), "", what, topic="install")


@rule("PM407", "Notebook magics install mdstorm", "exact", "magic")
def magics(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to one magic."""
    yield from rewrite_commands(document, "PM407")


@rule("PM409", "Cluster and job definitions use mdstorm", "exact", "cluster")
def jobs(document: Document) -> Iterator[Edit | Finding]:
    """Yield edits to libraries and install commands."""
    results = [*rewrite_listed(document, "PM409"), *rewrite_commands(document, "PM409")]
    yield from [*results, *elsewhere(document, results, "PM409")]


def elsewhere(
    document: Document, results: Sequence[Edit | Finding], rule: str
) -> Iterator[Finding]:
    """Yield findings about requirements that nothing here is known to install.

    They have a version, or a variable has them that is for pip, by its name, or that a command
    installs. They may also be the lines of a list that a command writes.
    """
    text = command_text(document)
    for requirement in find_requirements(text):
        start, stop = requirement.start, requirement.stop
        is_known = any(one.start < stop and start < one.stop for one in results)
        if is_known or is_commented_out(text, start, ANY):
            continue
        at = max(start - 80, 0)
        is_required = _VERSION.search(text, start, stop) or _FOR_PIP.search(text, at, start)
        if is_required or _is_installed_by_name(document, start):
            yield left(document, requirement, rule)


def _is_installed_by_name(document: Document, start: int) -> bool:
    """Whether a word is in the value of a variable that an install command or an image gets."""
    found = _SET.search(command_text(document), max(start - 80, 0), start)
    if found is None:
        return False
    name = found["name"] or found["env"]
    if found["argument"] and _FOR_IMAGE in name.lower():
        return True
    use = re.compile(rf"\$(?:{name}\b|[{{(]{name}\b[^{{}}()]*[}})])")
    installs = filter(None, map(acts.installs, commands_in(document)))
    return any(use.search(word.text) for one in installs for word in one.packages)
