#!/usr/bin/env bash
# Makes a virtual environment with the libraries of a Databricks runtime, plus mdstorm.
#
#   tests/slow/runtimes/make_environment.sh TARGET_VENV_DIR CONSTRAINTS_FILE
#
# The file names the version of Python and, if it is known, of Spark. The constraints apply to everything except torch
# and its dependencies: older Linux builds on PyPI include CUDA, so the version in constraints/dev.txt is installed
# instead.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 TARGET_VENV_DIR CONSTRAINTS_FILE" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT

grep -v -E '^(torch|sympy|setuptools)==' "$2" > "$constraints"
grep -E '^torch==' "$root/constraints/dev.txt" >> "$constraints"
grep -E '^setuptools==' "$root/constraints/lowest.txt" >> "$constraints"
spark=$(sed -n 's/^# .*: Spark //p' "$2")
PYTHON=python$(sed -n 's/^# python: //p' "$2")
export PYTHON

"$root/scripts/make_venv.sh" "$target" --constraint "$constraints" \
    --editable "$root[torch]" "pyspark${spark:+==$spark}" pandas tensorflow-cpu pillow hypothesis pytest pytest-xdist scikit-learn
