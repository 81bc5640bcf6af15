#!/usr/bin/env bash
# Makes the environments of the libraries that the benchmarks compare with, below benchmarks/.environments/:
# `petastorm` and `mosaic`. Each library gets the versions it was released for, which exclude one another.
#
# Repeating the call costs nothing while the pinned versions stay the same. PYTHON names the interpreter (3.11).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environments=$here/.environments
mkdir -p "$environments"

"$here/../tests/interop/make_environment.sh" "$environments/mosaic"

target=$environments/petastorm
requirements=$here/../constraints/petastorm.txt
stamp=$target/.complete
identity=$(sha256sum < "$requirements")

if [[ -f $stamp && $(< "$stamp") == "$identity" ]]; then
    exit 0
fi

# The list is complete, so nothing need be resolved; see its head for why it must not.
"$here/../scripts/make_venv.sh" "$target" --no-deps --requirement "$requirements"

"$target/bin/python" - <<'CHECK'
import petastorm
import petastorm.pytorch
import petastorm.spark
import petastorm.tf_utils

print("Petastorm", petastorm.__version__, "is ready")
CHECK
printf '%s\n' "$identity" > "$stamp"
