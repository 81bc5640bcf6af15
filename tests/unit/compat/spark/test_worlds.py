"""Row shares based on the launcher's variables, and the warning when there are no shares."""

import pickle
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.kit.programs import run_program
from tests.kit.readers import continue_as_another_process
from tests.unit.compat.spark.converters import (
    Numbers,
    converter_of,
    with_each,
    with_each_in_either_order,
)
from torch.utils.data import DataLoader

from mdstorm.doctor import check_setup
from mdstorm.errors import InvalidArgumentError
from mdstorm.reader import make_batch_reader
from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import ExactOrder, StreamingDataset, open_dataset
from mdstorm_backend.maintenance import head, inspect
from mdstorm_backend.streaming.base import distributed

ROWS = 1_000
SHUFFLED = {"num_epochs": 1, "shuffle_rows": True}
AUTO = {"cur_shard": "auto", **SHUFFLED}
Launch = Callable[[int, int], None]

pytestmark = pytest.mark.filterwarnings("ignore:Currently make_reader")


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Launch:
    """Return a function that sets a rank's variables, as torchrun does."""
    continue_as_another_process()

    def set_rank(rank: int, size: int) -> None:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", str(size))

    return set_rank


def streaming(converter: SparkDatasetConverter) -> StreamingDataset:
    return StreamingDataset(local=converter.cache_dir_url.removeprefix("file://"), batch_size=16)


#: Uses of a share that follows the world, each of which needs the rank.
SHARES: dict[str, Callable[[SparkDatasetConverter], object]] = {
    "torch-len": lambda c: len(c.make_torch_dataloader(16, **AUTO)),
    "torch-state": lambda c: c.make_torch_dataloader(16, **AUTO).state_dict(),
    "torch-pass": lambda c: next(iter(c.make_torch_dataloader(16, **AUTO))),
    "elastic": lambda c: next(iter(c.make_torch_dataloader(16, **AUTO, order="elastic"))),
    "tf-pass": lambda c: next(iter(c.make_tf_dataset(16, **AUTO))),
    "reader": lambda c: next(make_batch_reader(c.cache_dir_url, **AUTO)),
    "streaming-len": lambda c: len(streaming(c)),
    "streaming-pass": lambda c: next(iter(streaming(c))),
    "streaming-workers": lambda c: next(iter(DataLoader(streaming(c), 16, num_workers=1))),
    "batches": lambda c: open_dataset(c.cache_dir_url).batches(
        16, order=ExactOrder(follows_world=True)
    ),
}
#: Uses that need no rank; each returns whether its result is right.
WITHOUT_SHARE: dict[str, Callable[[SparkDatasetConverter], bool]] = {
    "torch": lambda c: len(list(c.make_torch_dataloader(ROWS, **SHUFFLED))) == 1,
    "tf": lambda c: len(list(c.make_tf_dataset(ROWS, **SHUFFLED))) == 1,
    "reader": lambda c: sum(len(b.number) for b in make_batch_reader(c.cache_dir_url)) == ROWS,
    "batches": lambda c: len(list(open_dataset(c.cache_dir_url).batches(ROWS))) == 1,
    "head": lambda c: len(head(c.cache_dir_url, 3)["number"]) == 3,
    "inspect": lambda c: inspect(c.cache_dir_url).rows == ROWS,
    "sample": lambda c: int(streaming(c)[7]["number"]) == 7,
    "repr": lambda c: "a world that is not known" in repr(c.make_torch_dataloader(16, **AUTO)),
    "pickle": lambda c: len(pickle.dumps(streaming(c))) < 10_000,
    "doctor": lambda c: not check_setup().problems and "with torchrun" in f"{check_setup()}",
    "rank": lambda c: (distributed.get_rank(), distributed.get_world_size()) == (0, 1),
}


class TestAutomaticShares:
    """Shares of the ranks with `cur_shard="auto"`."""

    @with_each_in_either_order
    @pytest.mark.parametrize(
        "shards",
        [{"cur_shard": "auto"}, pytest.param({"shard_count": "auto"}, marks=pytest.mark.long)],
        ids=lambda shards: "+".join(shards),
    )
    def test_auto_shares_of_two_ranks_cover_each_row_once(
        self,
        thousand: SparkDatasetConverter,
        launch: Launch,
        caplog: pytest.LogCaptureFixture,
        numbers: Numbers,
        order: str,
        shards: dict[str, Any],
    ) -> None:
        seen = []
        for rank in range(2):
            launch(rank, 2)
            given = {**SHUFFLED, "order": order, "seed": 7}
            explicit = numbers(thousand, cur_shard=rank, shard_count=2, **given)
            assert numbers(thousand, **shards, **given) == explicit
            seen += explicit
        assert Counter(seen) == Counter(range(ROWS))
        assert not caplog.records

    @pytest.mark.parametrize("make", ["make_torch_dataloader", "make_tf_dataset"])
    def test_ranks_with_different_row_counts_have_same_number_of_batches(
        self, tmp_path: Path, launch: Launch, make: str
    ) -> None:
        columns = {"number": range(33)}
        converter = converter_of(tmp_path / "odd", columns, {"number": "long"}, tasks=2)
        sizes = []
        for rank in range(2):
            batches = getattr(converter, make)(batch_size=16, **AUTO)
            launch(rank, 2)
            sizes.append([len(b["number"] if isinstance(b, dict) else b.number) for b in batches])
        assert sizes == [[8, 9], [8, 8]]


