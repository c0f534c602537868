"""DAPPER's truth, observations and initial ensemble, as arrays that any program can read.

    python export.py OUT [--setup sakov2008] [--seeds 3000 3001 3002 3003] [--cycles 3000] [--members 100]

needs `pip install dapper==1.7.1`. OUT/SETUP-SEED/ then holds, in float64,

    truth.npy          cycles x D      the state at each observation
    observations.npy   cycles x m
    ensemble.npy       members x D     drawn one step of the model before the first observation, a row each
    variance.npy       m               of the observations' noise

A setup is a module of dapper.mods.Lorenz96 (sakov2008: D = m = 40; bocquet2010_m40: D = 40, half of it observed). `--variance` replaces the
observation variance that it ships, and the folder is then called SETUP_RVARIANCE-SEED.
"""

import argparse
import importlib
from pathlib import Path

import numpy as np


def setup(name, cycles, variance=None):
    """The hidden Markov model of a DAPPER setup with that many observations."""
    HMM = importlib.import_module(f"dapper.mods.Lorenz96.{name}").HMM.copy()
    HMM.tseq.Ko = cycles - 1
    if variance is not None:
        from dapper.tools.randvars import GaussRV

        HMM.Obs.Op1.noise = GaussRV(C=variance * np.eye(HMM.Obs.Op1.M))
    return HMM


def arrays(HMM, seed, members):
    """Truth at the observations, observations, initial ensemble, variance of the observations."""
    import dapper

    dapper.set_seed(seed)
    dapper.tools.progressbar.disable_progbar = True
    xx, yy = HMM.simulate()
    return xx[HMM.tseq.kko], np.stack(yy), HMM.X0.sample(members), np.diag(HMM.Obs.Op1.noise.C.full)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--setup", default="sakov2008")
    parser.add_argument("--seeds", type=int, nargs="+", default=[3000, 3001, 3002, 3003])
    parser.add_argument("--cycles", type=int, default=3000)
    parser.add_argument("--members", type=int, default=100)
    parser.add_argument("--variance", type=float)
    options = parser.parse_args()
    for seed in options.seeds:
        HMM = setup(options.setup, options.cycles, options.variance)
        named = options.setup if options.variance is None else f"{options.setup}_R{options.variance:g}"
        folder = options.out / f"{named}-{seed}"
        folder.mkdir(parents=True, exist_ok=True)
        for name, values in zip(("truth", "observations", "ensemble", "variance"), arrays(HMM, seed, options.members)):
            np.save(folder / f"{name}.npy", np.ascontiguousarray(values, dtype=np.float64))
        print(folder)


if __name__ == "__main__":
    main()
