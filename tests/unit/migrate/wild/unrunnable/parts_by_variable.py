import petastorm
from petastorm import make_reader
from petastorm.fs_utils import get_filesystem_and_path_or_paths

MAJOR, MINOR = map(int, petastorm.__version__.split(".")[:2])


def count(url):
    with make_reader(url) as reader:
        pieces = reader.dataset.pieces
        return sum(piece.get_metadata().num_rows for piece in pieces)


def frame(url):
    filesystem, path = get_filesystem_and_path_or_paths(url)
    return filesystem.read_parquet(path).to_pandas()


def is_reader(thing, library=petastorm):
    if MINOR < 9:
        return isinstance(thing, library.reader.ReaderV2)
    return type(thing).__module__.startswith("petastorm.")
