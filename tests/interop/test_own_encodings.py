"""Encodings that a program defines are stored and read as by MosaicML Streaming."""

from pathlib import Path
from typing import Any

import pytest
from tests.mds_backend.format import own_classes

from mdstorm_backend import MDSWriter, open_dataset
from mdstorm_backend.streaming.base.format.mds.encodings import _encodings


def test_bytes_and_values_are_the_same(run_in_mosaic: Any, tmp_path: Path) -> None:
    theirs = run_in_mosaic("own_encodings.py", Path(own_classes.__file__).parent, tmp_path / "m")
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in own_classes.OWN.items():
            patch.setitem(_encodings, name, kind)
        for name, columns in own_classes.LAYOUTS.items():
            encodings = {column: own_classes.COLUMNS[column] for column in columns}
            out = tmp_path / name
            with MDSWriter(columns=encodings, out=str(out), size_limit=500) as writer:
                for i in range(40):
                    writer.write({column: own_classes.sample(i)[column] for column in columns})
            written = {file.name: file.read_bytes() for file in out.iterdir()}
            assert written == {f.name: f.read_bytes() for f in (tmp_path / "m" / name).iterdir()}
            assert str(open_dataset(str(tmp_path / "m" / name))[7]) == theirs[name]
