"""Conversions with overwrite=True that are killed at random points."""

import random
import shutil
from pathlib import Path

import pytest
from tests.kit.parquet_files import numbers, open_parquet, write
from tests.slow.kills.killing import ids_of, leftovers, run_killed

from mdstorm_backend.convert import convert_parquet

#: Rows in the dataset to be replaced and in the new dataset.
OLD, NEW = list(range(60)), list(range(1000, 1060))


def convert(source: Path, target: Path) -> None:
    """Replace the dataset at `target`."""
    convert_parquet(open_parquet(str(source)), str(target), shard_size=1300, overwrite=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with two sources, and with a dataset converted from the first."""
    place = tmp_path_factory.mktemp("conversions")
    for name, ids in (("old", OLD), ("new", NEW)):
        source = write(place / name, *[numbers(20, start) for start in ids[::20]])
        if name == "old":
            convert_parquet(source, str(place / "dataset"), shard_size=1300)
    return place


@pytest.fixture(scope="module")
def changes(place: Path, tmp_path_factory: pytest.TempPathFactory) -> int:
    """Count the changes that an undisturbed conversion makes to the directory."""
    target = tmp_path_factory.mktemp("counted") / "mds"
    shutil.copytree(place / "dataset", target)
    found = run_killed(convert, place / "new", target, 0)
    assert found is not None
    assert found > 20
    return found


@pytest.mark.parametrize(
    "seed",
    # The second run of seed 33 resumes after the first was killed while it removed the old files.
    [pytest.param(seed, marks=() if seed == 33 else pytest.mark.long) for seed in range(40)],
)
def test_conversions_killed_while_overwriting_leave_old_or_new_dataset(
    seed: int, place: Path, changes: int, tmp_path: Path
) -> None:
    draw, target = random.Random(seed), tmp_path / "mds"
    shutil.copytree(place / "dataset", target)
    for _ in range(2):
        run_killed(convert, place / "new", target, draw.randint(1, changes))
        assert ids_of(target) in (OLD, NEW)
        assert len(leftovers(target)) < changes
    assert run_killed(convert, place / "new", target, 0) is not None
    assert ids_of(target) == NEW
    assert leftovers(target) == set()


@pytest.mark.parametrize("kill_at", [6, 18])
def test_conversion_killed_over_its_own_result_leaves_the_result(
    kill_at: int, place: Path, tmp_path: Path
) -> None:
    target = tmp_path / "mds"
    shutil.copytree(place / "dataset", target)
    for at in (kill_at, kill_at, 0):
        run_killed(convert, place / "old", target, at)
        assert ids_of(target) == OLD
    assert leftovers(target) == set()
