#!/bin/sh
# Builds the wheel into a throw-away virtual environment and runs every Python check there:
# tests, docstring examples, the tutorial, type checks. Arguments are passed on to pytest.
#
# PYTHON chooses the interpreter (default: python3). Needs cargo and a package index.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python="$work/venv/bin/python"

"${PYTHON:-python3}" -m venv "$work/venv"
"$python" -m pip install --quiet --disable-pip-version-check "$root[test]"
cargo run --quiet --release --manifest-path "$root/Cargo.toml" -p optfilter-py --example rust_results \
    > "$work/rust_results.txt"

# Away from the sources, so that the installed package is the one that is tested.
cd "$work"
export MPLBACKEND=Agg OPTFILTER_RUST_RESULTS="$work/rust_results.txt"
"$python" -m pytest -q -p no:cacheprovider "$root/python/tests" "$@"
"$python" -m pytest -q -p no:cacheprovider --doctest-modules --pyargs optfilter
"$python" "$root/python/tutorial/run.py" --figures "$work/figures"
"$python" -m mypy.stubtest --mypy-config-file "$root/pyproject.toml" optfilter
"$python" -m mypy --config-file "$root/pyproject.toml" --strict-equality -p optfilter
