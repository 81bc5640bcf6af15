#!/usr/bin/env bash
# Makes the virtual environment in which MosaicML Streaming itself runs, for tests and benchmarks that compare with it.
#
#   tests/interop/make_environment.sh TARGET_VENV_DIR
#
# Repeating the call costs nothing while the pinned versions stay the same. PYTHON names the interpreter (3.11).
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 TARGET_VENV_DIR" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/../../constraints/interop.txt
stand_in=$(cd "$here/../stand_in" && pwd)
stamp=$target/.complete
identity="$(sha256sum < "$requirements") $stand_in"

if [[ -f $stamp && $(< "$stamp") == "$identity" ]]; then
    exit 0
fi

# The list is complete, so nothing need be resolved; see its head for why it must not.
"$here/../../scripts/make_venv.sh" "$target" --no-deps --requirement "$requirements"

# A stand-in for torchvision, on the path of this environment alone; its module says why it exists.
site=$("$target/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
echo "$stand_in" > "$site/stand_in.pth"

"$target/bin/python" -c 'import streaming; print("MosaicML Streaming", streaming.__version__, "is ready")'
printf '%s\n' "$identity" > "$stamp"
