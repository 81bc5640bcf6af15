"""`copy_dataset`: what it refuses before a job runs. What it copies is in tests/conformance."""

from pathlib import Path
from typing import Any

import pytest
from tests.conformance.place import DATA

from mdstorm.errors import InvalidArgumentError, PetastormMetadataError
from mdstorm.tools.copy_dataset import copy_dataset
from mdstorm_backend import MDSWriter

PLACES = (DATA / "places").as_uri()


def copy(source: str, target: Path, field_regex: Any = None, not_null_fields: Any = None) -> None:
    copy_dataset(None, source, target.as_uri(), field_regex, not_null_fields, True, 1, 1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"field_regex": ["nothing"]}, r"\['nothing'\]\) do not match any fields \(\['id', 'city'"),
        ({"not_null_fields": ["id", "no"]}, r"not_null_fields \['no'\] are not fields of file:.*"),
    ],
)
def test_unknown_fields(tmp_path: Path, changes: Any, message: str) -> None:
    with pytest.raises(InvalidArgumentError, match=message):
        copy(PLACES, tmp_path / "copy", **changes)
    assert not list(tmp_path.iterdir())


def test_a_source_that_spark_cannot_read(tmp_path: Path) -> None:
    with MDSWriter(out=str(tmp_path / "mds"), columns={"number": "int64"}) as writer:
        writer.write({"number": 7})
    with pytest.raises(InvalidArgumentError, match="is an MDS dataset, which Spark cannot read"):
        copy((tmp_path / "mds").as_uri(), tmp_path / "copy")


def test_a_source_without_a_dataset(tmp_path: Path) -> None:
    with pytest.raises(PetastormMetadataError, match="Could not find"):
        copy((tmp_path / "nothing").as_uri(), tmp_path / "copy")
