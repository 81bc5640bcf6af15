"""The parts of MosaicML Streaming's API that the rest of the engine does not have.

`mdstorm_backend.streaming` offers them under their original module paths. Classes have MosaicML's
names, even if the engine has another class of that name, such as `Encoding` and `Bytes`.
"""
