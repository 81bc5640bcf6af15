import importlib.util
import subprocess
import sys
import traceback

import pytest

try:
    import petastorm
    from petastorm.spark import make_spark_converter
except ImportError as exc:
    if "petastorm" in str(exc) or exc.name == "petastorm":
        petastorm = None
    else:
        raise

if petastorm is not None:
    class C(petastorm.reader.Reader):
        pass

needs = pytest.mark.skipif(not importlib.util.find_spec("petastorm"), reason="needs petastorm")
pytestmark = [pytest.mark.petastorm, pytest.mark.filterwarnings("ignore::DeprecationWarning:petastorm.*")]

if 'petastorm' in sys.modules:
    print("loaded")
if 'petastorm' not in subprocess.getoutput("pip freeze"):
    subprocess.call("pip3 install petastorm", shell=True)
