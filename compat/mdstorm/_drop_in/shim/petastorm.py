"""A stand-in for `petastorm` in processes that import it before mdstorm.

It is found on `sys.path`, or sent to Spark's workers, and never imported as part of `mdstorm`.
"""

import sys

#: Distinguishes this module from the real Petastorm.
STANDS_FOR_MDSTORM = True

try:
    from mdstorm import install_as_petastorm
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "this program runs with mdstorm in petastorm's place (mdstorm.install_as_petastorm), but "
        f"mdstorm cannot be imported by {sys.executable}: {error}. Install it there as well",
        name=error.name,
    ) from error

install_as_petastorm()  # replaces this module with the package
