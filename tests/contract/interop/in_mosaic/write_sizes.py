"""Write datasets of zeros with MosaicML Streaming.

    write_sizes.py OUT_DIR SETTINGS_FILE

The file contains a JSON list of ``[size_limit, hashes, sizes]``, one item per dataset. Each dataset
has one sample of each size in bytes; its directory is its number. Prints the number of datasets.
"""

import json
import sys
from pathlib import Path

from streaming import MDSWriter

settings = json.loads(Path(sys.argv[2]).read_text())
for number, (size_limit, hashes, sizes) in enumerate(settings):
    with MDSWriter(
        columns={"v": "bytes", "n": "int32", "a": "str"},
        out=str(Path(sys.argv[1], str(number))),
        size_limit=size_limit,
        hashes=hashes,
    ) as writer:
        for i, size in enumerate(sizes):
            writer.write({"v": bytes(size), "n": i, "a": "é" * (i % 3)})
print(len(settings))
