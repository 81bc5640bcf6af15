"""Data that change after they were opened give the old rows, or an error."""

import shutil
from pathlib import Path

import pytest
from tests.kit import changed_data

CELLS = [
    *((kind, name) for name in changed_data.ANY_KIND for kind in changed_data.KINDS),
    *((k, name) for name in changed_data.OF_MDS for k in changed_data.KINDS if k != "parquet"),
]


@pytest.mark.matrix
@pytest.mark.parametrize("change", changed_data.CHANGES)
@pytest.mark.parametrize(("kind", "reader"), CELLS)
def test_changed_data_give_old_rows_or_an_error(
    kind: str,
    reader: str,
    change: str,
    tmp_path: Path,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MDSTORM_CACHE_DIR", str(tmp_path / "cache"))
    folder = Path(tmp_path_factory.getbasetemp())
    old = changed_data.written(folder, kind, "")
    new = changed_data.written(folder, kind, changed_data.CHANGES[change][0])
    read = {**changed_data.ANY_KIND, **changed_data.OF_MDS}[reader]
    found = {}
    for moment in changed_data.MOMENTS:
        path = tmp_path / moment / "data"
        shutil.copytree(old, path)
        found[moment] = changed_data.run(path, kind, read, change, moment, new)
    expected = ["old", "DatasetChangedError: "]
    if change == "deleted":
        expected.append("DatasetNotFoundError: ")
    if reader in ("torch", "tf") and found["opened"] == "new":
        # The loader opens the files when it is first used, and counts what the converter counted.
        del found["opened"]
    elif reader == "torch" and change == "truncated":  # before the loader opened the files
        assert found.pop("opened").startswith("CorruptDatasetError: ")
    if reader == "tf":  # TensorFlow's error begins with the function that raised ours
        found = {
            m: f[f.find("Dataset") :] if f.startswith("UnknownError") else f
            for m, f in found.items()
        }
    wrong = {m: f for m, f in found.items() if not f.startswith(tuple(expected))}
    assert wrong == {}
