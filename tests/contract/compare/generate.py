"""Randomly generated Petastorm programs that use readers and loaders with various arguments.

Each program writes its own table and reads it in one of many ways. `program(n)` is always the same.
"""

from random import Random

#: Columns that all readers support, and those that PyTorch and TensorFlow support.
_ANY = ("small", "count", "ratio", "half", "flag", "name", "raw", "day", "time", "price", "vec")
_TORCH = ("small", "count", "ratio", "half", "flag", "vec", "grid", "hole")
_TF = ("small", "count", "ratio", "half", "flag", "name", "raw", "day", "time", "vec", "grid")

_HEAD = """\
import sys
import numpy as np
from petastorm import TransformSpec, make_batch_reader, make_reader
from petastorm.predicates import in_lambda
from tests.contract.compare.tables import write_table

"""
_ROW_DATASETS = {
    "codecs": ["id", "small", "half", "flag", "price", "matrix", "png", "maybe", "word", "ragged"],
    "series": ["time", "value", "label"],
    "places": ["id", "city", "tag", "vector"],
}

_TRANSFORMS = {
    "adds": (
        "def change(frame):\n"
        "    frame['wave'] = np.sin(frame['id'].astype('float64')).astype('float32')\n"
        "    return frame\n\n",
        "TransformSpec(change, edit_fields=[('wave', np.float32, (), False)])",
    ),
    "drops_rows": (
        "def change(frame):\n    return frame[frame['id'] % 4 != 1]\n\n",
        "TransformSpec(change)",
    ),
    "removes": (
        "def change(frame):\n    return frame.drop(columns=['small'])\n\n",
        "TransformSpec(change, removed_fields=['small'])",
    ),
    "is_random": (
        "def change(frame):\n    frame['noise'] = np.random.rand(len(frame))\n    return frame\n\n",
        "TransformSpec(change, edit_fields=[('noise', np.float64, (), False)])",
    ),
}


def program(number: int) -> str:
    """Return the source of a program."""
    random = Random(number)
    makers = (_of_batches, _of_rows, _of_torch, _of_torch, _of_tf, _of_shards, _of_ngrams)
    return makers[number % len(makers)](random, number)


def _table(random: Random, columns: list[str], number: int) -> str:
    rows, files = random.randint(12, 90), random.choice((1, 1, 2, 3))
    group = random.choice((4, 7, 10, 30, 1000))
    return (
        f"url = write_table(sys.argv[1], {columns!r}, rows={rows}, group={group}, files={files}, "
        f"seed={number})\n"
    )


def _chosen(random: Random, names: tuple[str, ...], extra: tuple[str, ...] = ()) -> list[str]:
    chosen = random.sample(names, random.randint(1, min(5, len(names))))
    if extra and random.random() < 0.35:
        chosen.append(random.choice(extra))
    return ["id", *chosen]


def _reader_arguments(random: Random, *, endless: bool = False) -> dict[str, str]:
    pools = ({"reader_pool_type": "'dummy'"}, {"workers_count": "1"}, {"workers_count": "2"})
    given = dict(random.choice(pools))
    if random.random() < 0.6:
        given["shuffle_row_groups"] = random.choice(("False", "True"))
    if random.random() < 0.25:
        given["shuffle_rows"] = "True"
    if random.random() < 0.2:
        given["seed"] = str(random.randint(0, 9))
    elif random.random() < 0.2 and "shuffle_rows" not in given:
        given["shuffle_row_drop_partitions"] = "2"
    if endless:
        given["num_epochs"] = "None"
    elif random.random() < 0.3:
        given["num_epochs"] = str(random.randint(1, 3))
    return given


def _functions(random: Random, columns: list[str], given: dict[str, str]) -> str:
    """Add a transform, a filter, a column list or nothing to `given`; return the code it needs."""
    kind = random.random()
    if kind < 0.35:
        names = [name for name in _TRANSFORMS if name != "removes" or "small" in columns]
        definition, spec = _TRANSFORMS[random.choice(names)]
        given["transform_spec"] = spec
        return definition
    if kind < 0.45 and "shuffle_row_drop_partitions" not in given:
        given["predicate"] = "in_lambda(['id'], lambda id: id % 3 == 0)"
    elif kind < 0.5:
        given["filters"] = "[('id', '<', 9)]"
    elif kind < 0.6:
        given["schema_fields"] = repr(columns[: max(1, len(columns) - 1)])
    return ""


def _call(name: str, first: str, given: dict[str, str]) -> str:
    return f"{name}({', '.join([first, *(f'{key}={value}' for key, value in given.items())])})"


def _of_batches(random: Random, number: int) -> str:
    columns = _chosen(random, _ANY, ("maybe", "note", "big"))
    endless = random.random() < 0.2
    given = _reader_arguments(random, endless=endless)
    functions = _functions(random, columns, given)
    stop = f"        if n == {random.randint(0, 6)}:\n            break\n" if endless else ""
    return (
        f"{_HEAD}{functions}{_table(random, columns, number)}\n\ndef read():\n"
        f"    with {_call('make_batch_reader', 'url', given)} as reader:\n"
        f"        for n, batch in enumerate(reader):\n            n\n{_indented(stop)}\n\nread()\n"
    )


