"""MosaicML Streaming's modules over this engine: `streaming.x` is `mdstorm_backend.streaming.x`.

Programs change their imports, or call `mdstorm_backend.install_as_streaming` and change nothing.
The modules are created from the table in `mdstorm_backend.drop_in.streaming`. Editors and type
checkers read the stubs next to this file, which scripts/make_streaming_stubs.py writes. Importing
an absent name raises an ImportError that names the section of docs/mosaicml.md about it.
"""

from __future__ import annotations

import sys

from mdstorm_backend.drop_in.streaming import mirror_from

#: The release whose API this is.
__version__ = "0.13.0"

mirror_from(sys.modules[__name__])
