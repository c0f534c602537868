"""PyTorch and river beside `adapt` in one run: the same network, rule and rate, one sample at a time, on one core; and the bank beside one setting.

    pip install torch river==0.26.1
    cargo build --release -p optfilter-nn --example adapt
    python bench/streams/torch_beside.py --adapt target/release/examples/adapt --rows 3000 elec.csv

All predict a sample, judge it and then take one step. Seconds are of that loop alone, in time of the processor: our table is read before, PyTorch is
given tensors that are scaled already, and river dictionaries; ours and river scale as they go. The smallest of some rounds each, taken in
turns. PyTorch's loop is the one people write (`zero_grad`, `backward`, `step`), with one thread: more only slow such small networks
down. Ours takes all of the table (`--rows` limits the others), so that the shortest run is not shorter than the clock can tell.
"""

import argparse
import csv
import json
import resource
import subprocess
import time

import numpy as np
import torch

CASES = [("linear", "gd", 0.1), ("linear", "adam", 0.01), ("mlp:64,64", "gd", 0.01), ("mlp:64,64", "adam", 0.001)]


def scaled(X):
    """Running mean and deviation of all samples so far, the newest among them, kept within 8 deviations."""
    n = np.arange(1, len(X) + 1)[:, None]
    mean = np.cumsum(X, axis=0) / n
    var = np.cumsum(X**2, axis=0) / n - mean**2
    std = np.sqrt(np.maximum(var, 0))
    return np.clip((X - mean) / np.where(std > 1e-6, std, 1.0), -8, 8)


def run_torch(X, y, network, rule, lr):
    torch.manual_seed(0)
    sizes = [X.shape[1], *([] if network == "linear" else map(int, network.split(":")[1].split(","))), 1]
    layers = []
    for a, b in zip(sizes, sizes[1:]):
        layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
    module = torch.nn.Sequential(*layers[:-1])
    optimizer = {"gd": torch.optim.SGD, "adam": torch.optim.Adam}[rule](module.parameters(), lr=lr)
    loss_of = torch.nn.functional.binary_cross_entropy_with_logits
    right = 0
    start = time.process_time()
    for x, label in zip(X.split(1), y.split(1)):
        z = module(x)[:, 0]
        right += int((z > 0) == (label > 0.5))
        loss = loss_of(z, label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return time.process_time() - start, 100 * right / len(y)


def run_river(table, lr):
    from river import compose, linear_model, optim, preprocessing

    head, rows, labels = table
    data = [(dict(zip(head, map(float, row[:-1]))), label == labels[0]) for row, label in zip(rows, labels)]
    model = compose.Pipeline(preprocessing.StandardScaler(), linear_model.LogisticRegression(optim.SGD(lr)))
    right = 0
    start = time.process_time()
    for x, y in data:
        right += (model.predict_proba_one(x)[True] > 0.5) == y
        model.learn_one(x, y)
    return time.process_time() - start, 100 * right / len(data)


def seconds_of(command):
    """Seconds that a program has of the processor, and what it says."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, json.loads(out)[0]


def run_ours(program, path, flags):
    """Samples a second, and the accuracy: of the whole table, less a run that reads it and follows one row."""
    command = [program, "adapt", path, "--json", *map(str, flags)]
    reading = min(seconds_of([*command, "--rows", "1"])[0] for _ in range(3))
    seconds, result = seconds_of(command)
    return result["steps"] / (seconds - reading), result["accuracy"]


def single(network, rule, lr):
    return ["--network", network, "--optimizer", rule, "--steps", 1, "--lr", lr, *(["--carry"] if rule == "adam" else [])]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--adapt", default="target/release/examples/adapt")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with open(args.table, newline="") as file:
        head, *lines = csv.reader(file)
    rows = lines[: args.rows]
    labels = [row[-1] for row in rows]
    X = torch.tensor(scaled(np.array([row[:-1] for row in rows], dtype=float)), dtype=torch.float32)
    y = torch.tensor([float(label == labels[0]) for label in labels])
    n = len(rows)
    print(f"{n} samples for the others, {len(lines)} for ours; PyTorch {torch.__version__}, one thread\n")
    print("| network | rule | other | its samples/s | ours, samples/s | ratio | its accuracy % |")
    print("|---|---|---|---|---|---|---|")
    cases = [(*case, "PyTorch") for case in CASES] + [("linear", "gd", 0.05, "river")]
    for network, rule, lr, other in cases:
        theirs, ours = [], []
        for _ in range(args.rounds):
            them = run_torch(X, y, network, rule, lr) if other == "PyTorch" else run_river((head[:-1], rows, labels), lr)
            theirs.append(them)
            ours.append(run_ours(args.adapt, args.table, single(network, rule, lr)))
        (a, right), (b, _) = min(theirs), max(ours)
        print(f"| {network} | {rule} {lr} | {other} | {n / a:,.0f} | {b:,.0f} | {b * a / n:.0f} | {right:.2f} |", flush=True)
    print("\n| network | one setting, samples/s | its accuracy % | the bank, samples/s | its accuracy % | times slower |")
    print("|---|---|---|---|---|---|")
    for network, rule, lr in [("linear", "gd", 1.0), ("mlp:64,64", "gd", 0.1), ("mlp:64,64", "adam", 0.001)]:
        one, bank = [], []
        for _ in range(args.rounds):
            one.append(run_ours(args.adapt, args.table, single(network, rule, lr)))
            bank.append(run_ours(args.adapt, args.table, ["--network", network]))
        (a, right), (b, better) = max(one), max(bank)
        print(f"| {network} | {rule} {lr}: {a:,.0f} | {right:.2f} | {b:,.0f} | {better:.2f} | {a / b:.1f} |", flush=True)


if __name__ == "__main__":
    main()