def _of_rows(random: Random, number: int) -> str:
    name = random.choice(sorted(_ROW_DATASETS))
    given = _reader_arguments(random)
    fields = _ROW_DATASETS[name]
    given["schema_fields"] = repr(sorted(random.sample(fields, random.randint(1, len(fields)))))
    times = random.randint(1, 2)
    return (
        f"{_HEAD}from tests.contract.conformance.place import DATA\n\n\ndef read():\n"
        f"    with {_call('make_reader', f'''(DATA / {name!r}).as_uri()''', given)} as reader:\n"
        "        return sum(1 for row in reader)\n\n\n"
        f"for epoch in range({times}):\n    read()\n"
    )


def _of_torch(random: Random, number: int) -> str:
    columns = _chosen(random, _TORCH, ("maybe", "big"))
    endless = random.random() < 0.25
    given = _reader_arguments(random, endless=endless)
    functions = _functions(random, columns, given)
    loader = random.choice(("DataLoader", "BatchedDataLoader", "InMemBatchedDataLoader"))
    if loader == "InMemBatchedDataLoader" and endless:
        loader = "DataLoader"
    of_loader = {"batch_size": str(random.randint(1, 17))}
    if loader == "InMemBatchedDataLoader":
        # Petastorm's thread pool may end without any rows, which makes this loader raise an error.
        given["reader_pool_type"] = "'dummy'"
        of_loader["num_epochs"] = str(random.randint(1, 2))
        of_loader["shuffle"] = random.choice(("True", "False"))
    elif random.random() < 0.3:
        of_loader["shuffling_queue_capacity"] = str(random.randint(5, 40))
    elif loader == "DataLoader" and random.random() < 0.2:
        of_loader["collate_fn"] = "lambda rows: np.array([row['id'] for row in rows])"
    elif loader == "BatchedDataLoader" and random.random() < 0.3:
        of_loader["transform_fn"] = "lambda column: torch.as_tensor(column).to(torch.float64)"
    stops = endless or random.random() < 0.15
    stop = f"        if step == {random.randint(0, 5)}:\n            break\n" if stops else ""
    call = _call(loader, _call("make_batch_reader", "url", given), of_loader)
    return (
        f"{_HEAD}import torch\nfrom petastorm.pytorch import {loader}\n\n"
        f"{functions}{_table(random, columns, number)}\n\ndef train():\n"
        f"    with {call} as loader:\n"
        "        for step, batch in enumerate(loader):\n            step\n"
        f"{_indented(stop)}\n\nfor epoch in range({random.randint(1, 2)}):\n    train()\n"
    )


def _of_tf(random: Random, number: int) -> str:
    columns = _chosen(random, _TF, ("big",))
    given = _reader_arguments(random)
    functions = _functions(random, columns, given)
    head = f"{_HEAD}import tensorflow as tf\n"
    head += "from petastorm.tf_utils import make_petastorm_dataset, tf_tensors\n\n"
    head = f"{head}{functions}{_table(random, columns, number)}\n"
    reader = _call("make_batch_reader", "url", given)
    if random.random() < 0.3:
        return (
            f"{head}\nwith tf.Graph().as_default(), {reader} as reader:\n"
            "    row = tf_tensors(reader)\n"
            "    with tf.compat.v1.Session() as session:\n"
            f"        for step in range({random.randint(1, 3)}):\n            session.run(row.id)\n"
        )
    shape = random.choice((".unbatch().batch(8)", "", ".map(lambda row: row.id)", ".prefetch(2)"))
    return (
        f"{head}\ndef read():\n    with {reader} as reader:\n"
        f"        for batch in make_petastorm_dataset(reader){shape}:\n            pass\n\n\n"
        "read()\n"
    )


def _of_shards(random: Random, number: int) -> str:
    columns = _chosen(random, _TORCH)
    given = _reader_arguments(random)
    given.pop("shuffle_row_drop_partitions", None)
    given |= {"cur_shard": "shard", "shard_count": "2"}
    return (
        f"{_HEAD}from petastorm.pytorch import DataLoader\n\n"
        f"url = write_table(sys.argv[1], {columns!r}, rows={random.randint(20, 60)}, group=5, "
        f"files=1, seed={number})\n\nfor shard in range(2):\n"
        f"    reader = {_call('make_batch_reader', 'url', given)}\n"
        f"    with DataLoader(reader, batch_size={random.randint(2, 9)}) as loader:\n"
        "        for batch in loader:\n            pass\n"
    )


def _of_ngrams(random: Random, number: int) -> str:
    given = {"reader_pool_type": "'dummy'", "schema_fields": "ngram"}
    if random.random() < 0.5:
        given["shuffle_row_groups"] = "False"
    fields = random.choice(
        ("{0: ['time', 'value'], 1: ['time']}", "{-1: ['time'], 0: ['label'], 1: ['value']}")
    )
    call = _call("make_reader", "(DATA / 'series').as_uri()", given)
    return (
        f"{_HEAD}from petastorm.ngram import NGram\n"
        "from tests.contract.conformance.place import DATA\n\n"
        f"ngram = NGram({fields}, {random.randint(1, 4)}, 'time')\n"
        f"with {call} as reader:\n    for window in reader:\n        pass\n"
    )


def _indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