class TestWarning:
    """The warning if every process reads all rows, which is Petastorm's default."""

    @pytest.mark.matrix
    @with_each
    @pytest.mark.parametrize(
        ("shards", "warnings"), [({}, 1), ({"cur_shard": 0, "shard_count": 1}, 0)], ids=str
    )
    def test_missing_shard_arguments_warn_once_per_process(
        self,
        thousand: SparkDatasetConverter,
        launch: Launch,
        caplog: pytest.LogCaptureFixture,
        numbers: Numbers,
        shards: dict[str, Any],
        warnings: int,
    ) -> None:
        launch(1, 2)
        for _ in range(2):
            assert Counter(numbers(thousand, **shards, **SHUFFLED)) == Counter(range(ROWS))
        texts = [record.getMessage() for record in caplog.records]
        assert len(texts) == warnings
        for text in texts:
            assert "process 1 of 2, according to torchrun's variables RANK and WORLD_SIZE" in text
            assert 'cur_shard="auto"' in text
            assert "cur_shard=0, shard_count=1" in text

    def test_launcher_variables_set_after_first_pass_cause_warning(
        self, thousand: SparkDatasetConverter, launch: Launch, caplog: pytest.LogCaptureFixture
    ) -> None:
        loader = thousand.make_torch_dataloader(16, **SHUFFLED)
        assert len(list(loader)) == len(loader)
        assert not caplog.records
        launch(0, 2)
        list(loader)
        assert len(caplog.records) == 1

    def test_tf_dataset_in_tensorflow_cluster_does_not_warn(
        self, thousand: SparkDatasetConverter, launch: Launch, monkeypatch: Any, caplog: Any
    ) -> None:
        launch(1, 2)
        monkeypatch.setattr("mdstorm_backend.loaders.tf.in_cluster", lambda: True)
        assert len(list(thousand.make_tf_dataset(ROWS, **SHUFFLED))) == 1
        assert not caplog.records

    def test_incomplete_launcher_variables_warn_or_raise_error_with_auto(
        self, thousand: SparkDatasetConverter, launch: Launch, monkeypatch: Any, caplog: Any
    ) -> None:
        monkeypatch.setenv("HOROVOD_RANK", "1")
        assert len(list(thousand.make_torch_dataloader(ROWS, **SHUFFLED))) == 1
        assert "HOROVOD_SIZE is not set" in caplog.text
        with pytest.raises(InvalidArgumentError, match="HOROVOD_SIZE is not set"):
            list(thousand.make_torch_dataloader(ROWS, **AUTO))

    def test_warning_that_names_launcher_is_shown_without_logging_setup(
        self, thousand: SparkDatasetConverter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("HOROVOD_RANK", "1")
        monkeypatch.setenv("HOROVOD_SIZE", "2")
        source = (
            "import sys\nfrom mdstorm.reader import make_batch_reader\n"
            "print(sum(len(batch.number) for batch in make_batch_reader(sys.argv[1])))"
        )
        done = run_program(source, thousand.cache_dir_url, cwd=tmp_path)
        assert done.stdout.split() == [str(ROWS)]
        assert done.stderr.count("Every process reads all rows") == 1
        assert "Horovod's variables HOROVOD_RANK" in done.stderr


class TestWorldSizeAlone:
    """`WORLD_SIZE` without `RANK`, as ``databricks air run`` sets it in every job."""

    @pytest.fixture(autouse=True)
    def world_size(self, monkeypatch: pytest.MonkeyPatch, launch: Launch) -> None:
        monkeypatch.setenv("WORLD_SIZE", "8")

    @pytest.mark.parametrize("take", SHARES.values(), ids=SHARES)
    def test_taking_a_share_raises_error_that_names_torchrun(
        self, thousand: SparkDatasetConverter, take: Callable[[SparkDatasetConverter], object]
    ) -> None:
        with pytest.raises(InvalidArgumentError, match=r"WORLD_SIZE is '8', and RANK.*torchrun"):
            take(thousand)

    @pytest.mark.parametrize("read", WITHOUT_SHARE.values(), ids=WITHOUT_SHARE)
    def test_reading_without_a_share_works(
        self, thousand: SparkDatasetConverter, read: Callable[[SparkDatasetConverter], bool]
    ) -> None:
        assert read(thousand)

    @pytest.mark.parametrize(
        ("variables", "rows"),
        [
            ({"RANK": "0"}, ROWS // 8),
            ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4"}, ROWS // 4),
            ({"TF_CONFIG": '{"cluster": {"worker": ["a", "b"]}, "task": {"type": "worker"}}'}, 500),
            ({"LOCAL_RANK": "0"}, ROWS),  # Lightning's process, before its group
            ({"WORLD_SIZE": "1"}, ROWS),
        ],
        ids=str,
    )
    def test_other_variables_decide_before_the_world_size(
        self,
        thousand: SparkDatasetConverter,
        monkeypatch: pytest.MonkeyPatch,
        variables: dict[str, str],
        rows: int,
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        loader = thousand.make_torch_dataloader(50, **AUTO)
        assert sum(len(batch["number"]) for batch in loader) == rows
