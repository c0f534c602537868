#!/bin/sh
# Puts the package into a throw-away virtual environment and runs every Python check there:
# tests, docstring examples, the tutorial, type checks. Arguments are passed on to pytest.
#
# PYTHON chooses the interpreter (default: python3). PROFILE chooses how Rust is compiled (default: dev, as `cargo test`;
# `release` is what `pip install .` gives users). Results do not depend on it to the last bit.
# PEERS=0 leaves out Ray, Dask, Spark, JAX, optax, Flax, PyTorch and river, and with them the tests that need them; and it packs the
# extension that the workspace has compiled, after a check that the source package has every source of it (python/pack.py).
# Otherwise the source package is compiled and installed as users get it, away from the workspace.
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

target=${CARGO_TARGET_DIR:-$root/target}
if [ "$profile" = dev ]; then built=debug; else built=$profile; fi

phase "the other doors: the program and the library"
# Of the whole workspace where `cargo test` has compiled it so: a package alone has other features and would be compiled again.
if [ "$profile" = dev ]; then packages="--workspace --lib"; else packages="-p optfilter-cli -p optfilter-model"; fi
# shellcheck disable=SC2086 # several words
cargo build --quiet --locked --profile "$profile" --manifest-path "$root/Cargo.toml" $packages --bin optfilter --example doors
mkdir "$work/doors"
"$target/$built/examples/doors" "$work/doors"

phase "package and environment"
"${PYTHON:-python3}" -m venv "$work/venv"
"$python" -m pip install --quiet --disable-pip-version-check "maturin>=1.9.4,<2" wheel
(cd "$root" && "$work/venv/bin/maturin" sdist --out "$work/sdist" 2>"$work/sdist.log") || { cat "$work/sdist.log"; exit 1; }
tar -xzf "$work"/sdist/optfilter-*.tar.gz -C "$work/sdist"
sdist=$(ls -d "$work"/sdist/optfilter-*/)
if [ "${PEERS:-1}" = 0 ]; then
    # Its manifests fit one another, with the versions that are here already.
    cargo metadata --quiet --offline --format-version 1 --manifest-path "$sdist/Cargo.toml" >"$work/metadata.json"
    library=$(ls "$target/$built"/lib_core.so "$target/$built"/lib_core.dylib 2>/dev/null | head -n 1)
    "$python" "$root/python/pack.py" "$sdist" "$library" "$work/wheel"
    "$python" -m pip install --quiet --disable-pip-version-check "optfilter[test] @ file://$(ls "$work"/wheel/*.whl)"
else
    CARGO_TARGET_DIR="$target" "$python" -m pip install --quiet --disable-pip-version-check \
        --config-settings=build-args="--profile=$profile" "optfilter[test] @ file://$sdist"
    "$python" -m pip install --quiet --disable-pip-version-check ray jax optax \
        || echo "Ray, JAX or optax does not install here: their tests are skipped"
    # For networks: each by itself, so that one that is missing takes no other with it. PyTorch without its libraries for cards, where
    # that index can be reached.
    install() { "$python" -m pip install --quiet --disable-pip-version-check "$@"; }
    install torch --index-url https://download.pytorch.org/whl/cpu || install torch \
        || echo "PyTorch does not install here: its tests are skipped"
    for peer in safetensors flax river; do
        install "$peer" || echo "$peer does not install here: its tests are skipped"
    done
    # Spark also needs Java (Debian: default-jre-headless).
    "$python" -m pip install --quiet --disable-pip-version-check "ray[data]" "dask[dataframe]" distributed pyspark \
        || echo "Dask, Ray or Spark does not install here: their tests are skipped"
fi

# Away from the sources, so that the installed package is the one that is tested.
cd "$work"
export MPLBACKEND=Agg OPTFILTER_DOORS="$work/doors" OPTFILTER_BINARY="$target/$built/optfilter"
phase "tests"
# -rs: a test that is left out says why.
"$python" -m pytest -rs -p no:cacheprovider "$root/python/tests" "$@"
phase "examples of docstrings"
"$python" -m pytest -p no:cacheprovider --doctest-modules --pyargs optfilter
phase "tutorial"
"$python" "$root/python/tutorial/run.py" --figures "$work/figures"
phase "types"
"$python" -m mypy.stubtest --mypy-config-file "$root/pyproject.toml" optfilter
"$python" -m mypy --config-file "$root/pyproject.toml" --strict-equality -p optfilter
phase ""
