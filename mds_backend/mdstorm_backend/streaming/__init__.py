"""MosaicML Streaming's modules over this engine: `streaming.x` is `mdstorm_backend.streaming.x`.

Code changes its imports, or calls `mdstorm_backend.install_as_streaming` and changes nothing. The
modules are made from the table in `mdstorm_backend.drop_in.streaming`; editors and type
checkers read the stubs beside this file, which scripts/make_streaming_stubs.py writes. What is
absent raises an ImportError that says where docs/mosaicml.md speaks of it.
"""

from __future__ import annotations

import sys

from mdstorm_backend.drop_in.streaming import MIRROR

#: The release whose API this is.
__version__ = "0.13.0"

MIRROR.mirror_from(sys.modules[__name__])
