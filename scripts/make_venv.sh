#!/usr/bin/env bash
# Creates a virtual environment and installs into it with uv, which resolves fast and unpacks a wheel once for all
# environments. uv has its own environment, .venv-uv.
#
#   scripts/make_venv.sh TARGET_VENV_DIR ARGUMENTS OF pip install…
#
# PYTHON selects the interpreter (default 3.11). PIP_INDEX_URL, PIP_EXTRA_INDEX_URL and PIP_FIND_LINKS are respected;
# uv's own variables take precedence. If none is set, PyTorch comes from its own index.
set -euo pipefail

if [[ $# -lt 2 ]]; then
    echo "usage: $0 TARGET_VENV_DIR ARGUMENTS OF pip install…" >&2
    exit 2
fi

target=$1
shift
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
tools=$root/.venv-uv
[[ -e $tools/.complete ]] || make --no-print-directory --directory "$root" .venv-uv/.complete

if [[ -n ${PIP_INDEX_URL:-} ]]; then
    export UV_DEFAULT_INDEX=${UV_DEFAULT_INDEX:-$PIP_INDEX_URL}
fi
if [[ -n ${PIP_EXTRA_INDEX_URL:-} ]]; then
    export UV_INDEX=${UV_INDEX:-$PIP_EXTRA_INDEX_URL}
    export UV_INDEX_STRATEGY=${UV_INDEX_STRATEGY:-unsafe-best-match}  # pip's
fi
if [[ -n ${PIP_FIND_LINKS:-} ]]; then
    export UV_FIND_LINKS=${UV_FIND_LINKS:-${PIP_FIND_LINKS// /,}}
fi

# An existing uv configuration takes precedence.
if [[ -z ${UV_DEFAULT_INDEX:-}${UV_INDEX_URL:-} && ! -e ${XDG_CONFIG_HOME:-$HOME/.config}/uv/uv.toml ]]; then
    export UV_CONFIG_FILE=${UV_CONFIG_FILE:-$root/scripts/uv.toml}
fi

# PyTorch's own index has the CPU build, which the constraints refer to.
settings=$("$tools/bin/python" -m pip config list)
if [[ $settings != *index-url* && $settings != *find-links* ]]; then
    export UV_TORCH_BACKEND=${UV_TORCH_BACKEND:-cpu}
fi

"$tools/bin/uv" venv --quiet --clear --python "${PYTHON:-python3.11}" "$target"
"$tools/bin/uv" pip install --python "$target/bin/python" "$@"
