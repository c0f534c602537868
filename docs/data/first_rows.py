"""Gates on tracks of which little is known at first: tables of docs/explanation/lost-tracks.md (no packages; the command `optfilter`).

    python first_rows.py 100 140                  # the seeds; the rules were chosen on others
    python first_rows.py 100 140 OPTFILTER        # of another build
"""

import csv
import math
import pathlib
import random
import subprocess
import sys
import tempfile

ROWS, STD = 100, 0.5
MODEL = """states = ["x", "y", "u", "v"]
[dynamics]
"dx/dt" = "u"
"dy/dt" = "v"
"du/dt" = "0"
"dv/dt" = "0"
[observation]
X = {X}
Y = {Y}
[process_noise]
per = "time"
var = {{ u = 1, v = 1 }}
[measurement_noise]
std = 0.5
[initial]
mean = 0
std = {{ x = 100, y = 100, u = 20, v = 20 }}
"""
T = '{{ equation = "{}", likelihood = "student-t", dof = 3 }}'
FILTERS = {
    "none": [],
    "t": [],
    "0.999": ["--gate", "0.999"],
    "0.999 inflate": ["--gate", "0.999", "--gating", "inflate"],
    "0.99": ["--gate", "0.99"],
    "0.99 inflate": ["--gate", "0.99", "--gating", "inflate"],
}
DATA = ["nothing wrong", "one of the first rows", "5 % outliers", "small outliers"]


def simulate(data, rng):
    """A track whose velocity is a random walk, as in the model; outliers of either measurement."""
    root = (math.sqrt(1 / 3), math.sqrt(3) / 2, 1 / 2)
    state = [[rng.gauss(0, 50), rng.gauss(0, 10)] for _ in range(2)]
    early, truth, seen = rng.randrange(6), [], []
    for k in range(ROWS):
        for s in state if k else []:
            a, b = rng.gauss(0, 1), rng.gauss(0, 1)
            s[0] += s[1] + root[0] * a
            s[1] += root[1] * a + root[2] * b
        truth.append([s[0] for s in state])
        y = [s[0] + STD * rng.gauss(0, 1) for s in state]
        size, sign, which = rng.uniform(5, 150) * STD, rng.choice([-1, 1]), rng.randrange(2)
        often = rng.random()
        if data == "one of the first rows" and k == early or data == "5 % outliers" and often < 0.05:
            y[which] += sign * size
        if data == "small outliers" and often < 0.1:
            y[which] += sign * (4 + size / 10) * STD
        seen.append(y)
    return truth, seen


def error(command, folder, truth):
    subprocess.run([*command, "-o", folder / "out.csv"], check=True, capture_output=True)
    with open(folder / "out.csv") as file:
        rows = list(csv.DictReader(file))
    square = sum((float(row["x"]) - x) ** 2 + (float(row["y"]) - y) ** 2 for row, (x, y) in zip(rows, truth))
    return math.sqrt(square / len(truth))


def main(low, high, optfilter="optfilter"):
    folder = pathlib.Path(tempfile.mkdtemp())
    (folder / "plain.toml").write_text(MODEL.format(X='"x"', Y='"y"'))
    (folder / "t.toml").write_text(MODEL.format(X=T.format("x"), Y=T.format("y")))
    print("| data |", " | ".join(FILTERS), "|\n" + "|---" * (len(FILTERS) + 1) + "|")
    for data in DATA:
        errors = {name: [] for name in FILTERS}
        for seed in range(int(low), int(high)):
            truth, seen = simulate(data, random.Random(f"{data} {seed}"))
            with open(folder / "in.csv", "w", newline="") as file:
                csv.writer(file).writerows([["X", "Y"], *seen])
            for name, flags in FILTERS.items():
                model = folder / ("t.toml" if name == "t" else "plain.toml")
                command = [optfilter, "filter", model, folder / "in.csv", *flags]
                errors[name].append(error(command, folder, truth))
        cells = [f"{sum(e) / len(e):.2f}, {max(e):.2f}" for e in errors.values()]
        print(f"| {data} |", " | ".join(cells), "|", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
