"""Messages quoted on the pages exist in the code; names that are listed as missing do not."""

import ast
import importlib
import re
import runpy
from typing import Any

import pytest
from tests.packaging.pages import ROOT, anchor_of

import mdstorm.errors
from mdstorm_migrate.petastorm.absent import SECTIONS

#: The page about errors, which quotes the messages.
TROUBLES = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8")
DIFFERENCES = ROOT / "docs" / "differences.md"
#: A placeholder for a value in a message.
GAP = "…"


def texts_of(node: ast.AST) -> list[str]:
    """Return the text of a string node, with a placeholder for each value."""
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


def test_each_error_has_section_on_troubleshooting_page() -> None:
    sections = re.findall(r"^### (\w+Error)$", TROUBLES, re.M)
    assert sorted(sections) == sorted(mdstorm.errors.__all__)


@pytest.mark.parametrize("quote", re.findall(r"^- `([^`]+)`", TROUBLES, re.M))
def test_quoted_messages_exist_in_the_code(quote: str, texts: str) -> None:
    parts = [re.escape(part.strip()) for part in quote.split(GAP) if part.strip(" .,:()'\"")]
    assert re.search(r"[^\n]*?".join(parts), texts)


def test_index_of_messages_lists_them_by_class() -> None:
    script = runpy.run_path(str(ROOT / "scripts" / "list_messages.py"))
    page = script["page"](mdstorm.errors.__all__)
    assert page.count("\n- ") > 500
    heading = "## [StateMismatchError](troubleshooting.md#statemismatcherror)\n"
    listed = page.partition(heading)[2].partition("\n## ")[0]
    assert "a state must be a dict that state_dict() returned, found …" in listed
    assert "Converting floating-point columns to …" in page.partition("## Warnings\n")[2]


def sections() -> dict[str, str]:
    """Return the sections about names that mdstorm does not provide, by anchor."""
    text = DIFFERENCES.read_text("utf-8")
    part = text.partition("## What mdstorm lacks\n")[2].partition("\n## ")[0]
    pieces = re.split(r"^### (.+)$", part, flags=re.M)[1:]
    return dict(zip(map(anchor_of, pieces[::2]), pieces[1::2], strict=True))


def differences() -> dict[str, str]:
    """Return the sections of the page about differences, by anchor."""
    pieces = re.split(r"^##+ (.+)$", DIFFERENCES.read_text("utf-8"), flags=re.M)[1:]
    return dict(zip(map(anchor_of, pieces[::2]), pieces[1::2], strict=True))


def test_sections_in_index_of_differences_mention_its_names() -> None:
    text = differences()
    rows = re.findall(r"^\| (`.+) \| (\[.+) \|$", text["index"], re.M)
    assert len(rows) > 10
    for cell, links in rows:
        linked = "".join(text[anchor] for anchor in re.findall(r"\(#([^)]+)\)", links))
        assert not [name for name in re.findall(r"`([^`]+)`", cell) if name not in linked]


def named(text: str) -> set[str]:
    """Return the last part of each Petastorm name in a section's first paragraph."""
    first = text.strip().partition("\n\n")[0]
    return {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", first)}


def test_each_group_of_missing_names_has_a_section_on_the_page() -> None:
    assert sections().keys() == SECTIONS.keys()


@pytest.mark.parametrize("section", SECTIONS)
def test_section_lists_missing_names_in_its_group(section: str) -> None:
    in_table = {name.rpartition(".")[2] for name in SECTIONS[section]}
    modules = {name.rpartition(".")[0].rpartition(".")[2] for name in SECTIONS[section]}
    found = named(sections()[section])
    assert in_table <= found
    assert found <= in_table | modules


def _marked(name: str) -> Any:
    # Looking up a name in these imports PyTorch or TensorFlow.
    imports_framework = name.startswith(("pytorch.", "tf_utils."))
    return pytest.param(name, marks=pytest.mark.long) if imports_framework else name


@pytest.mark.parametrize(
    "name", [_marked(name) for names in SECTIONS.values() for name in sorted(names)]
)
def test_name_listed_as_missing_does_not_exist(name: str) -> None:
    parent, _, last = f"mdstorm.{name}".rpartition(".")
    try:
        assert not hasattr(importlib.import_module(parent), last)
        importlib.import_module(f"mdstorm.{name}")
    except ModuleNotFoundError:
        return
    pytest.fail(f"{name} exists")
