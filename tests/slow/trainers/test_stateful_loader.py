"""torchdata's StatefulDataLoader over a StreamingDataset, with a state for each worker."""

from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from tests.kit.frameworks import import_framework
from tests.slow.trainers.conftest import ROWS
from tests.slow.trainers.launching import each_once, fork

from mdstorm_backend import ExactOrder, StreamingDataset


def resumes_exactly(
    url: str, at: Path, cases: list[str], processes: int = 1, warning: str = ""
) -> None:
    run = fork("stateful_loader.py", url, *cases, at=at, processes=processes, warning=warning)
    for case in cases:
        whole, resumed = (run.recorded(f"{case}-{part}") for part in ("whole", "resumed"))
        assert resumed == whole, case
        for part in (resumed, run.recorded(f"{case}-next")):
            # In the elastic order, ranks with one fewer row repeat a row, as in MosaicML Streaming.
            more = sum(part.rows.values()) - ROWS
            assert 0 <= more < (processes if "elastic" in case else 1), case
            assert part.rows.keys() == each_once(ROWS).keys(), case


def test_epoch_resumes_at_each_worker_position(url: str, tmp_path: Path) -> None:
    resumes_exactly(url, tmp_path, ["exact:2:5", "elastic:2:5"])


@pytest.mark.long
@pytest.mark.parametrize("processes", [1, 2])
@pytest.mark.parametrize("order", ["exact", "elastic"])
def test_state_at_any_position_in_epoch_resumes_exactly(
    url: str, tmp_path: Path, order: str, processes: int
) -> None:
    places = [(workers, stop) for workers in (0, 1, 2, 3) for stop in (0, 1, 2, 7, 31 // processes)]
    cases = [f"{order}:{workers}:{stop}" for workers, stop in places]
    is_odd = order == "exact" and ROWS % processes
    warning = "and others one more" if is_odd else ""
    resumes_exactly(url, tmp_path, cases, processes, warning)


@pytest.mark.filterwarnings("ignore:'set_vital' is deprecated")  # torchdata calls set_vital
@pytest.mark.parametrize("ranks", [1, 3])
def test_state_without_workers_resumes_with_different_world_size(
    url: str, ranks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torchdata = import_framework("torchdata.stateful_dataloader")

    def loader_of(rank: int, world_size: int) -> Any:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(world_size))
        order = ExactOrder(5, True, True, follows_world=True)
        dataset = StreamingDataset(local=url, order=order, batch_size=15)
        return torchdata.StatefulDataLoader(dataset, batch_size=15)

    rows: list[int] = []
    for rank in range(2):
        loader = loader_of(rank, 2)
        for batch in islice(loader, 5):
            rows += batch["number"].tolist()
        state = loader.state_dict()
    for rank in range(ranks):
        loader = loader_of(rank, ranks)
        loader.load_state_dict(state)
        for batch in loader:
            rows += batch["number"].tolist()
    assert sorted(rows) == list(range(ROWS))
