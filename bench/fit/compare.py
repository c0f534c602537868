"""Maximum likelihood side by side with statsmodels: processor time and the optimum.

    python bench/fit/compare.py target/release/optfilter [another/optfilter ...]

Simulated series: a level with a slope that changes (3 states: level, slope, change of slope; 2 variances free), all states
exactly diffuse, in the same run on the same machine. statsmodels gets its own start and its default optimizer (L-BFGS);
optfilter the same model file, variances of 1, and its default of 4 starts. Reading the CSV counts for optfilter alone.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from statsmodels.tsa.statespace.mlemodel import MLEModel

MODEL = """states = ["level", "slope", "change"]
[dynamics]
level = "level + slope"
slope = "slope + change"
change = "0.9*change"
[observation]
y = "level"
[process_noise]
var = { change = 1 }
[measurement_noise]
var = 1
[initial]
mean = 0
std = 1
diffuse = true
"""
TRANSITION = np.array([[1.0, 1, 0], [0, 1, 1], [0, 0, 0.9]])


class Curve(MLEModel):
    param_names = ["process_noise.change", "measurement_noise.y"]
    start_params = np.ones(2)

    def __init__(self, endog):
        super().__init__(endog, k_states=3, k_posdef=1)
        self["design"] = np.array([[1.0, 0, 0]])
        self["transition"] = TRANSITION
        self["selection", 2, 0] = 1
        self.ssm.initialize_diffuse()

    def transform_params(self, z):
        return z**2

    def untransform_params(self, p):
        return p**0.5

    def update(self, params, **kwargs):
        params = super().update(params, **kwargs)
        self["state_cov", 0, 0] = params[0]
        self["obs_cov", 0, 0] = params[1]


def simulated(rows, seed=1):
    rng = np.random.default_rng(seed)
    x, ys = np.zeros(3), np.empty(rows)
    change, noise = 0.01 * rng.standard_normal(rows), 2 * rng.standard_normal(rows)
    for t in range(rows):
        ys[t] = x[0] + noise[t]
        x = TRANSITION @ x
        x[2] += change[t]
        x[:2] *= 0.999  # so that no number grows without end
    return ys


def child(program, folder):
    before, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    args = [program, "fit", f"{folder}/m.toml", f"{folder}/d.csv", "--json"]
    try:
        out = subprocess.run(args, capture_output=True, text=True, check=True, timeout=600).stdout
    except subprocess.TimeoutExpired:
        return None
    wall, after = time.perf_counter() - wall, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = json.loads(out)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall, found["log_likelihood"]


def main():
    warnings.simplefilter("ignore")
    programs = sys.argv[1:]
    for rows in [int(n) for n in os.environ.get("ROWS", "2000,20000,1000000").split(",")]:
        ys = simulated(rows)
        with tempfile.TemporaryDirectory() as folder:
            with open(f"{folder}/m.toml", "w") as file:
                file.write(MODEL)
            np.savetxt(f"{folder}/d.csv", ys, header="y", comments="")
            for program in programs:
                done = child(program, folder)
                said = "more than 600 s" if done is None else "{:8.3f} s of processor, {:8.3f} s, {:.4f}".format(*done)
                print(f"{rows:8} rows  {program}: {said}", flush=True)
        cpu, wall = time.process_time(), time.perf_counter()
        found = Curve(ys).fit(disp=0, cov_type="none", maxiter=500)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        print(f"{rows:8} rows  statsmodels: {cpu:8.3f} s of processor, {wall:8.3f} s, {found.llf:.4f}", flush=True)


if __name__ == "__main__":
    main()
