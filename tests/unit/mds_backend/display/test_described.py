"""The repr and notebook output of objects in any state."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from mdstorm_backend import MDSWriter, StreamingDataLoader, StreamingDataset, open_dataset
from mdstorm_backend.datasets.open_streams import JoinedDataset
from mdstorm_backend.display import Described, Description, counted, human_bytes, shown_url
from mdstorm_backend.elastic import ElasticOrder
from mdstorm_backend.order import ExactOrder, World
from mdstorm_backend.storage import Location


class Told(Described):
    def __init__(self, tell: Callable[[bool], Description]) -> None:
        self.tell = tell

    def _mdstorm_description(self, *, full: bool) -> Description:
        return self.tell(full)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "it"
    columns = {"id": "int64", "<b>": "str"}
    with MDSWriter(columns=columns, out=str(path), size_limit=300, compression="zstd") as writer:
        for number in range(40):
            writer.write({"id": number, "<b>": "x"})
    return path


def text(html: str) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", html).split())


def test_html_is_escaped_and_uncoloured() -> None:
    row = ["<script>", "a & b"]
    html = Told(lambda _: Description(["x"], [("<i>", '"q"')], row, [row]))._repr_html_()
    assert "<script>" not in html
    assert "<i>" not in html
    assert "&lt;script&gt;" in html
    assert "color" not in html


def test_repr_raises_no_error_if_the_description_fails() -> None:
    def fails(full: bool) -> Description:
        raise OSError("closed")

    def half(full: bool) -> Description:
        return Description(["line"]) if not full else fails(full)

    assert repr(Told(fails)) == "Told(cannot be described now)"
    assert "cannot be described now" in Told(fails)._repr_html_()
    assert text(Told(half)._repr_html_()) == "Told line"


def test_repr_of_a_dataset_shows_rows_shards_bytes_and_columns(folder: Path) -> None:
    dataset = open_dataset(str(folder))
    assert re.fullmatch(
        r"Dataset\('file:///\S+', 40 rows, \d+ shards, [\d.]+ kB\)", repr(dataset)
    ), repr(dataset)
    shown = text(dataset._repr_html_())
    assert "stored" in shown
    assert "id int64 none" in shown
    assert "&lt;b&gt; str none" in shown
    assert repr(dataset.schema) == "Schema(<b> str, id int64)"
    assert "80 rows" in repr(JoinedDataset([dataset, dataset]))


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        (ExactOrder(), "exact order, sequential"),
        (ExactOrder(seed=5, shuffle_rows=True), "exact order, rows shuffled, seed 5"),
        (
            ExactOrder(shuffle_shards=True, window=9, rank=2, world_size=3),
            "exact order, shards and rows shuffled, seed 9176, rank 2 of 3: 13 rows",
        ),
        (
            ElasticOrder(2, shuffle=True, shuffle_seed=3, world=World(1, 2)),
            "elastic order, shuffled by py1e, seed 3, rank 1 of 2",
        ),
        (ElasticOrder(2), "elastic order, sequential"),
    ],
)
def test_repr_of_a_dataset_shows_order_and_share(order: Any, expected: str, folder: Path) -> None:
    dataset = StreamingDataset(local=str(folder), order=order)
    assert dataset.num_samples == 40  # opens the dataset
    assert repr(dataset).endswith(f" kB, {expected})")
    assert expected.partition(", rank")[0] in text(dataset._repr_html_())


def test_repr_shows_the_share_of_the_rank_set_by_the_launcher(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = StreamingDataset(local=str(folder))
    assert "rank" not in repr(dataset)
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert repr(dataset).endswith("rank 1 of 4)")
    monkeypatch.setenv("RANK", "x")
    assert "not known" in repr(dataset)


def test_repr_of_a_loader_shows_data_and_progress(folder: Path) -> None:
    loader = StreamingDataLoader(StreamingDataset(local=str(folder)), batch_size=8)
    assert repr(loader).endswith("elastic order, sequential, batch_size=8, num_workers=0)")
    assert len(list(loader)) == 5
    assert "so far 5 batches, 40 rows" in text(loader._repr_html_())
    assert re.fullmatch(
        r"Statistics\(5 batches, 40 rows, \d+ % waiting\)", repr(loader.statistics())
    )


def test_repr_omits_unread_columns(folder: Path) -> None:
    dataset = StreamingDataset(local=str(folder), columns=["id"], batch_size=1)
    for _ in ("unopened", "opened"):
        shown = text(StreamingDataLoader(dataset, batch_size=1)._repr_html_())
        assert "id int64" in shown
        assert "&lt;b&gt;" not in shown
        assert list(dataset[0]) == ["id"]


def test_repr_of_a_writer_shows_target_and_columns(tmp_path: Path) -> None:
    writer = MDSWriter(columns={"id": "int64"}, out=str(tmp_path / "it"))
    assert repr(writer) == f"MDSWriter('{tmp_path}/it', columns={{'id': 'int64'}})"
    writer.finish()


def test_repr_of_a_dataset_opens_no_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    remote = StreamingDataset(remote="s3://me:word@nowhere/x", order=ExactOrder())
    local = StreamingDataset(local=str(folder), order=ExactOrder())

    def refused(self: Location, name: str) -> bytes:
        raise AssertionError(f"{name} was read")

    with monkeypatch.context() as patch:
        patch.setattr(Location, "read", refused)
        assert repr(remote) == "StreamingDataset('s3://me:***@nowhere/x', exact order, sequential)"
        assert "state not opened" in text(remote._repr_html_())
        assert "rows" not in repr(local)
    assert "rows 40" in text(local._repr_html_())
    assert "word" not in remote._repr_html_()


def test_repr_of_removed_data_or_uninitialised_object_raises_no_error(
    folder: Path, tmp_path: Path
) -> None:
    shutil.copytree(folder, tmp_path / "it")
    dataset = StreamingDataset(local=str(tmp_path / "it"), order=ExactOrder())
    shutil.rmtree(tmp_path / "it")
    assert "nothing is there" in dataset._repr_html_()
    (tmp_path / "it").mkdir()
    (tmp_path / "it" / "index.json").write_text("{")
    assert "not opened" in dataset._repr_html_()
    assert repr(StreamingDataset.__new__(StreamingDataset)).endswith("(cannot be described now)")
    assert repr(StreamingDataLoader.__new__(StreamingDataLoader)).endswith("described now)")


def test_byte_counts_are_shown_with_units() -> None:
    sizes = [0, 999, 1000, 999_949, 999_950, 1_234_000_000, 4e18]
    shown = ["0 B", "999 B", "1.0 kB", "999.9 kB", "1.0 MB", "1.2 GB", "4,000.0 PB"]
    assert list(map(human_bytes, sizes)) == shown


def test_counts_are_shown_with_singular_or_plural_nouns() -> None:
    assert [counted(n, "shard") for n in (0, 1, 2000)] == ["0 shards", "1 shard", "2,000 shards"]
    assert [counted(n, "batch", "batches") for n in (1, 2)] == ["1 batch", "2 batches"]


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        *(
            (url, url)
            for url in ("file:///data/part-?.parquet", "/data/a?b=c", "abfss://box@host/x")
        ),
        ("s3://me:pass@bucket/x", "s3://me:***@bucket/x"),
        ("s3://me:p/a@ss@bucket/x, s3://other/y", "s3://me:***@bucket/x, s3://other/y"),
        ("https://h/x?sv=2020&Signature=abc%2F#y", "https://h/x?sv=***&Signature=***#y"),
        ("https://h/x?X-Amz-Key=AKIA&n=1, s3://b/y", "https://h/x?X-Amz-Key=***&n=***, s3://b/y"),
    ],
)
def test_repr_of_a_location_hides_secrets(url: str, expected: str) -> None:
    assert shown_url(url) == expected
