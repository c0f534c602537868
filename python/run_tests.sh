#!/bin/sh
# Builds the wheel into a throw-away virtual environment and runs every Python check there:
# tests, docstring examples, the tutorial, type checks. Arguments are passed on to pytest.
#
# PYTHON chooses the interpreter (default: python3). PROFILE chooses how Rust is compiled (default: dev, as `cargo test`,
# whose dependencies it shares; `release` is what `pip install .` gives users). Results do not depend on
# it to the last bit. PEERS=0 leaves out Ray, Dask, Spark, JAX and optax, and with them the tests that need them.
# Needs cargo and a package index.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
profile=${PROFILE:-dev}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python="$work/venv/bin/python"

begin=$(date +%s)
phase() { # says what begins, and how long the phase before took
    now=$(date +%s)
    if [ -n "${name:-}" ]; then echo "--- $name: $((now - begin)) s"; fi
    name=$1 begin=$now
}

phase "wheel and environment"
"${PYTHON:-python3}" -m venv "$work/venv"
# From the source package alone, as users get it; its crates share what is compiled here already.
export CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-$root/target}"
"$python" -m pip install --quiet --disable-pip-version-check "maturin>=1.9.4,<2"
(cd "$root" && "$work/venv/bin/maturin" sdist --out "$work/sdist" 2>"$work/sdist.log") || { cat "$work/sdist.log"; exit 1; }
tar -xzf "$work"/sdist/optfilter-*.tar.gz -C "$work/sdist"
package=$(ls -d "$work"/sdist/optfilter-*/)
# Packed files have no times of their own; with those of the sources, cargo knows what is compiled already and what is old.
(cd "$package" && find . -type f | while read -r file; do
    if [ -e "$root/$file" ]; then touch -r "$root/$file" "$file"; fi
done)
"$python" -m pip install --quiet --disable-pip-version-check \
    --config-settings=build-args="--profile=$profile" "optfilter[test] @ file://$package"
if [ "${PEERS:-1}" != 0 ]; then
    "$python" -m pip install --quiet --disable-pip-version-check ray jax optax \
        || echo "Ray, JAX or optax does not install here: their tests are skipped"
    # Spark also needs Java (Debian: default-jre-headless).
    "$python" -m pip install --quiet --disable-pip-version-check "ray[data]" "dask[dataframe]" distributed pyspark \
        || echo "Dask, Ray or Spark does not install here: their tests are skipped"
fi
phase "the other doors: the program and the library"
mkdir "$work/doors"
target=${CARGO_TARGET_DIR:-$root/target}
if [ "$profile" = dev ]; then built=debug; else built=$profile; fi
# Of the whole workspace, as `cargo test` compiles it: a package alone has other features and would be compiled again.
cargo build --quiet --locked --profile "$profile" --manifest-path "$root/Cargo.toml" --workspace \
    --bin optfilter --example doors
"$target/$built/examples/doors" "$work/doors"

# Away from the sources, so that the installed package is the one that is tested.
cd "$work"
export MPLBACKEND=Agg OPTFILTER_DOORS="$work/doors" OPTFILTER_BINARY="$target/$built/optfilter"
phase "tests"
"$python" -m pytest -p no:cacheprovider "$root/python/tests" "$@"
phase "examples of docstrings"
"$python" -m pytest -p no:cacheprovider --doctest-modules --pyargs optfilter
phase "tutorial"
"$python" "$root/python/tutorial/run.py" --figures "$work/figures"
phase "types"
"$python" -m mypy.stubtest --mypy-config-file "$root/pyproject.toml" optfilter
"$python" -m mypy --config-file "$root/pyproject.toml" --strict-equality -p optfilter
phase ""
