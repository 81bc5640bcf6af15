"""Tables of mistakes: invalid calls, and the class and part of the message of each error."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from mdstorm_backend.errors import MDStormError

#: An invalid call that takes the Parquet and MDS URLs of the same table, or a session and a URL.
Mistake: TypeAlias = Callable[[Any, str], Any]
#: An invalid call, the built-in class of its error, and part of the message.
Row: TypeAlias = tuple[Mistake, type[Exception], str]


def beside(url: str, name: str) -> str:
    """Return the URL of `name` in the directory that contains `url`."""
    return f"{url.rpartition('/')[0]}/{name}"


def each_mistake(rows: list[Row]) -> pytest.MarkDecorator:
    """Parametrize a test with the rows in a table."""
    names = ("mistake", "builtin", "words")
    return pytest.mark.parametrize(names, rows, ids=[words for *_, words in rows])


def mistakes_test(rows: list[Row]) -> Callable[..., None]:
    """Return a test that makes each mistake with the URLs from the `where` fixture."""

    @each_mistake(rows)
    @pytest.mark.filterwarnings("ignore:Currently make_reader")
    def test(
        mistake: Mistake, builtin: type[Exception], words: str, where: tuple[str, str]
    ) -> None:
        check(mistake, builtin, words, where)

    return test


def check(mistake: Mistake, builtin: type[Exception], words: str, where: tuple[Any, str]) -> None:
    """Make a mistake and check the built-in class and message of its error."""
    with pytest.raises(builtin, match=re.escape(words)) as raised:
        mistake(*where)
    assert raised.traceback[-1].frame.f_globals["__name__"].startswith("mdstorm")
    assert len(str(raised.value)) < 1200
    # One of mdstorm's errors as the cause would repeat the advice.
    assert not isinstance(raised.value.__cause__, MDStormError)
