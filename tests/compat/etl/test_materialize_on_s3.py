"""`materialize_dataset` in an object store, where metadata are one object, sent at once."""

import json
from pathlib import Path

import fsspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.compat.etl.test_materialize_dataset import IDS
from tests.servers.s3 import BUCKET, S3Server

from mdstorm.etl.dataset_metadata import ROW_GROUPS_PER_FILE_KEY, materialize_dataset
from mdstorm.reader import make_reader


@pytest.mark.long
def test_metadata_are_one_upload_after_the_files(tmp_path: Path) -> None:
    pytest.importorskip("s3fs")
    server = S3Server()
    try:
        options = {**server.options(), "key": "a", "secret": "b"}
        system = fsspec.filesystem("s3", **options)
        for name in ("a.parquet", "b.parquet"):
            pq.write_table(pa.table({"id": [1, 2]}), tmp_path / name)
            for url in (f"s3://{BUCKET}/data", f"{BUCKET}/data"):
                server.reset()
                with materialize_dataset(None, url, IDS, filesystem_factory=lambda: system):
                    system.put_file(str(tmp_path / name), f"{BUCKET}/data/{name}")
                uploads = [path for method, path in server.requests if method in ("PUT", "POST")]
                assert [path.rpartition("/")[2] for path in uploads] == [name, "_common_metadata"]
        with system.open(f"{BUCKET}/data/_common_metadata") as file:
            counts = json.loads(pq.read_metadata(file).metadata[ROW_GROUPS_PER_FILE_KEY])
        assert counts == {"a.parquet": 1, "b.parquet": 1}
        url = f"s3://{BUCKET}/data"
        with make_reader(url, shuffle_row_groups=False, storage_options=options) as reader:
            assert [int(row.id) for row in reader] == [1, 2, 1, 2]
    finally:
        server.close()
