"""Tests of a framework are skipped only where it is not installed."""

from pathlib import Path

import pytest
from tests.kit.frameworks import import_framework


def test_framework_that_is_not_installed_skips() -> None:
    with pytest.raises(pytest.skip.Exception, match="needs no_framework"):
        import_framework("no_framework.data")


def test_installed_framework_without_one_of_its_dependencies_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a_framework.py").write_text("import its_dependency")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="its_dependency"):
        import_framework("a_framework")
