"""Damage done to the datasets that Petastorm wrote, and the reading that has to survive it."""

import warnings
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory

from tests.mds_backend.fuzz.mutations import damaged_bytes

from mdstorm import make_batch_reader, make_reader
from mdstorm.errors import MDStormError

_DATA = Path(__file__).with_name("data")


def attack_dataset(name: str, random: Random) -> bool:
    """Read a dataset with a damaged file; whether all could be read. Raises what it should not."""
    with TemporaryDirectory() as folder:
        copy = copytree(_DATA / name, Path(folder, name))
        file = random.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        file.write_bytes(_damaged_parquet(file, random))
        make = random.choice((make_reader, make_batch_reader))
        warnings.simplefilter("ignore")
        try:
            with make(copy.as_uri(), reader_pool_type="dummy", num_epochs=1) as reader:
                return sum(1 for _ in reader) >= 0
        except (MDStormError, UnicodeDecodeError):  # of texts in damaged pages
            return False


def _damaged_parquet(file: Path, random: Random) -> bytes:
    """Damage the footer of a file of metadata, with Petastorm's pickles, or the pages of others.

    pyarrow lets some damage to what a footer says of columns end the process.
    """
    data = file.read_bytes()
    start = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    if not file.name.startswith("_"):
        return damaged_bytes(data[:start], random) + data[start:]
    footer = damaged_bytes(data[start:-8], random)
    return data[:start] + footer + len(footer).to_bytes(4, "little") + data[-4:]


#: What is attacked, which of it, and how often each.
ATTACKS = ((attack_dataset, ("cities", "codecs", "places", "series"), 20),)
