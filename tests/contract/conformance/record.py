"""Record the programs' results under the real Petastorm.

::

    benchmarks/.environments/petastorm/bin/python -m tests.contract.conformance.record [NAME…]

If names of modules or programs are given, only those programs are recorded again. With ``--print``,
the results are printed as JSON, and nothing is recorded.
"""

from pathlib import Path

import petastorm
from tests.contract.conformance.place import Place
from tests.contract.conformance.running import record

if __name__ == "__main__":
    record(Path(__file__).parent, f"Petastorm {petastorm.__version__}", Place)
