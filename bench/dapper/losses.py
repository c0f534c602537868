"""How often an ensemble of 24 with inflation 1.02 loses the truth, by DAPPER's EnKF (square root, rotated) and by ours.

    python export.py ARRAYS --seeds 3000 3001 3002 3003 3004 --cycles 20000
    cargo build --release --manifest-path ../Cargo.toml --example dapper
    python losses.py ARRAYS PROGRAM OURS THEIRS

runs PROGRAM, that example, with OURS seeds and DAPPER with THEIRS seeds on each of the arrays, as many at once as there are cores, and prints a line
for each. A filter that loses the truth does not find it again: its mean error is then far above the 0.18 of the others.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

THEIRS = """
import sys; from pathlib import Path; import dapper, rivals
seed = dapper.set_seed
dapper.set_seed = lambda s: seed(s + int(sys.argv[2]))
make, fixed, _ = rivals.FULL["EnKF N=24"]
print(rivals.error(make, dict(fixed, infl=1.02), Path(sys.argv[1])))
"""


def run(task):
    """Who, on which arrays, with which seed, and the mean error."""
    who, folder, seed, command = task
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1"))
    # DAPPER may have a word about plots first; ours adds the time.
    return who, folder.name, seed, float(done.stdout.split()[0 if who == "ours" else -1])


def main():
    arrays, program, ours, theirs = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    tasks = []
    for folder in sorted(arrays.glob("sakov2008-*")):
        for seed in range(1, ours + 1):
            tasks.append(("ours", folder, seed, [program, str(folder), "24", "1.02", "0", "20000", str(seed)]))
        for seed in range(theirs):
            tasks.append(("DAPPER", folder, seed, [sys.executable, "-c", THEIRS, str(folder.resolve()), str(seed)]))
    lost, runs = {"ours": 0, "DAPPER": 0}, {"ours": 0, "DAPPER": 0}
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for who, name, seed, error in pool.map(run, tasks):
            print(f"{who} {name} {seed} {error:.4f}", flush=True)
            runs[who] += 1
            lost[who] += not error < 0.25
    for who in runs:
        print(f"{who}: {lost[who]} of {runs[who]} lost the truth")


if __name__ == "__main__":
    main()
