"""PM412: pins that mdstorm cannot be installed beside."""

from __future__ import annotations

from collections.abc import Iterator

from mdstorm_migrate.base.document import Document
from mdstorm_migrate.base.edits import Class, Edit
from mdstorm_migrate.packaging.conflicts import conflicts_in
from mdstorm_migrate.packaging.requirement import find_requirements, is_generated
from mdstorm_migrate.python.module import PythonModule

CODE = "PM412"
TITLE = "Pins leave what mdstorm needs"
CLASS: Class = "review"
KIND = (
    "cluster",
    "conda",
    "docker",
    "magic",
    "pipfile",
    "pyproject",
    "python",
    "requirements",
    "setup_cfg",
    "shell",
    "text",
)


def check(module: PythonModule | Document) -> Iterator[Edit]:
    """Yield the edits of pins that conflict, where mdstorm is installed together with them."""
    document = module.document if isinstance(module, PythonModule) else module
    together = document.needs.together
    if together is None:
        together = any(find_requirements(document.text))
    if not together or (document.kind == "requirements" and is_generated(document.text)):
        return
    for conflict in conflicts_in(document):
        pin = conflict.pin
        message = f"{conflict.needed}: no installer takes it beside `{conflict.shown}`"
        yield Edit(CODE, CLASS, pin.start, pin.stop, conflict.replacement, message)
