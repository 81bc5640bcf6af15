#!/usr/bin/env bash
# Makes the virtual environment for tests with trainers: the development environment plus the frameworks in
# constraints/trainers.txt.
#
#   tests/slow/trainers/make_environment.sh TARGET_VENV_DIR DEVELOPMENT_VENV_DIR
#
# Set PYTHON to the interpreter (3.11).
set -euo pipefail

if [[ $# -ne 2 ]]; then
    echo "usage: $0 TARGET_VENV_DIR DEVELOPMENT_VENV_DIR" >&2
    exit 2
fi

target=$1
development=$(cd "$2" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
site='import sysconfig; print(sysconfig.get_path("purelib"))'

# The list is complete. Nothing is resolved, because Composer pins older versions of torch and other packages.
"$root/scripts/make_venv.sh" "$target" --no-deps --requirement "$root/constraints/trainers.txt"

# What is installed in the development environment counts as installed here.
echo "import site; site.addsitedir('$("$development/bin/python" -c "$site")')" \
    > "$("$target/bin/python" -c "$site")/development.pth"
