"""Where TODO comments stand in YAML, Dockerfiles and scripts."""

from __future__ import annotations

from itertools import pairwise

import pytest
import yaml

from mdstorm_migrate.api import migrate

TODO = "# TODO(mdstorm): PM4"


def marked(text: str, path: str) -> list[str]:
    """Return the lines below comments that a run writes; a second run writes no more."""
    once = migrate(text, path=path)
    again = migrate(once.output, path=path)
    assert again.output == once.output
    assert len(again.findings) == len(once.findings)
    lines = once.output.splitlines()
    assert [line for line in lines if TODO not in line] == text.splitlines()
    return [below for line, below in pairwise(lines) if TODO in line and TODO not in below]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: 1\nargs:\n  x: petastorm==0.12\n", "  x: petastorm==0.12"),
        ("args:\n  - X=petastorm==0.12\n", "  - X=petastorm==0.12"),
        ("steps:\n- run: |\n    a\n    conda install petastorm\n", "- run: |"),
        ("steps:\n- name: x\n  run: >-\n    a\n\n    conda install petastorm\n", "  run: >-"),
        ("script:\n  - |\n    a\n    conda install petastorm\n", "  - |"),
        ("a:\n  run:\n    pip install\n    petastorm==0.12\n", "  run:"),
        ("a: [x,\n  petastorm==0.12]\n", "a: [x,"),
        ("conf:\n  {b: petastorm==0.12}\n", "  {b: petastorm==0.12}"),
        ("x: |\n  a\ny:\n  z: petastorm==0.12\n", "  z: petastorm==0.12"),
    ],
)
def test_in_yaml_above_the_entry_or_the_block(text: str, expected: str) -> None:
    assert marked(text, "ci.yml") == [expected]
    after = migrate(text, path="ci.yml").output
    assert yaml.safe_load(after) == yaml.safe_load(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("FROM a\nRUN conda install petastorm\n", "RUN conda install petastorm"),
        ("RUN a && \\\n  # why\n  conda install \\\n  petastorm\n", "RUN a && \\"),
        ("ARG A\nARG B=petastorm==0.1\n", "ARG B=petastorm==0.1"),
        ("RUN <<EOF\nconda install petastorm\nEOF\n", "conda install petastorm"),
    ],
)
def test_in_dockerfiles_above_the_instruction(text: str, expected: str) -> None:
    assert marked(text, "Dockerfile") == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("set -e\n  conda install petastorm\n", "  conda install petastorm"),
        ("# it's old\nconda install \\\n  petastorm\n", "conda install \\"),
        ("echo 'a\nb'\nconda install petastorm\n", "conda install petastorm"),
    ],
)
def test_in_scripts_above_the_command(text: str, expected: str) -> None:
    assert marked(text, "init.sh") == [expected]


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("ssh h '\nconda install petastorm\n'\n", "init.sh"),
        ("cat > x <<EOF\npetastorm==0.12\nEOF\n", "init.sh"),
        ("COPY <<EOF /r\npetastorm==0.12\nEOF\n", "Dockerfile"),
        ('{"a": "conda install petastorm"}\n', "job.json"),
        ('libs = Seq("petastorm==0.12")\n', "build.sbt"),
        ("# Databricks notebook source\n# MAGIC %sh conda install petastorm\n", "n.py"),
    ],
)
def test_none_where_it_would_be_part_of_a_text(text: str, path: str) -> None:
    result = migrate(text, path=path)
    assert result.output == text
    (found,) = result.findings
    assert found.cls == "manual"
    assert not found.is_marked


def test_cells_of_shells_have_some() -> None:
    text = (
        '{"cells": [{"cell_type": "code", "source": ["%%bash\\n", "conda install petastorm"],'
        ' "outputs": []}], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}'
    )
    after = migrate(text, path="n.ipynb").output
    assert '"%%bash\\n", "# TODO(mdstorm): PM406: ' in after
