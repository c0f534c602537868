"""Windows beside DAPPER's filters as a table: means over the seeds, with the standard error between them.

    python table.py OUT/assimilation.csv ARRAYS/dapper.csv

of what `optfilter-reproduce assimilation --arrays ARRAYS --out OUT` and `rivals.py` have left. The last column is the mean difference, seed by seed, to the
best window of the setting.
"""

import csv
import sys

import numpy as np


def read(path, whose):
    """setting: {method: errors}, in the order of the seeds."""
    found = {}
    with open(path, newline="") as lines:
        rows = list(csv.reader(lines))[1:]
    for setting, method, _, rmse in sorted(rows, key=lambda row: int(row[2])):
        found.setdefault(setting, {}).setdefault(f"{whose}{method}", []).append(float(rmse))
    return found


def shown(values):
    if np.isnan(values).any():
        return f"diverges on {np.isnan(values).sum()}"
    error = f" +- {np.std(values, ddof=1) / np.sqrt(len(values)):.4f}" if len(values) > 1 else ""
    return f"{np.mean(values):.4f}{error}"


def main():
    ours, theirs = read(sys.argv[1], ""), read(sys.argv[2], "DAPPER: ")
    print("| setting | method | seeds | RMSE | less the best window's |\n|---|---|---|---|---|")
    for setting in sorted(ours, reverse=True):
        methods = ours[setting] | theirs.get(setting, {})
        windows = {name: errors for name, errors in methods.items() if name.startswith("window")}
        best = min(windows, key=lambda name: np.nan_to_num(np.mean(windows[name]), nan=np.inf))
        for name, errors in sorted(methods.items(), key=lambda item: -np.nan_to_num(np.mean(item[1]), nan=np.inf)):
            apart = np.subtract(errors, methods[best][: len(errors)])
            cells = [setting, name, len(errors), shown(errors), "" if name == best or np.isnan(apart).any() else shown(apart)]
            print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    main()
