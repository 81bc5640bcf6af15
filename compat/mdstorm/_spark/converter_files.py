"""What both methods of a converter read, and with which arguments."""

from __future__ import annotations

from typing import Any

from mdstorm._readers.arguments import ReaderArguments

#: Rows.
DEFAULT_BATCH_SIZE = 32


class ConverterFiles:
    """The files of a converter; `SparkDatasetConverter` says what they are."""

    cache_dir_url: str | None
    file_urls: list[str]
    dataset_size: int
    _mdstorm_decimals: str | None
    _mdstorm_version: int | None

    def _mdstorm_arguments(self, keywords: Any, **named: Any) -> ReaderArguments:
        """Return the arguments of a reader.

        Parameters
        ----------
        keywords : ReaderKeywords
            What a method was given; gets what was said of decimals, unless it says something.
        **named
            Further arguments.
        """
        if self._mdstorm_decimals is not None:
            keywords.setdefault("decimals", self._mdstorm_decimals)
        return ReaderArguments(version=self._mdstorm_version, **named, **keywords)
