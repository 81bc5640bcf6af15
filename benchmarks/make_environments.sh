#!/usr/bin/env bash
# Creates environments under benchmarks/.environments/ for the libraries that the benchmarks compare with. Each gets the
# versions that its library was released for, which are mutually incompatible.
#
#   benchmarks/make_environments.sh [petastorm] [mosaic] [peers] [recorder]
#
# Without arguments, it creates the first three. `recorder` creates one for each installed Python from 3.7 to 3.10, with
# the oldest NumPy that has wheels for it. The one for 3.10 also gets Petastorm. They are used to test the recorder of
# `mdstorm compare`. Environments whose pinned versions have not changed are not rebuilt. PYTHON is the interpreter to
# use (3.11).
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
environments=$here/.environments
mkdir -p "$environments"

# $1: the environment's name, also that of its list of versions. $2: the modules that it must be able to import.
make_environment() {
    local target=$environments/$1 requirements=$here/../constraints/$1.txt
    local stamp=$target/.complete identity
    identity=$(sha256sum < "$requirements")
    if [[ -f $stamp && $(< "$stamp") == "$identity" ]]; then
        return
    fi
    # The list is complete, so pip need not resolve anything. The comment at the top of the list explains why it must not.
    "$here/../scripts/make_venv.sh" "$target" --no-deps --requirement "$requirements"
    "$target/bin/python" -c "import $2"
    printf '%s\n' "$identity" > "$stamp"
}

# $1: the Python version. Other arguments: what to install.
make_recorder_environment() {
    local target=$environments/recorder-$1 python
    python=$(compgen -G "${PYENV_ROOT:-$HOME/.pyenv}/versions/$1.*/bin/python" | head -1 || command -v "python$1" || true)
    if [[ -z $python || -f $target/.complete && $(< "$target/.complete") == "${*:2}" ]]; then
        return
    fi
    "$python" -m venv --clear "$target"
    # PySpark has no wheels.
    "$target/bin/python" -m pip install --quiet --disable-pip-version-check \
        --only-binary :all: --no-binary pyspark "${@:2}"
    printf '%s\n' "${*:2}" > "$target/.complete"
}

[[ $# -gt 0 ]] || set -- petastorm mosaic peers
for name in "$@"; do
    case $name in
        petastorm) make_environment petastorm "petastorm.pytorch, petastorm.spark, petastorm.tf_utils" ;;
        mosaic) "$here/../tests/contract/interop/make_environment.sh" "$environments/mosaic" ;;
        peers) make_environment peers "datasets, lance.torch.data, litdata, ray.data, webdataset" ;;
        recorder)
            make_recorder_environment 3.7 numpy==1.17.5
            make_recorder_environment 3.8 numpy==1.18.5
            make_recorder_environment 3.9 numpy==1.19.5
            make_recorder_environment 3.10 numpy==1.21.6 \
                petastorm==0.12.1 pyarrow==8.0.0 pandas==1.3.5 pyspark==3.5.9 setuptools==69.5.1
            ;;
        *) echo "error: unknown environment $name" >&2; exit 2 ;;
    esac
done
