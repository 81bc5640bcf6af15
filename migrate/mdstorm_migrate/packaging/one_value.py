"""Options of install commands that take one requirement each: ``uv run --with petastorm``."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mdstorm_migrate.packaging.requirement import Requirement, quoted_word

#: Such an option up to a requirement; uv takes several with commas between them.
_OPTION = re.compile(
    r"""(?<![\w-]) (?P<option> (?:--with|-w) (?: [ \t]+ | = | (?P<gap>["'][ \t]*,[ \t]*["']) ) )
    (?P<value> ["']? (?:[^\s"',]+,)* ) \Z""",
    re.VERBOSE,
)
#: How far before a requirement its option begins at the most, in characters.
_FAR = 300


def option_before(text: str, found: Requirement) -> re.Match[str] | None:
    """Return the option whose value a requirement is, or is a part of."""
    return _OPTION.search(text, max(found.start - _FAR, 0), found.start)


def repeated(text: str, option: re.Match[str], items: Sequence[str]) -> str:
    """Return the text before the value of an option that gives other requirements to the same."""
    head, at = option["option"], option.start("value")
    quote = text[option.start() - 1 : option.start()]
    if head.endswith("=") and quote in ('"', "'"):  # one string of an array
        return "".join(f"{one}{quote}, {quote}{head}" for one in items)
    if gap := option["gap"]:
        return "".join(f"{one}{gap}{head}" for one in items)
    words = [quoted_word(f"{text[:at]} ", at + 1, at + 1, one) for one in items]
    return "".join(f"{word} {head}" for word in words)
