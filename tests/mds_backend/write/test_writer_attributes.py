"""What an `MDSWriter` tells of itself, and the names that a subclass may use."""

from pathlib import Path
from typing import Any

from mdstorm_backend import MDSWriter, open_dataset


def test_arguments_are_attributes(tmp_path: Path) -> None:
    columns = {"b": "str", "a": "ndarray:float32:2,3"}
    with MDSWriter(
        columns=columns,
        out=str(tmp_path),
        compression="zstd:3",
        hashes=["md5", "sha1"],
        size_limit="1kb",
        keep_local=True,
    ) as writer:
        assert writer.columns == columns
        assert writer.column_names == ["a", "b"]
        assert writer.column_encodings == ["ndarray:float32:2,3", "str"]
        assert writer.column_sizes == [24, None]
        assert (writer.compression, writer.hashes) == ("zstd:3", ["md5", "sha1"])
        assert (writer.size_limit, writer.keep_local) == (1024, True)


class Named(MDSWriter):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        public = {name for name in vars(self) if not name.startswith("_")}
        for name in {*dir(self._mdstorm), *vars(self._mdstorm), "samples"} - public:
            if not name.startswith("__") and not hasattr(MDSWriter, name):
                setattr(self, name, name)


def test_names_of_a_subclass_are_its_own(tmp_path: Path) -> None:
    with Named(columns={"n": "int"}, out=str(tmp_path), size_limit=200) as writer:
        assert writer._shards == "_shards"  # type: ignore[comparison-overlap]
        for number in range(50):
            writer.write({"n": number})
    assert [sample["n"] for sample in open_dataset(str(tmp_path))] == list(range(50))  # type: ignore[attr-defined]
