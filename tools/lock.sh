#!/usr/bin/env bash
# Writes the lock files anew from pyproject.toml and requirements/*.in (`make lock`).
#
# Promises: every line carries the hashes of all files of its version; no index, no host and no path of this machine is
# written; each lock holds the versions of the one before it, so that installing one over another changes nothing.
# Without arguments, versions already locked stay; `tools/lock.sh --upgrade` takes the newest.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

uv_version=0.13.9
[ -x .venv-lock/bin/uv ] || {
    python3 -m venv .venv-lock
    .venv-lock/bin/python -m pip install --quiet "uv==$uv_version"
}

lock() {
    out=$1
    shift
    .venv-lock/bin/uv pip compile --quiet --no-config --universal --python-version 3.11 --generate-hashes --no-header \
        --no-emit-index-url --no-emit-find-links --output-file "requirements/$out" "$@" >/dev/null
    sed -i '/^    #   -c /d' "requirements/$out"  # "through a constraint" says nothing to a reader
    echo "requirements/$out: $(grep -c '^[a-z0-9].*==' "requirements/$out") packages" >&2
}

lock runtime.txt pyproject.toml "$@"
lock demo.txt pyproject.toml requirements/demo.in --constraint requirements/runtime.txt "$@"
lock dev.txt pyproject.toml requirements/demo.in requirements/dev.in --constraint requirements/demo.txt "$@"
lock model.txt requirements/model.in --no-deps "$@"
