"""A stand-in for `petastorm` in other processes, which import it before mdstorm.

Only its folder stands on a search path, and Spark sends it to its workers: it is never imported
as a part of `mdstorm`.
"""

import sys

#: How mdstorm knows this module from the real Petastorm.
STANDS_FOR_MDSTORM = True

try:
    from mdstorm import install_as_petastorm
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "this program runs with mdstorm in petastorm's place (mdstorm.install_as_petastorm), but "
        f"mdstorm cannot be imported by {sys.executable}: {error}. Install it there, too",
        name=error.name,
    ) from error

install_as_petastorm()  # puts the package in the place of this module
