"""The key of the parent cache directory."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

KEY = "petastorm.spark.converter.parentCacheDirUrl"
NEW = "mdstorm.spark.converter.parentCacheDirUrl"
SET = f'spark.conf.set("{KEY}", "file:///tmp/x")\n'


@pytest.mark.parametrize(
    "text",
    [
        SET,
        f"builder = SparkSession.builder.config('{KEY}', url).getOrCreate()\n",
        f'spark.conf.set(key="{KEY}", value=url)\n',
    ],
)
def test_a_literal_that_is_only_set_follows(text: str) -> None:
    check_rewrite(text, text.replace(KEY, NEW))


@pytest.mark.parametrize(
    "rest",
    [
        f'url = spark.conf.get("{KEY}")\n',
        f'conf = {{"{KEY}": url}}\n',
        "spark.conf.get(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)\n",
    ],
)
def test_it_is_to_review_if_the_file_does_more(rest: str) -> None:
    text = SET + rest
    check_noop(text)
    check_finding(text, "PM105", KEY)
    check_rewrite(text, text.replace(KEY, NEW), unsafe=True)


@pytest.mark.parametrize(
    "rest",
    [
        f'spark.sql("SET {KEY} = file:///x")\n',
        f'run(f"spark-submit --conf {KEY}={{url}} a.py")\n',
        f'assert cache, "set {KEY} in the cluster config"\n',
    ],
)
def test_texts_that_name_it_stay_and_let_the_edit_wait(rest: str) -> None:
    check_noop(SET + rest)
    check_rewrite(SET + rest, SET.replace(KEY, NEW) + rest, unsafe=True)


def test_a_constant_in_quotes_needs_manual_review() -> None:
    name = '"SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF"'
    check_finding(f"import petastorm.spark\nspark.conf.set({name}, x)\n", "PM105", name)


def test_prose_and_longer_keys_stay() -> None:
    check_noop(f'x = "set {KEY}"\ny = "{KEY}.other"\n')


@pytest.mark.parametrize(
    "cell", [f"# MAGIC %sql\n# MAGIC SET {KEY} = x\n", f'# MAGIC %scala\n# MAGIC f("{KEY}", x)\n']
)
def test_it_waits_where_a_cell_in_another_language_names_it(cell: str) -> None:
    head = f"# Databricks notebook source\n{cell}\n# COMMAND ----------\n"
    result = check_noop(head + SET, "notebook.py")
    (note,) = (found for found in result.findings if found.rule == "PM100")
    assert "which mdstorm reads after its own" in note.message
    assert [found.cls for found in result.findings if found.rule == "PM105"] == ["review"]
