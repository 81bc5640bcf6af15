"""The command ``mdstorm``. Each sub-command loads its module when it is used."""

from __future__ import annotations

import click

import mdstorm

__all__ = ["main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(mdstorm.__version__, prog_name="mdstorm")
def main() -> None:
    """Train from Spark DataFrames: Petastorm's API over MDS shards."""
