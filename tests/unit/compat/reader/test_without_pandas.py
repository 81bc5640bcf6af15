"""Reading and converting work without pandas, which a base installation does not include."""

import subprocess
import sys
from pathlib import Path

import pytest
from tests.kit.readers import write_parquet

_PROGRAM = """
import sys

class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "pandas":
            raise ModuleNotFoundError("No module named 'pandas'", name="pandas")

sys.meta_path.insert(0, Absent())
from mdstorm import convert, make_batch_reader
from mdstorm_backend import open_dataset
data, target = sys.argv[1:]
with make_batch_reader("file://" + data, shuffle_row_groups=False) as reader:
    batch = next(reader)
print(batch.number.tolist(), batch.array.tolist(), batch.text.tolist())
dataset = convert(data, target, columns=["number", "array", "text", "flag"], dtype="float32")
with make_batch_reader("file://" + target) as reader:
    print(next(reader).flag.tolist())
print(open_dataset(target)[0]["array"].dtype)
"""


@pytest.mark.newest
def test_readers_and_convert_do_not_need_pandas(tmp_path: Path) -> None:
    columns = {
        "number": [1, None, 3],
        "array": [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]],
        "text": ["a", "b", None],
        "flag": [True, False, True],
    }
    write_parquet(tmp_path / "data", columns)
    paths = str(tmp_path / "data"), str(tmp_path / "mds")
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, *paths], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == [
        "[1.0, nan, 3.0] [[0.5, 1.0], [2.0, 3.0], [4.0, 5.0]] ['a', 'b', None]",
        "[True, False, True]",
        "float32",
    ], done.stderr
