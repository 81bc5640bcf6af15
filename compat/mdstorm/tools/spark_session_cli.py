"""Arguments of command lines that configure Spark: the mirror of its module in Petastorm."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from typing import Any

from mdstorm.errors import InvalidArgumentError

__all__ = ["add_configure_spark_arguments", "configure_spark"]


def add_configure_spark_arguments(argparser: argparse.ArgumentParser) -> None:
    """Add ``--master`` and ``--spark-session-config`` to a parser."""
    argparser.add_argument("--master", help="Spark's master, such as local[4]; None for its own")
    argparser.add_argument(
        "--spark-session-config",
        nargs="+",
        metavar="KEY=VALUE",
        help="settings of the Spark session, such as spark.executor.memory=10g",
    )


def configure_spark(spark_session_builder: Any, args: argparse.Namespace) -> Any:
    """Configure a builder of Spark sessions as a command line says.

    Parameters
    ----------
    spark_session_builder : pyspark.sql.SparkSession.Builder
        The builder, which is changed.
    args : argparse.Namespace
        What a parser with the arguments of `add_configure_spark_arguments` returned.

    Returns
    -------
    pyspark.sql.SparkSession.Builder
        The same builder.

    Raises
    ------
    RuntimeError
        If the parser did not have the arguments.
    InvalidArgumentError
        If a setting is not of the form ``key=value``; also ValueError.
    """
    if "spark_session_config" not in args or "master" not in args:
        raise RuntimeError(
            "--spark-session-config and/or --master were not found in parsed arguments. Call "
            "add_configure_spark_arguments() to add them."
        )
    for key, value in _settings(args.spark_session_config or ()).items():
        spark_session_builder.config(key, value)
    if args.master:
        spark_session_builder.master(args.master)
    return spark_session_builder


def _settings(pairs: Sequence[str]) -> dict[str, str]:
    settings = {}
    for pair in pairs:
        key, is_pair, value = pair.partition("=")
        if not is_pair or not key:
            raise InvalidArgumentError(
                "Elements of spark_session_config list are expected to be in key=value format. "
                f"Got: {pair!r}"
            )
        settings[key] = value
    return settings
