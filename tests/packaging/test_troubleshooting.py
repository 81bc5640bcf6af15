"""The page about errors: each class has its section, and the texts that it quotes are raised."""

import ast
import re
from pathlib import Path

import pytest

import mdstorm.errors

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
#: Stands for a value in a message.
GAP = "…"


def quoted() -> list[str]:
    """Return the texts at the beginnings of the items of the lists."""
    return re.findall(r"^- `([^`]+)`", PAGE, re.M)


def texts_of(node: ast.AST) -> list[str]:
    """Return the texts below a node, with a gap in the place of each value."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.JoinedStr):
        parts = [p.value if isinstance(p, ast.Constant) else GAP for p in node.values]
        return ["".join(map(str, parts))]
    return []


@pytest.fixture(scope="module")
def texts() -> str:
    files = [
        p for name in ("compat", "mds_backend", "migrate") for p in (ROOT / name).rglob("*.py")
    ]
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text("utf-8"))))
    return "\n".join(text for node in nodes for text in texts_of(node))


def test_each_error_has_a_section() -> None:
    sections = re.findall(r"^### (\w+Error)$", PAGE, re.M)
    assert sorted(sections) == sorted(mdstorm.errors.__all__)


@pytest.mark.parametrize("quote", quoted())
def test_what_is_quoted_is_a_message(quote: str, texts: str) -> None:
    parts = [re.escape(part.strip()) for part in quote.split(GAP) if part.strip(" .,:()'\"")]
    assert re.search(r"[^\n]*?".join(parts), texts)
