"""The recipes of docs/how-to/files.md give each row its own file however they are used."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image
from tests.edge.pages.page_programs import program_of

from mdstorm.spark import make_spark_converter

ROWS = 8


def write_image(folder: Path, row: int, red: int) -> None:
    Image.new("RGB", (32, 24), (red, 0, 0)).save(folder / f"{row}.jpg", quality=100)


@pytest.fixture
def page(tmp_path: Path) -> dict[str, Any]:
    """The names of the page, whose images are as red as their labels."""
    folder, data = tmp_path / "volume" / "images", tmp_path / "labels"
    folder.mkdir(parents=True)
    data.mkdir()
    for row in range(ROWS):
        write_image(folder, row, 30 * row)
    paths = [f"{folder}/{row}.jpg" for row in range(ROWS)]
    pq.write_table(pa.table({"label": range(ROWS), "path": paths}), data / "0.parquet")
    names: dict[str, Any] = {"folder": str(folder), "make_spark_converter": make_spark_converter}
    exec(program_of("how-to/files.md", slice(1, 2), data, tmp_path), names)
    return names


def loader_of(page: Any, **options: Any) -> Any:
    options = {"num_epochs": 1, "shuffling_queue_capacity": 4, "seed": 3, **options}
    return page["converter"].make_torch_dataloader(
        2, decode="image", size=16, **page["files"], **options
    )


def reds(loader: Any, most: int = ROWS) -> dict[int, int]:
    """Return the colour of the image of each row in the first batches."""
    found: dict[int, int] = {}
    for step, batch in enumerate(loader, start=1):
        colours = (batch["image"][:, 8, 8, 0].int() / 30).round().int()
        found |= dict(zip(batch["label"].tolist(), colours.tolist(), strict=True))
        if step == most:
            break
    return found


def test_each_row_has_its_file_after_a_peek_a_break_and_a_resume(page: Any) -> None:
    own = {row: row for row in range(ROWS)}
    loader = loader_of(page)
    assert reds(loader, 1).items() <= own.items()
    assert reds(loader) == own
    begun = reds(loader, 3)
    resumed = loader_of(page)
    resumed.load_state_dict(loader.state_dict())
    rest = reds(resumed)
    assert begun | rest == own
    assert len(begun) + len(rest) == ROWS
    shares = [reds(loader_of(page, cur_shard=rank, shard_count=2)) for rank in range(2)]
    assert list(map(len, shares)) == [4, 4]
    assert shares[0] | shares[1] == own


def test_next_epoch_reads_a_file_that_has_changed(page: Any) -> None:
    loader = loader_of(page)
    assert reds(loader)[5] == 5
    write_image(Path(page["folder"]), 5, 30)
    assert reds(loader) == {**{row: row for row in range(ROWS)}, 5: 1}
