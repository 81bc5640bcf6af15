#!/usr/bin/env bash
# Makes a virtual environment with the libraries of a Databricks runtime, and mdstorm on top of them.
#
#   tests/runtimes/make_environment.sh TARGET_VENV_DIR CONSTRAINTS_FILE
#
# PYTHON names the interpreter, which is the runtime's version. The constraints hold for everything but torch and what
# it needs: PyPI's older builds of it for Linux bring CUDA along, so that the version of constraints/dev.txt comes in.
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 TARGET_VENV_DIR CONSTRAINTS_FILE" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../.." && pwd)
constraints=$(mktemp)
trap 'rm -f "$constraints"' EXIT

grep -v -E '^(torch|sympy|setuptools)==' "$2" > "$constraints"
grep -E '^torch==' "$root/constraints/dev.txt" >> "$constraints"
grep -E '^setuptools==' "$root/constraints/lowest.txt" >> "$constraints"
spark=$(sed -n 's/^# .*: Spark //p' "$2")

"$root/scripts/make_venv.sh" "$target" --constraint "$constraints" \
    --editable "$root[torch]" "pyspark==$spark" pandas tensorflow-cpu pillow hypothesis pytest pytest-xdist scikit-learn
