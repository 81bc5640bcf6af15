"""`MDSWriter` writes the datasets in `golden` once more: the same bytes as MosaicML Streaming."""

import json
import shutil
from base64 import b64decode
from pathlib import Path
from typing import Any

import pytest

from mdstorm_backend import MDSWriter, merge_index, open_dataset
from mdstorm_backend.format.compression import decompress

GOLDEN = Path(__file__).parent / "golden"
MERGED = {"merged", "merged_lexicographic"}
NAMES = sorted({path.name for path in GOLDEN.iterdir()} - MERGED)


def samples_of(directory: Path, expected: dict[str, Any]) -> list[dict[str, Any]]:
    """The samples as they were given to the writer."""
    samples = expected.get("samples", [])
    encodings = expected["columns_given_to_writer"]
    # What Pillow makes of an image depends on its version; bytes are stored as they are.
    files = {name for name, text in encodings.items() if text in ("png", "jpeg")}
    stored = [{name: b64decode(s[name]["encoded_b64"]) for name in files} for s in samples]
    if set(encodings) == files:
        return stored
    dataset = open_dataset(str(directory), allow_unsafe_types=True)
    return [{**dataset[i], **stored[i]} for i in range(len(samples))]


def check_equal(directory: Path, golden: Path) -> None:
    index = json.loads((directory / "index.json").read_bytes())
    wanted = json.loads((golden / "index.json").read_bytes())
    compressed = any(shard["compression"] for shard in wanted["shards"])
    if not compressed:
        assert (directory / "index.json").read_bytes() == (golden / "index.json").read_bytes()
    for found, shard in zip(index["shards"], wanted["shards"], strict=True):
        if compressed:
            # The libraries' versions decide on the compressed bytes, but not on what is in them.
            files = [(directory, found), (golden, shard)]
            raws = [_unpacked(where, entry) for where, entry in files]
            assert raws[0] == raws[1]
            assert found["zip_data"]["basename"] == shard["zip_data"]["basename"]
            assert {**found, "zip_data": None} == {**shard, "zip_data": None}
        else:
            name = shard["raw_data"]["basename"]
            assert (directory / name).read_bytes() == (golden / name).read_bytes()
    names = {path.name for path in golden.iterdir()} - {"expected.json"}
    assert {path.name for path in directory.iterdir()} == names


def _unpacked(directory: Path, shard: dict[str, Any]) -> bytes:
    data = (directory / shard["zip_data"]["basename"]).read_bytes()
    return bytes(decompress(shard["compression"], data, shard["raw_data"]["bytes"]))


@pytest.mark.parametrize("name", NAMES)
def test_samples_become_the_same_files(name: str, tmp_path: Path) -> None:
    expected = json.loads((GOLDEN / name / "expected.json").read_text())
    if {"png", "jpeg", "pil"} & set(expected["columns_given_to_writer"].values()):
        pytest.importorskip("PIL")
    if name == "ndarray_dynamic":
        pytest.importorskip("numpy", "2", reason="an older NumPy has no arrays of 63 dimensions")
    split = "train" if name == "split_train" else "."
    golden, out = GOLDEN / name / split, tmp_path / "out"
    with MDSWriter(
        columns=expected["columns_given_to_writer"], out=str(out), **expected["writer_kwargs"]
    ) as writer:
        for sample in samples_of(golden, expected):
            writer.write(sample)
    check_equal(out, golden)


@pytest.mark.parametrize("name", sorted(MERGED))
@pytest.mark.parametrize("form", ["root", "list"])
def test_merging_gives_the_same_index(name: str, form: str, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(GOLDEN / name, root)
    expected = (root / "index.json").read_bytes()
    (root / "index.json").unlink()
    if form == "root":
        merge_index(str(root))
    else:
        merge_index(sorted(str(path) for path in root.glob("*/index.json")), str(root))
    assert (root / "index.json").read_bytes() == expected
