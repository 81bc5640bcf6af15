"""PM412: pins that mdstorm cannot be installed beside."""

from __future__ import annotations

import re
from collections.abc import Iterator

from mdstorm_migrate.base.document import WRITTEN, Document
from mdstorm_migrate.base.edits import Class, Edit, Finding, Topic
from mdstorm_migrate.packaging.bounds import PYTHON, release
from mdstorm_migrate.packaging.comments import is_commented_out
from mdstorm_migrate.packaging.compiled import is_generated
from mdstorm_migrate.packaging.conda_lists import conda_packages
from mdstorm_migrate.packaging.conflicts import conditions_in, conflicts_in
from mdstorm_migrate.packaging.own_extras import petastorm_keys
from mdstorm_migrate.packaging.pin import PYTHON as PIN_OF_PYTHON
from mdstorm_migrate.packaging.requirement import find_requirements, quoted_word
from mdstorm_migrate.petastorm.names import OLD_ROOT
from mdstorm_migrate.python.module import PythonModule

CODE = "PM412"
TITLE = "Pins leave what mdstorm needs"
CLASS: Class = "review"
KIND = tuple(kind for kind in (*WRITTEN, "kernel", "text") if kind != "spark_conf")

_INSTALLS = re.compile(r""""package"\s*:\s*"mdstorm(?![\w-])""")


def check(module: PythonModule | Document) -> Iterator[Edit | Finding]:
    """Yield the edits of pins that conflict, where mdstorm is installed together with them."""
    document = module.document if isinstance(module, PythonModule) else module
    if document.kind == "kernel":
        yield from _of_kernel(document)
        return
    together = document.needs.together
    if together is None:
        text = document.text
        found = (one.start for one in find_requirements(text))
        together = any(not is_commented_out(text, start) for start in found)
        together = together or bool(petastorm_keys(document)) or OLD_ROOT in conda_packages(text)
    is_left = not together and _is_left(document)
    if not (together or is_left):
        return
    if document.kind == "requirements" and is_generated(document.text):
        return
    for conflict in conflicts_in(document):
        pin = conflict.pin
        if is_left and (conflict.replacement or pin.style != "runtime"):
            continue
        message = f"{conflict.needed}: {conflict.refusal}"
        topic: Topic | None = "python" if pin.name == PIN_OF_PYTHON else None
        if not conflict.replacement:
            span = pin.start, pin.stop
            yield Finding(CODE, "manual", *span, conflict.needed, conflict.needed, topic=topic)
            continue
        start, new = pin.start, conflict.replacement
        if pin.word is not None:  # which a shell would take for a redirection
            start = pin.word
            new = document.text[start : pin.start] + new
            new = quoted_word(document.text, start, pin.stop, new)
        yield Edit(CODE, CLASS, start, pin.stop, new, message, topic=topic)
    for pin, message in conditions_in(document):
        yield Finding(CODE, "note", pin.start, pin.stop, message)


def _of_kernel(document: Document) -> Iterator[Finding]:
    """Yield a note on an old Python that a notebook was run with last: the next may be newer."""
    version = document.text
    if () < release(version) < release(PYTHON):
        what = f"this notebook was run with Python {version}, and mdstorm needs {PYTHON} or newer"
        yield Finding(CODE, "note", 0, len(version), what)


def _is_left(document: Document) -> bool:
    """Whether mdstorm is installed by a file that cannot have a comment on what is left."""
    is_json = document.path is not None and document.path.suffix == ".json"
    return is_json and _INSTALLS.search(document.text) is not None
