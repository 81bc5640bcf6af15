"""The parts of MosaicML Streaming's API that the rest of the engine does not have.

`mdstorm_backend.streaming` provides them under their original module paths, by the table in
`mirror`. Classes have MosaicML's names, even if the engine has a different class with the same
name, such as `Encoding` and `Bytes`.
"""

from __future__ import annotations

from mdstorm_backend.mosaic.mirror import install_as_streaming

__all__ = ["install_as_streaming"]
