"""MosaicML Streaming's modules: `streaming.x` is `mdstorm_backend.streaming.x` here.

Programs change their imports, or call `mdstorm_backend.install_as_streaming` and change nothing.
The modules are created from the table in `mdstorm_backend.mosaic.mirror`. Editors and type
checkers read the stubs next to this file, which scripts/make_streaming_stubs.py writes. Importing
a missing name raises an ImportError that refers to the relevant section of docs/mosaicml.md.
"""

from __future__ import annotations

import sys

from mdstorm_backend.mosaic.mirror import mirror_from

#: The release of MosaicML Streaming whose API these modules have.
__version__ = "0.13.0"

mirror_from(sys.modules[__name__])
