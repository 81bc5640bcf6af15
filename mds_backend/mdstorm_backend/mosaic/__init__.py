"""What only MosaicML Streaming's API has, for `mdstorm_backend.streaming` to name.

Its classes have MosaicML's names, also where the engine has another class of that name, such as
`Encoding` and `Bytes`.
"""
