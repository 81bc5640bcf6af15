"""A replacement for `streaming` in other processes, which may import it before mdstorm.

It is found on a search path, or sent to Spark's workers, and never imported as part of mdstorm.
"""

import sys

#: Distinguishes this module from MosaicML's `streaming`.
STANDS_FOR_MDSTORM = True

try:
    from mdstorm_backend.mosaic import install_as_streaming
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "this program runs with mdstorm in streaming's place (mdstorm_backend.install_as_streaming)"
        f", but mdstorm cannot be imported by {sys.executable}: {error}. Install it there as well",
        name=error.name,
    ) from error

install_as_streaming()  # replaces this module with the package
