"""Our ensemble filters beside DAPPER's, on DAPPER's arrays: accuracy and time.

    python export.py ARRAYS && python compare.py ARRAYS > results.md       (or: python compare.py ARRAYS ROW, for one row of RUNS)

needs `pip install dapper==1.7.1` and cargo. Both start from the same ensemble; rotations are random, so that errors agree within the
scatter between seeds, not to the bit. RMSE is over the states, averaged over the cycles after 20 units of time, as in DAPPER. Times are CPU time
on one thread, the least of three turns: of DAPPER's model and update alone ("bare"), of its `assimilate`, which also keeps statistics, and of ours.
"""

import contextlib
import os
import platform
import resource
import subprocess
import sys
import time
from pathlib import Path

import dapper
import numpy as np
from dapper.da_methods.ensemble import LETKF, EnKF, EnKF_analysis, local_analyses, post_process
from dapper.tools.localization import nd_Id_localization

from export import setup

HERE = Path(__file__).resolve().parent
BURN = 400
# name, members, inflation, radius (0: whole), states that share an analysis in DAPPER, cycles
RUNS = [
    ("ETKF", 24, 1.02, 0, 0, 3000),
    ("ETKF", 40, 1.02, 0, 0, 3000),
    ("LETKF", 7, 1.04, 4, 2, 1000),
    ("LETKF", 7, 1.04, 4, 1, 1000),
    ("LETKF", 20, 1.02, 7, 2, 1000),
]


def cycle(HMM, E, y, k, inflation, radius, localizer):
    """One cycle as DAPPER's EnKF and LETKF have it, without their statistics."""
    E = HMM.Dyn(E, k * 0.05, 0.05)
    Obs = HMM.Obs(k)
    if radius:
        batches, taper = localizer(radius, "x2y", "GC")
        E, _ = local_analyses(E, Obs(E), Obs.noise.C, y, batches, taper)
    else:
        E = EnKF_analysis(E, Obs(E), Obs.noise, y, "Sqrt")
    return post_process(E, inflation, True)


def theirs(HMM, folder, members, inflation, radius, batch, cycles=None):
    """RMSE and seconds per cycle of DAPPER."""
    truth, seen = np.load(folder / "truth.npy")[:cycles], np.load(folder / "observations.npy")
    E = np.load(folder / "ensemble.npy")[:members].copy()
    localizer = nd_Id_localization((40,), (batch or 1,))
    dapper.set_seed(1)
    errors = []
    start = time.process_time()
    for k in range(len(truth)):
        E = cycle(HMM, E, seen[k], k, inflation, radius, localizer)
        errors.append(E.mean(0) - truth[k])
    seconds = (time.process_time() - start) / len(truth)
    return np.sqrt((np.array(errors) ** 2).mean(1))[BURN:].mean(), seconds


def assimilate(members, inflation, radius, batch, cycles):
    """Seconds per cycle of DAPPER as its users run it."""
    with contextlib.redirect_stdout(sys.stderr):  # DAPPER remarks on the short run
        HMM = setup("sakov2008", cycles)
    HMM.Obs.Op1.localizer = nd_Id_localization((40,), (batch or 1,))
    dapper.tools.progressbar.disable_progbar = True
    xx, yy = HMM.simulate()
    same = dict(N=members, infl=inflation, rot=True)
    xp = LETKF(loc_rad=radius, **same) if radius else EnKF("Sqrt", **same)
    start = time.process_time()
    xp.assimilate(HMM, xx, yy, liveplots=False)
    return (time.process_time() - start) / cycles


def ours(folder, members, inflation, radius, cycles):
    """RMSE and seconds per cycle of optfilter."""
    program = os.environ.get("DAPPER_BESIDE", HERE.parent / "target" / "release" / "examples" / "dapper")
    before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
    arguments = list(map(str, [program, folder, members, inflation, radius, cycles]))
    out = subprocess.run(arguments, capture_output=True, text=True, check=True).stdout
    seconds = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    return float(out.split()[0]), seconds / cycles


def main():
    if "DAPPER_BESIDE" not in os.environ:
        manifest = HERE.parent / "Cargo.toml"
        subprocess.run(["cargo", "build", "-q", "--release", "--example", "dapper", "--manifest-path", manifest], check=True)
    folders = sorted(Path(sys.argv[1]).glob("sakov2008-*"))
    HMM = setup("sakov2008", 1000)
    runs = RUNS if len(sys.argv) < 3 else [RUNS[int(sys.argv[2])]]
    print("# Ensemble filters beside DAPPER 1.7.1\n")
    print("```\npython bench/dapper/export.py ARRAYS && python bench/dapper/compare.py ARRAYS > bench/dapper/results.md\n```\n")
    print(f"Lorenz '96, `sakov2008`: 40 states, all observed. {len(folders)} seeds; NumPy {np.__version__}, {platform.machine()}. Mean RMSE with the")
    print("standard error between seeds; the difference is taken seed by seed. Times are CPU microseconds a cycle, ratios how many of ours fit into one of DAPPER's.\n")
    print("| filter | members | inflation | radius | states per analysis, DAPPER | cycles | DAPPER | ours | ours - DAPPER | DAPPER bare, us | `assimilate`, us | ours, us | ratios |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for name, members, inflation, radius, batch, cycles in runs:
        pairs = []
        for folder in folders:
            a, _ = theirs(HMM, folder, members, inflation, radius, batch, cycles)
            b, _ = ours(folder, members, inflation, radius, cycles)
            pairs.append((a, b))
        pairs = np.array(pairs)
        scatter = lambda v: v.std(ddof=1) / np.sqrt(len(v))
        apart = pairs[:, 1] - pairs[:, 0]
        setting = (members, inflation, radius)
        turns = [
            (
                theirs(HMM, folders[0], *setting, batch, 150)[1],
                assimilate(*setting, batch, 150),
                ours(folders[0], *setting, 1000)[1],
            )
            for _ in range(3)
        ]
        bare, whole, own = 1e6 * np.array(turns).min(0)
        cells = [name, members, inflation, radius or "", batch or "", cycles]
        cells += [f"{pairs[:, i].mean():.4f} +- {scatter(pairs[:, i]):.4f}" for i in (0, 1)]
        cells += [f"{apart.mean():+.4f} +- {scatter(apart):.4f}", f"{bare:.0f}", f"{whole:.0f}", f"{own:.0f}", f"{bare / own:.1f}, {whole / own:.1f}"]
        print("| " + " | ".join(map(str, cells)) + " |", flush=True)


if __name__ == "__main__":
    main()
