"""The copies of docs/how-to/keep-a-copy.md serve cells that run again, and loops that are left."""

from pathlib import Path
from typing import Any

import pytest
from tests.edge.pages.page_programs import column, some, text_of

ROWS = 100


def run_page(df: Any, tmp_path: Path) -> dict[str, Any]:
    """Run the program of the page on a DataFrame, up to the line that deletes the copy."""
    program = text_of("how-to/keep-a-copy.md", slice(1), tmp_path)
    names: dict[str, Any] = {"df": df}
    exec(program.replace("first.delete()\n", ""), names)
    return names


def loader_of(converter: Any) -> Any:
    return converter.make_torch_dataloader(batch_size=10, num_epochs=1)


def test_cell_that_runs_again_reads_the_copy_after_loops_that_are_left(
    spark: Any, tmp_path: Path
) -> None:
    urls = set()
    for _ in range(2):
        page = run_page(spark.range(ROWS), tmp_path)
        urls |= {page["first"].cache_dir_url, page["again"].cache_dir_url}
        loader = loader_of(page["again"])
        for steps in (1, 3):
            some(loader, steps)
            assert sorted(column(loader)) == [*range(ROWS)]
    assert len(urls) == 1


def test_loop_keeps_its_copy_when_a_changed_frame_takes_its_key(spark: Any, tmp_path: Path) -> None:
    before = run_page(spark.range(ROWS), tmp_path)
    running = iter(loader_of(before["first"]))
    seen = next(running)["id"].tolist()
    frame = spark.range(ROWS).selectExpr("id", "2 * id AS twice")
    after = run_page(frame, tmp_path)
    assert after["first"].cache_dir_url != before["first"].cache_dir_url
    assert sorted(column(loader_of(after["again"]), "twice")) == [*range(0, 2 * ROWS, 2)]
    assert sorted(seen + column(running)) == [*range(ROWS)]


def test_state_resumes_in_the_copy_that_another_cell_found(spark: Any, tmp_path: Path) -> None:
    first = loader_of(run_page(spark.range(ROWS), tmp_path)["first"])
    seen, resumed = some(first, 4), loader_of(run_page(spark.range(ROWS), tmp_path)["again"])
    resumed.load_state_dict(first.state_dict())
    assert sorted(seen + column(resumed)) == [*range(ROWS)]


def test_deleted_copy_is_gone_for_all_and_made_again_by_the_cell(
    spark: Any, tmp_path: Path
) -> None:
    page = run_page(spark.range(ROWS), tmp_path)
    page["first"].delete()
    with pytest.raises(FileNotFoundError):
        column(loader_of(page["again"]))
    page = run_page(spark.range(ROWS), tmp_path)
    assert sorted(column(loader_of(page["again"]))) == [*range(ROWS)]
