"""Parquet files that are not a table."""

from __future__ import annotations

from dataclasses import replace

from mdstorm_backend.kinds.kind import ParquetKind
from mdstorm_backend.kinds.place import Place
from mdstorm_backend.parquet import ParquetDataset, open_listed, open_parquet
from mdstorm_backend.storage import Location
from mdstorm_backend.tables import check_as_of

#: Names of Parquet files, including the suffixes of older tools.
_FILES = "*.par*q*"
#: Partition directories, which may be nested: `year=2024/month=5`.
_PARTITIONS = "*=*"
_MOST_LEVELS = 8
#: A metadata-only file that Petastorm writes next to the data.
_METADATA = "_common_metadata"


class ParquetFiles(ParquetKind):
    """Parquet files, also of Petastorm: one, several, a pattern, or those in a directory."""

    name = "Parquet files"
    format = "parquet"
    asked = "last"

    def is_at(self, place: Place) -> bool:
        """Whether a file begins like Parquet, or a directory has files with Parquet's names."""
        one = place.location
        described = None if one is None else one.describe()
        if one is None or described is None:
            return False
        if described.get("type") != "file":
            return _holds_parquet(one)
        directory, _, name = one.url.rpartition("/")
        return replace(one, url=directory).read_range(name, 0, 4) == b"PAR1"

    def open(self, place: Place) -> ParquetDataset:
        """Open the files."""
        check_as_of(place.as_of, place.url)
        if place.table is not None:
            return open_listed(place.url, place.table.location, place.cache)
        dataset = open_parquet(
            place.locations,
            cache=place.cache,
            may_be_unfinished=place.may_be_unfinished,
            partitioned=place.partitioned,
        )
        if place.directory is None or not place.is_named or dataset.root is not None:
            return dataset
        named = Location.of(place.directory, place.storage_options, place.filesystem)
        is_inside = all(url.startswith(named.file_url("")) for url in dataset.file_urls)
        return replace(dataset, root=named) if is_inside else dataset

    def described(self, place: Place) -> tuple[str, str]:
        """Return whether this is one file, and whether Petastorm wrote it."""
        location = place.locations[0]
        if (location.describe() or {}).get("type") == "file":
            return "a Parquet file", self.reader
        if location.exists(_METADATA):
            what = f"Parquet files with {_METADATA}, as Petastorm writes them"
            return what, "mdstorm.make_reader"
        return self.name, self.reader


def _holds_parquet(location: Location) -> bool:
    """Whether a directory has Parquet files; only one partition is listed at each level."""
    for _ in range(_MOST_LEVELS):
        if location.list_matches(_FILES):
            return True
        partitions = location.list_matches(_PARTITIONS)
        if not partitions:
            return False
        location = location.child(partitions[0])
    return False
