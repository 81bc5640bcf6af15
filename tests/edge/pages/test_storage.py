"""The bucket of docs/storage.md has each row once however its loader is used."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.edge.end_to_end.test_documentation import DOCS, python_blocks
from tests.edge.pages.page_programs import column, some
from tests.kit.servers.s3 import S3Server

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset

ROWS = 100


@pytest.fixture
def s3(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3Server]:
    """The bucket of the page, and its credentials in the environment."""
    pytest.importorskip("s3fs")
    with closing(S3Server()) as server:
        monkeypatch.setenv("S3_ENDPOINT_URL", server.url)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        yield server


def run_page(machine: Path) -> dict[str, Any]:
    """Run the page's dataset that is written once, on a machine with disks of its own."""

    def materialize(df: Any, url: str, **options: Any) -> None:
        with MDSWriter(out=url, exist_ok=True, size_limit=600, **options) as writer:
            writer.write_batch(pa.table({"id": df}))

    block = python_blocks(DOCS / "storage.md")[0][1]
    _, begin, program = block.partition("# A dataset that is written once")
    names: dict[str, Any] = {"df": range(ROWS), "materialize": materialize}
    names |= {one.__name__: one for one in (StreamingDataLoader, StreamingDataset)}
    exec((begin + program).replace('"/tmp/', f'"{machine}/'), names)
    return names


def loader_of(page: dict[str, Any]) -> Any:
    return StreamingDataLoader(page["dataset"], batch_size=10)


@pytest.mark.usefixtures("s3")
def test_cell_that_runs_again_reads_each_row_once_after_loops_that_are_left(tmp_path: Path) -> None:
    for _ in range(2):
        loader = loader_of(run_page(tmp_path))
        for steps in (1, 3):
            some(loader, steps)
            assert column(loader) == [*range(ROWS)]


def test_machine_that_has_read_all_shards_needs_the_store_for_none(
    s3: S3Server, tmp_path: Path
) -> None:
    page = run_page(tmp_path)
    assert len(s3.objects("numbers/")) > 2
    s3.remove("numbers/shard")
    assert column(loader_of(page)) == [*range(ROWS)]


@pytest.mark.usefixtures("s3")
def test_state_resumes_on_another_machine_with_the_remaining_rows(tmp_path: Path) -> None:
    loader = loader_of(run_page(tmp_path / "first"))
    seen = some(loader, 4)
    resumed = loader_of(run_page(tmp_path / "second"))
    resumed.load_state_dict(loader.state_dict())
    assert seen + column(resumed) == [*range(ROWS)]
    assert column(resumed) == [*range(ROWS)]
