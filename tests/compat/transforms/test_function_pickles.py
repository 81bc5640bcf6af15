"""Pickles of functions, and what tells one function from another."""

import functools
import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from mdstorm._transforms.process_transform import function_identity


@pytest.fixture
def module_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import a module of some text, again and again."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(text: str) -> Any:
        (tmp_path / "users_module.py").write_text(text)
        sys.modules.pop("users_module", None)
        importlib.invalidate_caches()
        sys.dont_write_bytecode = True
        try:
            return importlib.import_module("users_module")
        finally:
            sys.dont_write_bytecode = False

    yield load
    sys.modules.pop("users_module", None)


CODE = "def helper(n): return n + {0}\n\ndef work(n): return helper(n)\n"


@pytest.mark.parametrize(
    "wrap", [lambda f: f, lambda f: functools.partial(f, 1)], ids=["function", "partial"]
)
@pytest.mark.parametrize(
    "text", [CODE, "import threading\nlock = threading.Lock()\n" + CODE], ids=["plain", "lock"]
)
def test_a_function_changes_with_those_that_it_calls(module_of: Any, wrap: Any, text: str) -> None:
    first = function_identity(wrap(module_of(text.format(1)).work))
    assert first == function_identity(wrap(module_of(text.format(1)).work))
    assert first != function_identity(wrap(module_of(text.format(2)).work))


def test_arguments_of_a_partial_count() -> None:
    assert function_identity(functools.partial(max, 1)) != function_identity(
        functools.partial(max, 2)
    )
