"""The names that a subclass of `MDSWriter` may use."""

from pathlib import Path
from typing import Any

from mdstorm_backend import MDSWriter, open_dataset


class Named(MDSWriter):
    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        public = {name for name in vars(self) if not name.startswith("_")}
        for name in {*dir(self._mdstorm), *vars(self._mdstorm), "samples"} - public:
            if not name.startswith("__") and not hasattr(MDSWriter, name):
                setattr(self, name, name)


def test_names_of_a_subclass_are_its_own(tmp_path: Path) -> None:
    with Named(columns={"n": "int"}, out=str(tmp_path), size_limit=200) as writer:
        assert writer._samples == "_samples"  # type: ignore[comparison-overlap]
        for number in range(50):
            writer.write({"n": number})
    assert [sample["n"] for sample in open_dataset(str(tmp_path))] == list(range(50))  # type: ignore[attr-defined]
