"""A new kind of data in one module: a text file that lists Parquet files, a name on each line."""

from mdstorm_backend.kinds import ParquetKind, Place
from mdstorm_backend.parquet import ParquetDataset, open_parquet
from mdstorm_backend.storage import Location

_SUFFIX = ".files"


class FileList(ParquetKind):
    """The Parquet files that a text file lists, in this order."""

    name = "a list of Parquet files"

    def is_named(self, place: Place) -> bool:
        """Whether the only URL ends like that of a list."""
        return place.location is not None and place.location.url.endswith(_SUFFIX)

    def is_at(self, place: Place) -> bool:
        """Whether the only URL is that of a list; other data need no request."""
        return self.is_named(place)

    def open(self, place: Place) -> ParquetDataset:
        """Open the files, whose names begin in the directory of the list."""
        folder, _, name = place.locations[0].url.rpartition("/")
        at = Location.of(folder, place.storage_options, place.filesystem)
        names = bytes(at.read(name)).decode().split()
        return open_parquet([at.child(one) for one in names], cache=place.cache)
