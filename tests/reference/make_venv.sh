#!/bin/sh
# Makes a virtual environment for the references: make_venv.sh DIR [--small]
# --small leaves out torch, transformers and safetensors, which only the second opinions use (several GB).
set -eu
if [ $# -lt 1 ]; then
  echo "usage: make_venv.sh DIR [--small]" >&2
  exit 2
fi
here=$(cd "$(dirname "$0")" && pwd)
"${PYTHON:-python3}" -m venv "$1"
if [ "${2:-}" = "--small" ]; then
  "$1/bin/pip" install -q --require-hashes -r "$here/requirements-small.txt"
else
  "$1/bin/pip" install --require-hashes -r "$here/requirements.txt"
fi
echo "$1/bin/python"
