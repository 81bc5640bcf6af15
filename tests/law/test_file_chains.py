"""Random chains of worlds that read named files return each row with its file, or count it."""

import random
from collections import Counter
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.kit.chains import Chain
from tests.kit.small_datasets import write_dataset

from mdstorm.spark import SparkDatasetConverter
from mdstorm_backend import Dataset, ExactOrder, StreamingDataLoader, StreamingDataset

ROWS, MISSING, DAMAGED = 131, 40, 77
FILES: dict[str, Any] = {"files": {"image": "path"}, "decode": "image", "size": 2}


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return written(tmp_path_factory.mktemp("damaged"), is_damaged=True)


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return written(tmp_path_factory.mktemp("sound"), is_damaged=False)


def written(folder: Path, *, is_damaged: bool) -> Dataset:
    """Write numbers and paths, and images whose color is the number."""
    (folder / "images").mkdir()
    for number in range(ROWS):
        file = BytesIO()
        Image.new("RGB", (2, 2), (number, 0, 0)).save(file, "png")
        (folder / f"images/{number}.png").write_bytes(file.getvalue())
    if is_damaged:
        (folder / f"images/{MISSING}.png").unlink()
        (folder / f"images/{DAMAGED}.png").write_bytes(b"no image")
    columns = {"number": range(ROWS), "path": [f"images/{n}.png" for n in range(ROWS)]}
    return write_dataset(folder, columns, {"number": "long", "path": "string"}, shard_size=1_500)


def numbers_in(batch: Any) -> list[int]:
    """Return the numbers in a batch, whose images must have their colors."""
    numbers, images = (batch["number"], batch["image"]) if isinstance(batch, dict) else batch[:2]
    assert (images[:, 0, 0, 0] == numbers).all()
    found: list[int] = numbers.tolist()
    return found


def torch_chain(dataset: Dataset, seed: int, options: dict[str, Any]) -> Chain:
    draw = random.Random(-seed)
    is_elastic = draw.random() < 0.4
    workers = draw.choice([0, 0, 1, 2, 3]) if seed % 4 == 3 else 0
    fork = {"multiprocessing_context": "fork"} if workers else {}
    shuffle = {"shuffle_rows": draw.random() < 0.5, "window": draw.choice([0, 40])}
    chosen = {**options, "workers": draw.choice([0, 2]), "prefetch": draw.choice([1, 4])}

    def make(rank: int, ranks: int, batch_size: int) -> Any:
        world = (rank, ranks)
        order = None if is_elastic else ExactOrder(seed, True, **shuffle)
        given = {**chosen, "shuffle": True} if is_elastic else {**chosen, "order": order}
        source = StreamingDataset(local=dataset.url, batch_size=batch_size, world=world, **given)
        return StreamingDataLoader(source, batch_size=batch_size, num_workers=workers, **fork)

    chain = Chain(seed, make, numbers_in, changes_world=not is_elastic, copies=True)
    chain.steps.append(("elastic" if is_elastic else "exact", workers, chosen, shuffle))
    chain.run()
    return chain


def tf_chain(dataset: Dataset, seed: int, options: dict[str, Any]) -> Chain:
    """Interrupt each epoch of TensorFlow datasets once, and resume it in new ones."""
    draw = random.Random(-seed)
    converter = SparkDatasetConverter(dataset.url, dataset.file_urls, len(dataset))
    chain = Chain(seed, lambda *_: None, numbers_in)
    ranks = draw.randint(1, 4)
    arguments = {**options, "schema_fields": ["number"], "num_epochs": 1, "seed": seed}
    arguments |= {"batch_size": draw.randint(2, 9), "shuffle_rows": draw.random() < 0.5}
    for _ in range(draw.randint(1, 2)):
        for rank in range(ranks):
            state, taken = None, draw.randint(1, 5)
            for count in (taken, None):
                share = {"cur_shard": rank, "shard_count": ranks}
                with converter.make_tf_dataset(**arguments, **share) as batches:
                    if state is not None:
                        batches.load_state_dict(state)
                    for batch in batches if count is None else batches.take(count):
                        numbers, images = batch.number.numpy(), batch.image.numpy()
                        chain.seen.update(numbers_in((numbers, images)))
                    state = batches.state_dict(batches=taken) if count else None
        chain.epochs += 1
    chain.steps.append(("exact", "TensorFlow", arguments))
    return chain


@pytest.mark.filterwarnings("ignore:This DataLoader will create:UserWarning")
@pytest.mark.parametrize(
    "seed", [*range(2), *(pytest.param(n, marks=pytest.mark.long) for n in range(2, 60))]
)
def test_chain_returns_each_row_with_its_file_or_counts_it(
    sound: Dataset, damaged: Dataset, seed: int
) -> None:
    is_damaged = seed % 3 == 1
    dataset = damaged if is_damaged else sound
    options = {**FILES, "on_corrupt": "skip"} if is_damaged else FILES
    chain = (tf_chain if seed % 6 == 2 else torch_chain)(dataset, seed, options)
    lost = {MISSING, DAMAGED} if is_damaged else set()
    expected = Counter({n: chain.epochs for n in range(ROWS) if n not in lost})
    is_elastic = "elastic" in chain.steps[0]  # padding repeats rows, but no row may be missing
    wrong = expected - chain.seen if is_elastic else expected.items() ^ chain.seen.items()
    assert not wrong, (seed, chain.steps)
    assert lost.isdisjoint(chain.seen)
