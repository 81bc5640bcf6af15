"""The key of the parent cache directory."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite

KEY = "petastorm.spark.converter.parentCacheDirUrl"
SET = f'spark.conf.set("{KEY}", "file:///tmp/x")\n'


@pytest.mark.parametrize(
    "text",
    [
        SET,
        f"builder = SparkSession.builder.config('{KEY}', url).getOrCreate()\n",
        f'SparkConf().set(\n    "{KEY}",  # the key\n    url)\n',
        f'spark.conf.set(key="{KEY}", value=url)\n',
    ],
)
def test_a_literal_that_is_only_set_follows(text: str) -> None:
    check_rewrite(text, text.replace(KEY, f"md{KEY.removeprefix('peta')}"))


@pytest.mark.parametrize(
    "rest",
    [
        f'url = spark.conf.get("{KEY}")\n',
        f'spark.conf.unset("{KEY}")\n',
        f'conf = {{"{KEY}": url}}\n',
        "spark.conf.get(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)\n",
    ],
)
def test_it_is_to_review_if_the_file_does_more(rest: str) -> None:
    text = SET + rest
    check_noop(text)
    check_finding(text, "PM105", KEY)
    check_rewrite(text, text.replace(KEY, f"md{KEY.removeprefix('peta')}"), unsafe=True)


def test_a_constant_in_quotes_needs_manual_review() -> None:
    name = '"SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF"'
    check_finding(f"import petastorm.spark\nspark.conf.set({name}, x)\n", "PM105", name)


def test_a_message_that_asks_people_to_set_it_is_no_command() -> None:
    text = f'cache = spark.conf.get("{KEY}")\nassert cache, "set {KEY} in the cluster config"\n'
    (found,) = (one for one in check_noop(text).findings if one.rule == "PM105")
    assert "this file does more than set it" in found.message


def test_prose_and_longer_keys_stay() -> None:
    check_noop(f'x = "set {KEY}"\ny = "{KEY}.other"\n')


@pytest.mark.parametrize(
    "text",
    [
        f'spark.sql("SET {KEY} = file:///x")\n',
        f'spark.sql(f"set {KEY}={{url}}")\n',
        f'args = ["spark-submit", "--conf", "{KEY}=file:///x", "a.py"]\n',
        f'run(f"spark-submit --conf {KEY}={{url}} a.py")\n',
        f'{SET}spark.sql("SET `{KEY}`")\n',
    ],
)
def test_in_sql_and_commands_it_is_to_review(text: str) -> None:
    check_noop(text)
    check_rewrite(text, text.replace(KEY, f"md{KEY.removeprefix('peta')}"), unsafe=True)


@pytest.mark.parametrize(
    "compared",
    [
        f'assert SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF == "{KEY}"\n',
        f'self.assertEqual("{KEY}", SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF)\n',
        f'WANTED = "{KEY}"\nassert SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF == WANTED\n',
    ],
)
def test_what_the_constant_is_compared_with_stays(compared: str) -> None:
    check_noop(compared, unsafe=True)
    check_rewrite(
        SET + compared, SET.replace(KEY, f"md{KEY.removeprefix('peta')}") + compared, unsafe=True
    )


@pytest.mark.parametrize(
    "asserted",
    [
        f'spark.conf.set.assert_called_once_with("{KEY}", url)\n',
        f'spark.conf.set.assert_has_calls([mock.call("{KEY}", url)])\n',
    ],
)
def test_what_a_mock_waits_for_stays(asserted: str) -> None:
    check_noop(asserted, unsafe=True)
    check_finding(asserted, "PM105", f'"{KEY}"')


@pytest.mark.parametrize(
    "cell", [f"# MAGIC %sql\n# MAGIC SET {KEY} = x\n", f'# MAGIC %scala\n# MAGIC f("{KEY}", x)\n']
)
def test_it_waits_where_a_cell_in_another_language_names_it(cell: str) -> None:
    head = f"# Databricks notebook source\n{cell}\n# COMMAND ----------\n"
    result = check_noop(head + SET, "notebook.py")
    (note,) = (found for found in result.findings if found.rule == "PM100")
    assert "which mdstorm reads after its own" in note.message
    (edit,) = (found for found in result.findings if found.rule == "PM105")
    assert "another cell names the old key" in edit.message
