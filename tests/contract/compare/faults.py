"""Faults to plant in programs after recording, and the differences that must be reported."""

from typing import NamedTuple

_HEAD = """\
import sys
import numpy as np
import pyarrow as pa
from petastorm import TransformSpec, make_batch_reader, make_reader
from tests.contract.compare import tables
from tests.contract.conformance.place import DATA

"""

_BATCHES = f"""{_HEAD}
url = tables.write_table(sys.argv[1], ["id", "ratio", "name", "note", "time", "vec", "hole"],
                         rows=60, group=20, files=1, seed=1)
with make_batch_reader(url, shuffle_row_groups=False, num_epochs=2) as reader:
    for batch in reader:
        pass
"""

_TORCH = f"""{_HEAD}
from petastorm.pytorch import DataLoader
url = tables.write_table(sys.argv[1], ["id", "count", "ratio", "flag", "vec"],
                         rows=50, group=10, files=2, seed=2)

def change(frame):
    frame["wave"] = np.sin(frame["ratio"] * 3)
    return frame

def train():
    spec = TransformSpec(change, edit_fields=[("wave", np.float64, (), False)])
    reader = make_batch_reader(url, transform_spec=spec, shuffle_row_groups=True)
    with DataLoader(reader, batch_size=8) as loader:
        for batch in loader:
            pass

for epoch in range(3):
    train()
"""

_ENDLESS = f"""{_HEAD}
from petastorm.pytorch import BatchedDataLoader
url = tables.write_table(sys.argv[1], ["id", "small", "half", "hole", "grid"],
                         rows=40, group=8, files=1, seed=3)
with BatchedDataLoader(make_batch_reader(url, num_epochs=None), batch_size=16) as loader:
    for step, batch in enumerate(loader):
        if step == 5:
            break
"""

_SHARDS = f"""{_HEAD}
from petastorm.pytorch import DataLoader
url = tables.write_table(sys.argv[1], ["id", "count", "ratio"], rows=60, group=10, files=1, seed=4)
for shard in range(3):
    reader = make_batch_reader(url, cur_shard=shard, shard_count=3)
    with DataLoader(reader, batch_size=7) as loader:
        for batch in loader:
            pass
"""

_TF = f"""{_HEAD}
from petastorm.tf_utils import make_petastorm_dataset
url = tables.write_table(sys.argv[1], ["id", "name", "half", "day", "grid"],
                         rows=48, group=12, files=1, seed=5)
with make_batch_reader(url, shuffle_row_groups=False) as reader:
    for batch in make_petastorm_dataset(reader).unbatch().batch(8):
        pass
"""

_ROWS = f"""{_HEAD}
def change(row):
    row["matrix"] = row["matrix"] * 2
    return row

fields = ["id", "name", "matrix", "price", "maybe"]
with make_reader((DATA / "codecs").as_uri(), shuffle_row_groups=False, schema_fields=fields,
                 transform_spec=TransformSpec(change)) as reader:
    for row in reader:
        pass
"""

#: Programs that were recorded with Petastorm, by name.
PROGRAMS = {
    "batches": _BATCHES,
    "torch": _TORCH,
    "endless": _ENDLESS,
    "shards": _SHARDS,
    "tf": _TF,
    "rows": _ROWS,
}


class Fault(NamedTuple):
    """A string in a program, its replacement, and the difference that must be reported."""

    program: str
    old: str
    new: str
    kind: str
    column: str = ""


def _damaged(program: str, damage: str, kind: str, column: str = "") -> Fault:
    return Fault(program, "files=", f"damage=tables.{damage}, files=", kind, column)


FAULTS = (
    # Rows
    _damaged("batches", "lost", "rows"),
    _damaged("torch", "lost", "rows"),
    _damaged("endless", "lost", "rows"),
    _damaged("shards", "lost", "rows"),
    _damaged("tf", "lost", "rows"),
    _damaged("batches", "doubled", "rows"),
    _damaged("torch", "doubled", "rows"),
    _damaged("shards", "doubled", "rows"),
    _damaged("endless", "replaced", "values", "id"),
    _damaged("tf", "replaced", "values", "id"),
    # Types
    _damaged("batches", "cast('ratio', pa.float32())", "dtype", "ratio"),
    _damaged("torch", "cast('count', pa.int64())", "dtype", "count"),
    _damaged("endless", "cast('small', pa.int32())", "dtype", "small"),
    _damaged("shards", "cast('ratio', pa.float32())", "dtype", "ratio"),
    _damaged("tf", "cast('half', pa.float64())", "dtype", "half"),
    _damaged("batches", "cast('time', pa.date32())", "dtype", "time"),
    # Order
    _damaged("batches", "swapped_rows", "order"),
    _damaged("tf", "swapped_rows", "order"),
    Fault("batches", "num_epochs=2", "num_epochs=2, shuffle_rows=True", "order"),
    Fault("rows", "shuffle_row_groups=False", "shuffle_rows=True", "order"),
    # Nulls
    _damaged("batches", "edited('hole', tables.nulls_as(0.0))", "nulls", "hole"),
    _damaged("batches", "edited('note', tables.nulls_as(''))", "values", "note"),
    _damaged("endless", "edited('hole', tables.nulls_as(0.0))", "nulls", "hole"),
    _damaged("endless", "edited('half', tables.set_at(7, None))", "nulls", "half"),
    _damaged("batches", "edited('note', tables.set_at(1, None))", "nulls", "note"),
    # Values
    _damaged("batches", "edited('vec', tables.set_at(11, [0.0, 0.5, 1.0]))", "values", "vec"),
    _damaged("batches", "edited('name', tables.set_at(0, 'other'))", "values", "name"),
    _damaged("torch", "edited('flag', tables.set_at(3, False))", "values", "flag"),
    _damaged("torch", "edited('ratio', tables.set_at(3, 0.123))", "values", "ratio"),
    _damaged("tf", "edited('grid', tables.set_at(4, [4, 4]))", "values", "grid"),
    _damaged("shards", "edited('count', tables.swap)", "pairing"),
    _damaged("batches", "edited('ratio', tables.swap)", "pairing", "ratio"),
    # Epochs and shards
    Fault("batches", "num_epochs=2", "num_epochs=1", "rows"),
    Fault("torch", "range(3)", "range(2)", "calls"),
    Fault("endless", "step == 5", "step == 4", "passes"),
    Fault("shards", "cur_shard=shard", "cur_shard=0", "shards"),
    Fault("shards", "range(3)", "range(2)", "shards"),
    # Transforms and arguments
    Fault("torch", "* 3)", "* 3.01)", "values", "wave"),
    Fault("torch", "batch_size=8", "batch_size=16", "batches"),
    Fault("shards", "batch_size=7", "batch_size=14", "batches"),
    Fault("rows", "* 2", "* 3", "values", "matrix"),
    Fault("tf", "(url, ", '(url, schema_fields=["id", "name", "day", "grid"], ', "columns", "half"),
)
