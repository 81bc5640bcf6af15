#!/usr/bin/env bash
# Installs pinned versions of Azurite, which stands in for Azure Blob Storage in the tests.
#
#   tests/kit/servers/azurite/install.sh TARGET_DIR
#
# Without npm, nothing is installed, and the tests that need Azurite are skipped.
set -euo pipefail

if [[ $# -ne 1 ]]; then
    echo "usage: $0 TARGET_DIR" >&2
    exit 2
fi

target=$1
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

mkdir -p "$target"
if ! command -v npm > /dev/null; then
    echo "npm is not installed: tests that use Azure storage will be skipped" >&2
    exit 0
fi
cp "$here/package.json" "$here/package-lock.json" "$target"
# No package needs its install scripts, which would compile and download more.
npm ci --prefix "$target" --ignore-scripts --no-audit --no-fund --loglevel=error
