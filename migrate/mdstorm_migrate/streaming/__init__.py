"""What ``--target streaming`` makes of converters: MosaicML Streaming's own API.

A converter becomes the directory of its dataset. `converters` follows each of them through a module
and says what stands in its way, `loaders` turns one call of ``make_torch_dataloader``, `shards`
knows which ranks the environment gives, `directory` where datasets are written, `emitted` holds the
functions that the migrated code gets, `placement` edits the imports, and `plan` puts it together. A
converter that cannot be turned wholly stays with Petastorm.
"""
