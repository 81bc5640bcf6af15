"""How messages are written, wherever they are raised."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = ("compat/mdstorm", "mds_backend/mdstorm_backend", "migrate/mdstorm_migrate")

_RUN = re.compile(r"\S {2,}\S|\n {2,}\S.*\n {2,}\S")
#: What shows a message: raising it, or one of these.
_SHOWN_BY = {"warn_user", "warning", "error", "info", "debug", "exception", "echo", "exit"}


def shown(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield what is raised, logged and printed."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise) and node.exc is not None:
            yield node.exc
        elif isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in _SHOWN_BY or name.endswith("Error"):
                yield node


def with_runs_of_blanks(source: str) -> list[tuple[int, str]]:
    """Return line and text of each message in which blanks follow each other."""
    found = {
        (text.lineno, text.value)
        for message in shown(ast.parse(source))
        for text in ast.walk(message)
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    }
    return sorted((line, text) for line, text in found if _RUN.search(text))


def test_messages_have_no_runs_of_blanks() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}": text
        for package in PACKAGES
        for path in (ROOT / package).rglob("*.py")
        for line, text in with_runs_of_blanks(path.read_text("utf-8"))
    }
    assert found == {}
