"""The key of the parent cache directory, and the constant that holds it."""

import pytest
from tests.migrate.checks import check_finding, check_noop

KEY = "petastorm.spark.converter.parentCacheDirUrl"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("a.py", f'spark.conf.set("{KEY}", "file:///tmp/x")\n'),
        ("a.py", f'conf = {{"{KEY}": url}}\nspark.sql("SET {KEY} = file:///x")\n'),
        ("notebook.py", f"# Databricks notebook source\n# MAGIC %sql\n# MAGIC SET {KEY} = x\n"),
        ("spark-defaults.conf", f"spark.x 1\n{KEY}   file:///x\n"),
        ("job.json", f'{{"spark_conf": {{"{KEY}": "x"}}}}'),
        ("main.tf", f'  spark_conf = {{\n    "{KEY}" = "file:///dbfs/tmp"\n  }}\n'),
        ("Dockerfile", f'CMD ["spark-submit", "--conf", "{KEY}=/tmp", "a.py"]\n'),
    ],
)
def test_the_key_stays_and_is_no_mention(path: str, text: str) -> None:
    assert not check_noop(text, path, unsafe=True).findings
    assert check_noop(text.replace(KEY, f"{KEY}.other"), path).findings


def test_the_constant_in_quotes_needs_manual_review() -> None:
    name = '"SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF"'
    check_finding(f"import petastorm.spark\nspark.conf.set({name}, x)\n", "PM105", name)
