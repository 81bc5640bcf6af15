"""Damage datasets that Petastorm wrote, and read them: the process must not crash."""

import warnings
from pathlib import Path
from random import Random
from shutil import copytree
from tempfile import TemporaryDirectory

from tests.slow.fuzz.mutations import damaged_bytes

from mdstorm import make_batch_reader, make_reader
from mdstorm.errors import MDStormError

_DATA = Path(__file__).with_name("data")


def attack_dataset(name: str, random: Random) -> bool:
    """Damage a copy of a dataset and read it; return whether it could be read to its end."""
    with TemporaryDirectory() as folder:
        copy = copytree(_DATA / name, Path(folder, name))
        file = random.choice(sorted(path for path in copy.rglob("*") if path.is_file()))
        file.write_bytes(_damaged_parquet(file.read_bytes(), random))
        make = random.choice((make_reader, make_batch_reader))
        warnings.simplefilter("ignore")
        try:
            with make(copy.as_uri(), reader_pool_type="dummy", num_epochs=1) as reader:
                return sum(1 for _ in reader) >= 0
        except (MDStormError, UnicodeDecodeError):  # damaged text cannot be decoded
            return False


def _damaged_parquet(data: bytes, random: Random) -> bytes:
    """Damage bytes anywhere or only in the footer, which has Petastorm's metadata and pickles."""
    if random.random() < 0.3:
        return damaged_bytes(data, random)
    length = int.from_bytes(data[-8:-4], "little")
    footer = damaged_bytes(data[-8 - length : -8], random)
    return data[: -8 - length] + footer + len(footer).to_bytes(4, "little") + data[-4:]


#: The attack, its targets, and the number of attacks on each target.
ATTACKS = ((attack_dataset, ("cities", "codecs", "places", "series"), 20),)
