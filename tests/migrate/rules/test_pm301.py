"""Converters that become MDS datasets."""

from __future__ import annotations

import json

import pytest
from tests.migrate.streaming_checks import CONF, IMPORT, MADE, check_stays, check_turned, streamed

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (MADE, "conv = write_mds(df, mds_directory)"),
        (f"{MADE}other = conv\nlen(other)\n", "StreamingDataset(local=other).size"),
        (
            "import petastorm.spark as ps\n"
            "spark.conf.set(ps.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, 'file:///x')\n"
            "conv = ps.make_spark_converter(df, dtype=None)\n",
            "conv = write_mds(df, mds_directory, floats=None)",
        ),
        (
            "import petastorm.spark\n"
            "spark.conf.set('petastorm.spark.converter.parentCacheDirUrl', 'file:///x')\n"
            "conv = petastorm.spark.make_spark_converter(df=f(x), dtype='float64')\n",
            'conv = write_mds(f(x), mds_directory, floats="double")',
        ),
        (
            f"{IMPORT}{CONF}def f():\n    conv = make_spark_converter(\n        df.limit(4))\n",
            "conv = write_mds(df.limit(4), mds_directory)",
        ),
    ],
)
def test_a_converter_becomes_a_directory(text: str, expected: str) -> None:
    output = check_turned(text, expected, "mds_directory = 'file:///x'")
    assert output.count("def write_mds(") == 1


def test_parameters_and_annotations_are_followed() -> None:
    check_turned(
        f"{MADE}def rows(one: SparkDatasetConverter) -> int:\n    return len(one)\nrows(conv)\n",
        "def rows(one: str) -> int:",
        "return StreamingDataset(local=one).size",
    )


def test_imports_in_a_function_stay_there() -> None:
    indented = "".join(f"    {line}\n" for line in MADE.splitlines())
    output = check_turned(f"def f():\n{indented}    return len(conv)\n", "import uuid")
    assert output.startswith("def f():\n    import uuid\n    from streaming import")


def test_a_converter_beside_one_that_stays() -> None:
    output = streamed(
        f"{MADE}two = make_spark_converter(b)\nlen(conv)\ntwo.make_tf_dataset()\n"
    ).output
    assert "conv = write_mds(df, mds_directory)" in output
    assert "two = make_spark_converter(b)" in output
    assert "PARENT_CACHE_DIR_URL_CONF, mds_directory)" in output
    assert IMPORT in output


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (f"{IMPORT}conv = make_spark_converter(df)\n", "outside of this file"),
        (f"{IMPORT}{CONF}{CONF}conv = make_spark_converter(df)\n", "several times"),
        (f"{IMPORT}def f():\n    {CONF}conv = make_spark_converter(df)\n", "not known where"),
        (MADE.replace("file:", "hdfs:"), "does not write to hdfs:"),
        (f"{MADE}train(conv)\n", "outside of this file"),
        (f"def f():\n    return conv\n{MADE}", "outside of this file"),
        (f"{MADE}conv = 1\n", "means other things"),
        (f"{MADE}conv.file_urls\n", ".file_urls"),
        (f"{IMPORT}{CONF}a = {{k: make_spark_converter(v) for k, v in x}}\n", "name of its own"),
        (f"{IMPORT}{CONF}conv = make_spark_converter(df, **x)\n", "cannot be told apart"),
        (f"uuid = 1\n{MADE}", "`uuid` is taken"),
        (f"def write_mds(): pass\n{MADE}", "`write_mds` is taken"),
        (
            f"try:\n    {IMPORT}except ImportError: pass\n{CONF}conv = make_spark_converter(df)\n",
            "may not come",
        ),
    ],
)
def test_what_cannot_be_followed_stays(text: str, reason: str) -> None:
    check_stays(text, reason)


def test_without_unsafe_nothing_changes_but_it_is_said() -> None:
    result = migrate(MADE, target="streaming")
    assert not result.changed
    assert {found.cls for found in result.findings} == {"review"}


def test_one_edit_that_is_not_wanted_keeps_all() -> None:
    text = f"{MADE}len(conv)\n"
    assert not streamed(text, ignore=["PM305"]).changed
    assert not streamed(text.replace("len(conv)", "len(conv)  # mdstorm: ignore")).changed


def test_line_ends_are_those_of_the_file() -> None:
    output = streamed(MADE.replace("\n", "\r\n")).output
    assert "\n" not in output.replace("\r\n", "")


def test_nothing_moves_to_another_cell() -> None:
    cell = '{"cell_type": "code", "metadata": {}, "outputs": [], "source": %s}'
    sources = [IMPORT.rstrip(), "import os", CONF + "conv = make_spark_converter(df)"]
    cells = ", ".join(cell % json.dumps(source) for source in sources)
    text = f'{{"cells": [{cells}], "metadata": {{}}, "nbformat": 4, "nbformat_minor": 4}}'
    output = json.loads(streamed(text, path="a.ipynb").output)
    first, second, third = (one["source"] for one in output["cells"])
    assert first.endswith("    return out")
    assert second == "import os"
    assert third == "mds_directory = 'file:///x'\nconv = write_mds(df, mds_directory)"
