"""Arguments that are gone."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding

from mdstorm_migrate.api import migrate

HEAD = "import pandas as pd\nimport pyarrow.parquet as pq\nimport mdstorm  # petastorm\n"


@pytest.mark.parametrize(
    ("code", "fragment"),
    [
        ("pq.ParquetDataset(p, validate_schema=False)", "validate_schema=False"),
        ("pq.read_table(p, use_legacy_dataset=True)", "use_legacy_dataset=True"),
        ("df = pd.read_csv(p)\ndf.fillna(method='ffill')", "method='ffill'"),
        ("from pandas import read_csv\nread_csv(p, squeeze=True)", "squeeze=True"),
        ("from pytorch_lightning import Trainer\nTrainer(gpus=1)", "gpus=1"),
        ("df = pd.read_csv(p)\ndf = df.drop('a', 1)", "df.drop('a', 1)"),
        ("import lightning as L\nL.Trainer(gpus=1)", "gpus=1"),
    ],
)
def test_an_argument_that_is_gone_is_named(code: str, fragment: str) -> None:
    check_finding(HEAD + code, "PM303", fragment)


@pytest.mark.parametrize(
    "code",
    [
        "df.fillna(method='ffill')",  # may be Spark's, or anything
        "pd.read_csv(p, sep=',')",
        "df = pd.read_csv(p)\ndf = df.drop('a', axis=1)",
        "df = spark.table(t).drop('a', 'b')",
        "read_csv(p, squeeze=True)",
        "try:\n    pd.read_csv(p, squeeze=True)\nexcept TypeError:\n    pd.read_csv(p)",
        "pq.read_table(p, filesystem=fs)",
        "df = spark.read.csv(p)\ndf.fillna(0)",
    ],
)
def test_others_are_not(code: str) -> None:
    assert not migrate(HEAD + code).findings


def test_arguments_with_one_advice_are_one_finding() -> None:
    code = "pd.read_csv(p, error_bad_lines=False, warn_bad_lines=True)\n"
    (found,) = migrate(HEAD + code).findings
    assert "read_csv(error_bad_lines=)`, `read_csv(warn_bad_lines=)` are gone" in found.message


@pytest.mark.parametrize(
    ("pin", "is_named"),
    [("pytorch-lightning==1.6.3", False), ("lightning<2", False), ("lightning==2.1", True)],
)
def test_lightning_that_the_file_pins_below_2_has_its_arguments(pin: str, is_named: bool) -> None:
    text = (
        f"# Databricks notebook source\n# MAGIC %pip install {pin}\n\n# COMMAND ----------\n\n"
        f"{HEAD}from pytorch_lightning import Trainer\nTrainer(gpus=1)\n"
    )
    assert any(found.rule == "PM303" for found in migrate(text).findings) == is_named
