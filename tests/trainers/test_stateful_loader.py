"""torchdata's StatefulDataLoader over a StreamingDataset: states of each worker."""

from pathlib import Path

import pytest
from tests.trainers.conftest import ROWS
from tests.trainers.launching import each_once, launch


def resumes_exactly(url: str, at: Path, cases: list[str], processes: int = 1) -> None:
    run = launch("stateful_loader.py", url, *cases, at=at, processes=processes)
    for case in cases:
        whole, resumed = (run.delivered(f"{case}-{part}") for part in ("whole", "resumed"))
        assert resumed == whole, case
        for part in (resumed, run.delivered(f"{case}-next")):
            # In the elastic order ranks that are short of a row repeat one, as MosaicML's do.
            more = sum(part.rows.values()) - ROWS
            assert 0 <= more < (processes if "elastic" in case else 1), case
            assert part.rows.keys() == each_once(ROWS).keys(), case


def test_an_epoch_goes_on_where_each_worker_stood(url: str, tmp_path: Path) -> None:
    resumes_exactly(url, tmp_path, ["exact:samples:2:5", "elastic:batches:2:5"])


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_any_place_in_an_epoch_is_found_again(
    url: str, tmp_path: Path, order: str, processes: int
) -> None:
    places = [
        (what, workers, stop)
        for what in ("samples", "batches")
        for workers in (0, 1, 2, 3)
        for stop in (0, 1, 2, 7, 31 // processes)
    ]
    cases = [f"{order}:{what}:{workers}:{stop}" for what, workers, stop in places]
    resumes_exactly(url, tmp_path, cases, processes)
