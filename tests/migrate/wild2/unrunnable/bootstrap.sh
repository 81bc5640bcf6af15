#!/bin/bash
# EMR bootstrap
sudo python3 -m pip install 'petastorm==0.11.4' pyarrow==6.0.1
export PETASTORM_URL="hdfs:///petastorm"
spark-submit --conf spark.petastorm.x=1 $(which petastorm-generate-metadata.py) --dataset_url $PETASTORM_URL
python3 <<'PY'
from petastorm import make_reader
print(make_reader)
PY
python3 -c 'import petastorm.reader as r; print(r)' || pip3 uninstall -y petastorm
