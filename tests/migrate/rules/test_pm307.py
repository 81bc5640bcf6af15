"""Requirements of MosaicML Streaming."""

from __future__ import annotations

import pytest

from mdstorm_migrate.api import migrate


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("requirements.txt", "petastorm[torch]==0.12.1\n", "mosaicml-streaming\n"),
        ("pyproject.toml", '[project]\ndependencies = ["petastorm>=0.12"]\n', None),
        ("Dockerfile", "RUN pip install petastorm==0.12 torch\n", None),
        ("environment.yml", "dependencies:\n  - pip:\n    - petastorm==0.12.1\n", None),
        ("Pipfile", '[packages]\npetastorm = "*"\n', '[packages]\nmosaicml-streaming = "*"\n'),
        ("setup.py", "setup(install_requires=['petastorm==0.12'])\n", None),
        ("job.json", '{"pypi": {"package": "petastorm==0.12.1"}}\n', None),
    ],
)
def test_requirements_change_with_unsafe_alone(path: str, before: str, after: str | None) -> None:
    assert not migrate(before, path=path, target="streaming", todo=False).changed
    result = migrate(before, path=path, target="streaming", unsafe=True)
    assert result.changed
    assert "petastorm" not in result.output
    assert "mosaicml-streaming" in result.output
    if after is not None:
        assert result.output == after
    assert not migrate(result.output, path=path, target="streaming", unsafe=True).changed


def test_settings_of_petastorm_stay() -> None:
    text = 'conf: {"petastorm.spark.converter.parentCacheDirUrl": "file:///x"}\n'
    assert not migrate(text, path="job.yml", target="streaming", unsafe=True).changed
