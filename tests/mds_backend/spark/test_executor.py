"""What runs on an executor, here with a stand-in for Spark's task context."""

from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pyspark
import pytest
from tests.mds_backend.small_datasets import plan

from mdstorm_backend.spark.executor import write_partition

ROWS = 20_000


def test_the_shards_do_not_depend_on_how_spark_cuts_batches(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = SimpleNamespace(partitionId=lambda: 3, taskAttemptId=lambda: 17)
    monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
    schema = plan({"id": "long", "text": "string"}).to_json()
    table = pa.table({"id": range(ROWS), "text": [str(n) for n in range(ROWS)]})
    contents = []
    for cut in (1, 7, ROWS):
        directory = target / str(cut)
        directory.mkdir(parents=True)
        batches = iter(table.to_batches(max_chunksize=cut))
        place = {"job": "0123abcd", "url": directory.as_uri(), "storage_options": {}}
        how = {"schema": schema, "shard_size": 1 << 20, "compression": None}
        list(write_partition(batches, **place, **how))
        contents.append([path.read_bytes() for path in sorted(directory.iterdir())])
    assert contents[0] == contents[1] == contents[2]
    assert len(contents[0]) == 1
