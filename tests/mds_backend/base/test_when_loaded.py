"""Functions of modules that are wrapped when these are loaded."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from mdstorm_backend.base import when_loaded, wrap

NAME = "a_module_that_is_wrapped"


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / f"{NAME}.py").write_text("def double(number):\n    return 2 * number\n")
    monkeypatch.syspath_prepend(tmp_path)
    yield
    sys.modules.pop(NAME, None)


def one_more(function: Callable[[int], int]) -> Callable[[int], int]:
    return lambda number: function(number) + 1


def put_in(module: ModuleType) -> None:
    wrap(module, "double", one_more)
    wrap(module, "triple", one_more)  # which is not there


@pytest.mark.parametrize("is_loaded", [False, True])
def test_a_function_is_wrapped_once_whenever_its_module_is_loaded(is_loaded: bool) -> None:
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


def test_a_module_that_is_found_and_not_loaded_shows_its_source() -> None:
    when_loaded([NAME], put_in)
    spec = importlib.util.find_spec(NAME)
    assert spec is not None
    assert "def double" in spec.loader.get_source(NAME)  # type: ignore[union-attr]
    assert NAME not in sys.modules
