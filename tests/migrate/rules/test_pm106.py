"""Old names and arguments."""

from __future__ import annotations

import pytest
from tests.migrate.checks import check_finding, check_noop, check_rewrite


def test_a_renamed_class_is_moved_on_request() -> None:
    text = "from petastorm.pytorch import BatchDataLoader, DataLoader as D\nBatchDataLoader(r)\n"
    check_finding(text, "PM106", "BatchDataLoader")
    check_noop(text)
    check_rewrite(
        text,
        "from mdstorm.pytorch import BatchedDataLoader as BatchDataLoader, DataLoader as D\n"
        "BatchDataLoader(r)\n",
        unsafe=True,
    )


@pytest.mark.parametrize(
    ("call", "fragment"),
    [
        ("DataLoader(reader, transform=resize)", "transform=resize"),
        (
            "make_reader(url, shuffle_options=ShuffleOptions(3))",
            "shuffle_options=ShuffleOptions(3)",
        ),
    ],
)
def test_arguments_that_are_gone_are_named(call: str, fragment: str) -> None:
    imports = "from petastorm import make_reader\nfrom petastorm.pytorch import DataLoader\n"
    check_finding(imports + call, "PM106", fragment)


def test_other_loaders_have_other_arguments() -> None:
    text = (
        "import petastorm_tools\nfrom torch.utils.data import DataLoader\n"
        "DataLoader(x, transform=y)\n"
    )
    check_noop(text)
