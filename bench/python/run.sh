#!/bin/sh
# Builds the wheel as users get it, installs it with its peers into a throw-away environment and prints the table of
# ratios. Arguments are passed on to compare.py (--check: fail if a target is missed). PYTHON chooses the interpreter.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet --disable-pip-version-check "$root" filterpy jax dynamax
cd "$work" && "$work/venv/bin/python" "$root/bench/python/compare.py" "$@"
