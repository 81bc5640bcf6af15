#!/usr/bin/env bash
# Makes the virtual environment for MosaicML Streaming itself, for tests and benchmarks that compare with it.
#
#   tests/contract/interop/make_environment.sh TARGET_VENV_DIR
#
# Repeated calls do nothing unless the pinned versions have changed. Set PYTHON to the interpreter (3.11).
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 TARGET_VENV_DIR" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/../../../constraints/interop.txt
stand_in=$(cd "$here/../../kit/stand_in" && pwd)
stamp=$target/.complete
identity="$(sha256sum < "$requirements") $stand_in"

if [[ -f $stamp && $(< "$stamp") == "$identity" ]]; then
    exit 0
fi

# The list is complete, so nothing needs to be resolved; its first lines explain why it must not be.
"$here/../../../scripts/make_venv.sh" "$target" --no-deps --requirement "$requirements"

# A stand-in for torchvision, only on this environment's path; its docstring explains why it exists.
site=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$stand_in" > "$site/stand_in.pth"

"$target/bin/python" -c 'import streaming; print("MosaicML Streaming", streaming.__version__, "is ready")'
printf '%s\n' "$identity" > "$stamp"
