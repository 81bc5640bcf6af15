"""Tables of mistakes: a call, and the class and text of the expected error."""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

import pytest

from mdstorm_backend.errors import MDStormError

#: A wrong call, given the URLs of one table in Parquet and in MDS, or a session and a URL.
Mistake: TypeAlias = Callable[[Any, str], Any]
#: A wrong call, the builtin class of its error, and a part of the message.
Row: TypeAlias = tuple[Mistake, type[Exception], str]


def beside(url: str, name: str) -> str:
    """Return the URL of `name` in the directory that contains `url`."""
    return f"{url.rpartition('/')[0]}/{name}"


def each_mistake(rows: list[Row]) -> pytest.MarkDecorator:
    """Parametrize a test with the rows of a table."""
    names = ("mistake", "builtin", "words")
    return pytest.mark.parametrize(names, rows, ids=[words for *_, words in rows])


def mistakes_test(rows: list[Row]) -> Callable[..., None]:
    """Return a test that makes each mistake with the URLs of the fixture `where`."""

    @each_mistake(rows)
    @pytest.mark.filterwarnings("ignore:Currently make_reader")
    def test(
        mistake: Mistake, builtin: type[Exception], words: str, where: tuple[str, str]
    ) -> None:
        check(mistake, builtin, words, where)

    return test


def check(mistake: Mistake, builtin: type[Exception], words: str, where: tuple[Any, str]) -> None:
    """Make a mistake, and check the builtin class and the words of its error."""
    with pytest.raises(builtin, match=re.escape(words)) as raised:
        mistake(*where)
    assert raised.traceback[-1].frame.f_globals["__name__"].startswith("mdstorm")
    assert len(str(raised.value)) < 1200
    assert not isinstance(raised.value.__cause__, MDStormError)  # the advice is given only once
