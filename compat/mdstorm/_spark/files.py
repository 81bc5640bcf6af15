"""Open the files of a converter."""

from __future__ import annotations

from collections.abc import Sequence

from mdstorm._datasets.file_lists import open_files
from mdstorm._datasets.petastorm_source import with_float_decimals
from mdstorm._readers.arguments import ReaderArguments
from mdstorm_backend.datasets import Dataset
from mdstorm_backend.format import become_floats
from mdstorm_backend.parquet import ParquetDataset
from mdstorm_backend.read import SampleSource


def read_converted(
    cache_dir_url: str | None, file_urls: Sequence[str], arguments: ReaderArguments
) -> SampleSource:
    """Open the dataset of a converter as `open_converted`, with decimals as the arguments say."""
    dataset = open_converted(cache_dir_url, file_urls, arguments)
    if not become_floats(arguments.decimals):
        return dataset
    source: SampleSource = with_float_decimals(dataset, arguments.decimals)
    return source


def open_converted(
    cache_dir_url: str | None, file_urls: Sequence[str], arguments: ReaderArguments
) -> Dataset | ParquetDataset:
    """Open the dataset of a converter.

    Parameters
    ----------
    cache_dir_url : str or None
        Directory of the dataset; None for the one that the files are in.
    file_urls : sequence of str
        Its files, as `open_files` takes them.
    arguments : ReaderArguments
        How to get at them: ``storage_options`` or, for Parquet files alone, ``filesystem``.

    Raises
    ------
    InvalidArgumentError
        If there is no file, or shards are not of that dataset.
    DatasetNotFoundError
        If it is gone.
    """
    return open_files(
        file_urls,
        directory=cache_dir_url,
        storage_options=arguments.storage_options,
        filesystem=arguments.filesystem,
        as_of=arguments.as_of,
    )
