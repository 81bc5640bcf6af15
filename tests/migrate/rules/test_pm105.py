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


def test_prose_and_longer_keys_stay() -> None:
    check_noop(f'x = "set {KEY}"\ny = "{KEY}.other"\n')
