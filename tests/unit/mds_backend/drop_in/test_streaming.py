"""With `install_as_streaming`, programs that import `streaming` run on mdstorm."""

import importlib.util
import pickle
import sys
import types
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.installed import installed_as_streaming
from tests.kit.programs import run_program

import mdstorm_backend
import mdstorm_backend.streaming.base.util
from mdstorm_backend.errors import AlreadyImportedError, MissingModuleError, MissingNameError


@pytest.fixture
def installed() -> Iterator[None]:
    with installed_as_streaming():
        yield


@pytest.mark.usefixtures("installed")
class TestInstalled:
    def test_import_streaming_returns_mdstorm_modules(self) -> None:
        import streaming
        import streaming.base.util as util
        from streaming import MDSWriter, StreamingDataset
        from streaming.base import Stream

        assert util is mdstorm_backend.streaming.base.util
        assert MDSWriter is mdstorm_backend.MDSWriter
        assert StreamingDataset is mdstorm_backend.StreamingDataset
        assert Stream is mdstorm_backend.Stream
        assert streaming.__version__ == "0.13.0"

    def test_pickle_that_refers_to_a_streaming_module_can_be_loaded(self) -> None:
        old = b"cstreaming.base.stream\nStream\n."
        assert pickle.loads(old) is mdstorm_backend.Stream  # noqa: S301

    def test_importing_a_missing_module_raises_error_naming_the_documentation_page(self) -> None:
        with pytest.raises(MissingModuleError, match=r"'streaming\.simulation'.*docs/mosaicml\.md"):
            importlib.import_module("streaming.simulation")
        assert importlib.util.find_spec("streaming.simulation") is None

    def test_importing_a_missing_name_raises_error_naming_the_documentation_section(self) -> None:
        with pytest.raises(MissingNameError, match=r"docs/mosaicml\.md#named-datasets"):
            from streaming import multimodal  # noqa: F401

    def test_second_install_as_streaming_changes_nothing(self) -> None:
        before = (list(sys.meta_path), list(sys.path), sys.modules["streaming"])
        mdstorm_backend.install_as_streaming()
        assert (list(sys.meta_path), list(sys.path), sys.modules["streaming"]) == before


def test_already_imported_mosaicml_streaming_is_not_replaced(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = types.ModuleType("streaming")
    real.__file__ = "/site-packages/streaming/__init__.py"
    monkeypatch.setitem(sys.modules, "streaming", real)
    finders = list(sys.meta_path)
    with pytest.raises(AlreadyImportedError, match="already imported, from '/site-packages"):
        mdstorm_backend.install_as_streaming()
    assert sys.modules["streaming"] is real
    assert sys.meta_path == finders


@pytest.mark.long
def test_child_processes_import_mdstorm_as_streaming(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text(
        "from streaming import Stream\ndef home(_):\n    return Stream.__module__\n"
    )
    program = """
import multiprocessing, subprocess, sys
import mdstorm_backend
mdstorm_backend.install_as_streaming()
import neighbour

if __name__ == "__main__":
    assert not {"pyspark", "torch"} & {*sys.modules}
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(*pool.map(neighbour.home, [0]))
    child = "import neighbour; print(neighbour.home(0))"
    subprocess.run([sys.executable, "-c", child], check=True)
"""
    found = run_program(program, cwd=tmp_path).stdout.split()
    assert found == ["mdstorm_backend.datasets.stream"] * 2
