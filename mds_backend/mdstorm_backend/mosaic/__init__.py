"""The parts of MosaicML Streaming's API that the rest of the engine does not have.

`mdstorm_backend.streaming` provides them under their original module paths. Classes have MosaicML's
names, even if the engine has a different class with the same name, such as `Encoding` and `Bytes`.
"""
