"""Missing optional libraries, functions wrapped on import, and public names."""

import importlib
import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import mdstorm_backend
from mdstorm_backend.base import require, when_loaded, wrap
from mdstorm_backend.errors import MDStormError, MissingDependencyError


@pytest.mark.parametrize(
    ("module", "extra", "package"),
    [
        ("PIL", "images", '"mdstorm[images]"'),
        ("pandas", "", "pandas"),
        ("pyspark", "spark", '"mdstorm[spark]"'),
        ("tensorflow", "tf", '"mdstorm[tf]"'),
        ("torch", "torch", '"mdstorm[torch]"'),
        ("xxhash", "xxhash", '"mdstorm[xxhash]"'),
    ],
)
def test_missing_library_raises_error_with_install_command(
    module: str, extra: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr("importlib.import_module", missing)
    with pytest.raises(MissingDependencyError, match=re.escape(f"pip install {package}")) as e:
        require(module)
    assert repr(module) in str(e.value)
    assert (e.value.extra, e.value.name) == (extra, module)
    assert isinstance(e.value, ImportError)
    assert isinstance(e.value, MDStormError)


def test_import_error_within_a_library_is_raised_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'libcuda'", name="libcuda")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="libcuda") as caught:
        require("torch")
    assert not isinstance(caught.value, MDStormError)


def test_every_public_name_can_be_imported() -> None:
    assert sorted(mdstorm_backend.__all__) == mdstorm_backend.__all__
    for name in mdstorm_backend.__all__:
        found = getattr(mdstorm_backend, name)
        assert getattr(found, "__name__", name) == name
    assert set(mdstorm_backend.__all__) <= set(dir(mdstorm_backend))


def test_unknown_package_attribute_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mdstorm_backend.nothing


NAME = "a_module_that_is_wrapped"


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("def double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def put_in(module: ModuleType) -> None:
    for name in ("double", "triple"):  # "triple" does not exist
        wrap(module, name, lambda function: lambda number: function(number) + 1)


@pytest.mark.usefixtures("module")
@pytest.mark.parametrize("is_loaded", [False, True])
def test_function_is_wrapped_once_whether_or_not_its_module_is_already_imported(
    is_loaded: bool,
) -> None:
    if is_loaded:
        importlib.import_module(NAME)
    for _ in range(2):
        when_loaded([NAME, "a_module_that_is_nowhere"], put_in)
    found: Any = importlib.import_module(NAME)
    assert found.double(3) == 7
    assert found.double.__name__ == "double"
    assert not hasattr(found, "triple")
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("a_module_that_is_nowhere")


@pytest.mark.usefixtures("module")
def test_module_source_is_found_without_loading_the_module() -> None:
    when_loaded([NAME], put_in)
    spec = importlib.util.find_spec(NAME)
    assert spec is not None
    assert "def double" in spec.loader.get_source(NAME)  # type: ignore[union-attr]
    assert NAME not in sys.modules
