"""Record the programs' results under the real MosaicML Streaming.

::

    .venv-interop/bin/python -m tests.contract.interop.record [NAME…]

If names of modules or programs are given, only those are recorded again. With ``--print``, the
results are printed as JSON, and nothing is recorded.
"""

from pathlib import Path

import streaming
from streaming.base.util import clean_stale_shared_memory
from tests.contract.conformance.running import record


def cleaned(folder: Path) -> Path:
    """Remove the shared memory of the previous program."""
    clean_stale_shared_memory()
    return folder


if __name__ == "__main__":
    record(Path(__file__).parent, f"MosaicML Streaming {streaming.__version__}", cleaned)
