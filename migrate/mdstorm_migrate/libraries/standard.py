"""Names that Python's own library lost up to 3.10, the first that mdstorm runs on."""

from __future__ import annotations

from mdstorm_migrate.libraries.removed import Removed, all_of, joined

NAMES = joined(
    all_of(
        "collections",
        "Callable Container Generator Hashable ItemsView Iterable Iterator KeysView Mapping "
        "MappingView MutableMapping MutableSequence MutableSet Sequence Set Sized ValuesView",
        Removed("Python 3.10", "take it from `collections.abc`", ruff="UP035"),
    ),
    all_of("time", "clock", Removed("Python 3.8", "call `time.perf_counter`")),
    all_of("fractions", "gcd", Removed("Python 3.9", "call `math.gcd`")),
    all_of("cgi", "escape", Removed("Python 3.8", "call `html.escape`")),
    all_of(
        "base64",
        "encodestring decodestring",
        Removed("Python 3.9", "call `base64.encodebytes` and `base64.decodebytes`"),
    ),
    all_of(
        "platform",
        "linux_distribution dist",
        Removed("Python 3.8", "call `platform.freedesktop_os_release`"),
    ),
    all_of("string", "maketrans", Removed("Python 3.0", "call `str.maketrans`")),
    all_of("itertools", "izip imap ifilter", Removed("Python 3.0", "call the builtin")),
)
