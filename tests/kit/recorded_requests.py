"""Record which of the files that columns name are read."""

import pytest

from mdstorm_backend.storage import NamedFiles


def record_requests(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the path of each file that this process reads from now on."""
    found: list[str] = []
    read = NamedFiles.read

    def recorded(files: NamedFiles, path: str) -> bytes:
        found.append(path)
        return read(files, path)

    monkeypatch.setattr(NamedFiles, "read", recorded)
    return found
