import subprocess
import sys

subprocess.check_call([sys.executable, "-m", "pip", "install", "petastorm==0.12.1", "--quiet"])
subprocess.run("spark-submit --conf petastorm.spark.converter.parentCacheDirUrl=file:///tmp/x train.py", shell=True)
CODE = """
from petastorm import make_reader
print(make_reader)
"""
subprocess.run([sys.executable, "-c", "import petastorm; print(petastorm.__version__)"])
exec("from petastorm import make_batch_reader")
reader = eval("petastorm.make_reader")
