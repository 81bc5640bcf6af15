"""Write datasets with user-defined encodings, using MosaicML Streaming.

    own_encodings.py MODULE_DIR OUT_DIR

The classes are in the module `own_classes` in MODULE_DIR. Prints sample 7 of each dataset as text.
"""

import json
import sys
from pathlib import Path

from streaming import LocalDataset, MDSWriter
from streaming.base.format.mds.encodings import _encodings

sys.path.insert(0, sys.argv[1])
own = __import__("own_classes")
_encodings.update(own.OWN)

found = {}
for name, columns in own.LAYOUTS.items():
    out = str(Path(sys.argv[2]) / name)
    encodings = {column: own.COLUMNS[column] for column in columns}
    with MDSWriter(columns=encodings, out=out, size_limit=500) as writer:
        for i in range(40):
            writer.write({column: own.sample(i)[column] for column in columns})
    found[name] = str(LocalDataset(out)[7])
json.dump(found, sys.stdout)
