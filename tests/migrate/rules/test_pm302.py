"""Loaders that become `StreamingDataLoader`."""

from __future__ import annotations

import ast

import pytest
from tests.migrate.streaming_checks import MADE, check_stays, check_turned


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (
            "num_epochs=1",
            "a = nullcontext(StreamingDataLoader("
            "StreamingDataset(local=conv, batch_size=32, shuffle=True), batch_size=32))",
        ),
        ("batch_size=n", "nullcontext(epochs_of(StreamingDataLoader("),
        ("batch_size=n, num_epochs=None", "batch_size=n)))"),
        ("batch_size=n, num_epochs=k", "batch_size=n), k))"),
        ("shuffle_row_groups=False", "StreamingDataset(local=conv, batch_size=32),"),
        ("shuffle_row_groups=x", "shuffle=x)"),
        ("shuffle_row_groups=False, shuffling_queue_capacity=9", "shuffle=True)"),
        ("seed=3", "shuffle_seed=3)"),
        ("workers_count=2", "batch_size=32, num_workers=2)"),
        ("workers_count=2, reader_pool_type='dummy'", "batch_size=32)))"),
        ("batch_size=int(p['n'])", "batch_size=int(p['n'])"),
        ("transform_spec=None", "batch_size=32)))"),
    ],
)
def test_a_loader_is_one_over_a_dataset(arguments: str, expected: str) -> None:
    output = check_turned(f"{MADE}a = conv.make_torch_dataloader({arguments})\n")
    assert expected in ast.unparse(ast.parse(output))


def test_a_remote_dataset_is_downloaded() -> None:
    text = MADE.replace("'file:///x'", "f's3://{bucket}/x'")
    output = check_turned(f"{text}a = conv.make_torch_dataloader()\n")
    assert "StreamingDataset(remote=conv, " in output


def test_a_long_call_has_a_line_for_each_argument() -> None:
    output = check_turned(
        f"{MADE}if x:\n    with conv.make_torch_dataloader(num_epochs=n) as loader:\n        pass\n"
    )
    assert output.endswith(
        "if x:\n"
        "    with nullcontext(\n"
        "        epochs_of(\n"
        "            StreamingDataLoader(\n"
        "                StreamingDataset(local=conv, batch_size=32, shuffle=True),\n"
        "                batch_size=32,\n"
        "            ),\n"
        "            n,\n"
        "        )\n"
        "    ) as loader:\n"
        "        pass\n"
    )


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("**given", "cannot be told apart"),
        ("8", "cannot be told apart"),
        ("predicate=p", "`predicate`"),
        ("data_loader_fn=f", "`data_loader_fn`"),
        ("batch_size=next(sizes)", "needed twice"),
    ],
)
def test_what_has_no_counterpart_keeps_the_converter(arguments: str, reason: str) -> None:
    check_stays(f"{MADE}a = conv.make_torch_dataloader({arguments})\n", reason)
