#!/usr/bin/env bash
set -euo pipefail
petastorm-copy-dataset.py file:///data/src file:///data/dst --field-regex '^id$' "$@"
petastorm-generate-metadata.py --dataset_url file:///data/dst
petastorm-throughput.py file:///data/dst -m 100 -n 10
python -m petastorm.tools.copy_dataset file:///data/src file:///data/dst2
