#!/usr/bin/env bash
# Makes the virtual environment of Poetry and tox, with which tests resolve migrated projects.
#
#   tests/migrate/projects/make_environment.sh TARGET_VENV_DIR
#
# Repeating the call costs nothing while the pinned versions stay the same. PYTHON names the interpreter (3.11).
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 TARGET_VENV_DIR" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
requirements=$here/../../../constraints/installers.txt
stamp=$target/.complete
identity=$(sha256sum < "$requirements")

if [[ -f $stamp && $(< "$stamp") == "$identity" ]]; then
    exit 0
fi

# The list is complete, so nothing need be resolved.
"$here/../../../scripts/make_venv.sh" "$target" --no-deps --requirement "$requirements"
"$target/bin/poetry" --version
"$target/bin/tox" --version
printf '%s\n' "$identity" > "$stamp"
