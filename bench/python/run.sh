#!/bin/sh
# Builds the wheel, installs it with its peers into a throw-away environment and prints the table of ratios.
# Arguments are passed on to compare.py.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" install --quiet "$root" filterpy jax dynamax
cd "$work" && "$work/venv/bin/python" "$root/bench/python/compare.py" "$@"
