"""Names of Petastorm that mdstorm lacks: the table in the code, and the page about them."""

import importlib
import re
from pathlib import Path
from typing import Any

import pytest

from mdstorm._petastorm_names import ABSENT

ROOT = Path(__file__).parents[2]
#: Heading under which the page has a section for each group of names.
_HEADING = "## What mdstorm lacks"


def sections() -> dict[str, str]:
    """Return the text of each section, by its anchor."""
    text = (ROOT / ABSENT.page).read_text("utf-8")
    part = text.partition(f"{_HEADING}\n")[2].partition("\n## ")[0]
    pieces = re.split(r"^### (.+)$", part, flags=re.M)[1:]
    titles, texts = pieces[::2], pieces[1::2]
    anchors = [re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles]
    return dict(zip(anchors, texts, strict=True))


def named(text: str) -> set[str]:
    """Return the last parts of the names of Petastorm in the first paragraph of a section."""
    first = text.strip().partition("\n\n")[0]
    return {name.rpartition(".")[2] for name in re.findall(r"`([\w.]+)`", first)}


def test_each_group_of_names_has_a_section() -> None:
    assert sections().keys() == ABSENT.sections.keys()


@pytest.mark.parametrize("section", ABSENT.sections)
def test_a_section_names_what_the_table_says(section: str) -> None:
    in_table = {name.rpartition(".")[2] for name in ABSENT.sections[section]}
    modules = {name.rpartition(".")[0].rpartition(".")[2] for name in ABSENT.sections[section]}
    found = named(sections()[section])
    assert in_table <= found
    assert found <= in_table | modules


def _marked(name: str) -> Any:
    # To look there imports TensorFlow.
    return pytest.param(name, marks=pytest.mark.long) if name.startswith("tf_utils.") else name


@pytest.mark.parametrize("name", [_marked(name) for name in ABSENT.names])
def test_a_name_of_the_table_is_absent(name: str) -> None:
    parent, _, last = f"mdstorm.{name}".rpartition(".")
    try:
        assert not hasattr(importlib.import_module(parent), last)
        importlib.import_module(f"mdstorm.{name}")
    except ModuleNotFoundError:
        return
    pytest.fail(f"{name} is there")


def test_what_is_part_of_an_absent_module_has_its_section() -> None:
    assert (
        ABSENT.replacement("petastorm.hdfs.namenode.HdfsConnector")
        == f"{ABSENT.page}#name-nodes-of-hdfs"
    )
    assert ABSENT.replacement("petastorm.reader.make_reader") is None
