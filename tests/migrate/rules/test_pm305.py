"""Lengths and deletions."""

from __future__ import annotations

from tests.migrate.streaming_checks import MADE, check_stays, check_turned


def test_lengths_are_those_of_all_ranks() -> None:
    check_turned(
        f"{MADE}steps = len(conv) // 8\nn = conv.dataset_size\n",
        "steps = StreamingDataset(local=conv).size // 8",
        "n = StreamingDataset(local=conv).size",
    )


def test_a_converter_that_is_deleted_is_a_directory_that_is() -> None:
    output = check_turned(f"{MADE}conv.delete()\n", "shutil.rmtree(conv)", "import shutil")
    assert "StreamingDataset" not in output


def test_a_length_after_the_deletion_keeps_the_converter() -> None:
    check_stays(f"{MADE}conv.delete()\nlen(conv)\n", "after it was deleted")


def test_what_is_on_no_disk_cannot_be_deleted() -> None:
    text = MADE.replace("file:///x", "s3://b/x")
    check_stays(f"{text}conv.delete()\n", "not on a disk")


def test_another_len_is_no_length() -> None:
    check_stays(f"{MADE}def len(x): ...\nlen(conv.df)\n", ".df")
