#!/usr/bin/env python3
"""A million series in one table: rows per second, peak memory, and a run that is killed twice and goes on.

    cargo build --release -p optfilter-cli && python3 bench/rows/keys.py --keys 1000000

Makes a table of ``--keys`` series with ``--rows`` rows each, which take turns (every series has its first row before any has its
second), filters it by ``filter local-level --by key`` without and with ``--checkpoint``, then once more with SIGKILL when a third and
when two thirds of the results are written, each time going on from the checkpoint. The results of all three must be the same
bytes. Needs the standard library, and for a million series of a hundred rows some 18 GB in $TMPDIR, which are freed at the end.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def make(path: str, keys: int, rows: int) -> None:
    """The table: measurements of three decimals from a pool whose length shares no factor with the number of series."""
    rng = random.Random(1)
    pool = [f"{rng.gauss(0.0, 1.5):.3f}\n" for _ in range(65_537)]
    names = [f",k{key:07}," for key in range(keys)]
    with open(path, "w", encoding="ascii") as out:
        out.write("t,key,y\n")
        at = 0
        for row in range(rows):
            time_of_row = str(row)
            for begin in range(0, keys, len(pool)):
                some = names[begin : begin + len(pool)]
                at = (at + 12_345) % len(pool)
                values = pool[at:] + pool[:at]
                out.write("".join([time_of_row + name + value for name, value in zip(some, values)]))


def wait(child: subprocess.Popen[bytes]) -> tuple[int, float]:
    """How a program ended, and the most memory that it had, in MB."""
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return child.returncode, usage.ru_maxrss / 1024


def run(command: list[str]) -> tuple[float, float]:
    """Seconds and MB of a run to the end."""
    begun = time.monotonic()
    code, memory = wait(subprocess.Popen(command))
    if code != 0:
        sys.exit(f"{' '.join(command)} ended with {code}")
    return time.monotonic() - begun, memory


def run_until(command: list[str], out: str, size: int) -> tuple[float, float]:
    """Seconds and MB of a run that is killed when its results have so many bytes."""
    begun = time.monotonic()
    child = subprocess.Popen(command)
    while not (os.path.exists(out) and os.path.getsize(out) >= size):
        time.sleep(0.01)
        if (done := os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)) is not None:
            sys.exit(f"the run ended ({done.si_status}) before it could be killed; take more rows")
    child.send_signal(signal.SIGKILL)
    code, memory = wait(child)
    assert code == -signal.SIGKILL, code
    return time.monotonic() - begun, memory


def digest(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keys", type=int, default=20_000, help="series")
    parser.add_argument("--rows", type=int, default=100, help="rows of each series")
    parser.add_argument("--only-killed", action="store_true", help="leave out the run with a checkpoint that is not killed")
    parser.add_argument("--data", help="the table, if it was made before; else it is made, and removed at the end")
    parser.add_argument("--optfilter", default=os.path.join(ROOT, "target", "release", "optfilter"))
    args = parser.parse_args()
    rows = args.keys * args.rows
    folder = tempfile.mkdtemp(prefix="optfilter-keys-")
    try:
        needed, free = 180 * rows, shutil.disk_usage(folder).free
        if free < needed:
            sys.exit(f"{folder} has {free / 1e9:.0f} GB free; this takes {needed / 1e9:.0f} GB")
        data, out, saved = (os.path.join(folder, name) for name in ("data.csv", "out.csv", "saved.ckpt"))
        if args.data is None:
            make(data, args.keys, args.rows)
        data = args.data or data
        print(f"{args.keys} series of {args.rows} rows: {rows} rows, {os.path.getsize(data) / 1e9:.2f} GB", flush=True)
        command = [args.optfilter, "filter", "local-level", data, "--by", "key", "--quiet", "--out", out]

        def line(what: str, seconds: float, memory: float) -> None:
            rate = rows / seconds / 1e6
            print(f"{what}: {seconds:.1f} s, {rate:.2f} million rows/s, {memory:.0f} MB at most", flush=True)

        line("without a checkpoint", *run(command))
        size, expected = os.path.getsize(out), digest(out)
        os.remove(out)
        command += ["--checkpoint", saved]
        if not args.only_killed:
            line("with a checkpoint", *run(command))
            if digest(out) != expected:
                sys.exit("the results with a checkpoint are others")
            print(f"the checkpoint: {os.path.getsize(saved) / 1e6:.1f} MB", flush=True)
            os.remove(out)
            os.remove(saved)
        total, most = 0.0, 0.0
        for part in (1, 2):
            seconds, memory = run_until(command, out, size * part // 3)
            if not os.path.exists(saved):
                sys.exit("killed before the first checkpoint; take more rows")
            print(f"killed at {os.path.getsize(out) / size:.0%} of the results after {seconds:.1f} s", flush=True)
            total, most = total + seconds, max(most, memory)
        seconds, memory = run(command)
        line("killed twice and gone on with", total + seconds, max(most, memory))
        if digest(out) != expected:
            sys.exit("the results of the run that was killed are others")
        print(f"results: {size / 1e9:.2f} GB, sha256 {expected[:16]}..., the same bytes from all runs")
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
