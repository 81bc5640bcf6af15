import re

import pytest

import mdstorm_backend
from mdstorm_backend.base.optional import require
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
def test_a_missing_library_is_one_error_that_says_what_to_install(
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


def test_a_library_that_is_broken_says_so_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'libcuda'", name="libcuda")

    monkeypatch.setattr("importlib.import_module", broken)
    with pytest.raises(ModuleNotFoundError, match="libcuda") as caught:
        require("torch")
    assert not isinstance(caught.value, MDStormError)


def test_every_public_name_can_be_had() -> None:
    assert sorted(mdstorm_backend.__all__) == mdstorm_backend.__all__
    for name in mdstorm_backend.__all__:
        found = getattr(mdstorm_backend, name)
        assert getattr(found, "__name__", name) == name
    assert set(mdstorm_backend.__all__) <= set(dir(mdstorm_backend))


def test_other_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = mdstorm_backend.nothing
