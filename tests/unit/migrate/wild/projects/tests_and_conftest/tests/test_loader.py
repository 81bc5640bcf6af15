import sys
from unittest.mock import MagicMock, patch

import pytest

petastorm = pytest.importorskip("petastorm")


def test_count(monkeypatch):
    import loader
    fake = MagicMock(return_value=MagicMock(__len__=lambda self: 7))
    monkeypatch.setattr(loader, "make_spark_converter", fake)
    assert loader.count(None) == 7


def test_patched(mocker):
    mocker.patch("petastorm.spark.make_spark_converter", side_effect=RuntimeError)


def test_without_petastorm():
    with patch.dict(sys.modules, {"petastorm": None, "petastorm.spark": None}):
        with pytest.raises(ImportError):
            import petastorm.spark  # noqa
