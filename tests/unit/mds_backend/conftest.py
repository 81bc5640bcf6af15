"""Terminal and notebook outputs for progress bars."""

import io
from collections.abc import Iterator
from typing import Any

import pytest


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def notebook() -> Iterator[Any]:
    from IPython.core.interactiveshell import InteractiveShell

    shell = InteractiveShell.instance(history_load_length=0)
    shell.kernel = object()  # added by ipykernel
    yield shell
    InteractiveShell.clear_instance()
