"""PyTorch beside `adapt` in one run: the same network, rule and rate, one sample at a time, on one core.

    cargo build --release -p optfilter-nn --example adapt
    python bench/streams/torch_beside.py --adapt target/release/examples/adapt --rows 3000 elec.csv

Both predict a sample, judge it and then take one step. Seconds are of that loop alone: our table is read before, and PyTorch is
given tensors that are scaled already, which ours does as it goes. PyTorch's are seconds of the processor (the clock would count its waiting for its own
threads on a busy machine), ours of the clock; the smallest of some rounds each, taken in turns. PyTorch's loop is the one people write
(`zero_grad`, `backward`, `step`), with one thread: more only slow such small networks down.
"""

import argparse
import csv
import json
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


def run_ours(program, path, rows, network, rule, lr):
    command = [program, "adapt", path, "--network", network, "--optimizer", rule, "--steps", "1", "--lr", str(lr)]
    command += ["--rows", str(rows), "--json", *(["--carry"] if rule == "adam" else [])]
    result = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)[0]
    return result["seconds"], result["accuracy"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table")
    parser.add_argument("--adapt", default="target/release/examples/adapt")
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with open(args.table, newline="") as file:
        rows = [row for row, _ in zip(list(csv.reader(file))[1:], range(args.rows))]
    labels = [row[-1] for row in rows]
    X = torch.tensor(scaled(np.array([row[:-1] for row in rows], dtype=float)), dtype=torch.float32)
    y = torch.tensor([float(label == labels[0]) for label in labels])
    print(f"{len(rows)} samples, PyTorch {torch.__version__}, one thread\n")
    print("| network | rule | PyTorch, samples/s | ours, samples/s | ratio | accuracy %, PyTorch and ours |")
    print("|---|---|---|---|---|---|")
    for network, rule, lr in CASES:
        theirs, ours = [], []
        for _ in range(args.rounds):
            theirs.append(run_torch(X, y, network, rule, lr))
            ours.append(run_ours(args.adapt, args.table, args.rows, network, rule, lr))
        (a, right_a), (b, right_b) = min(theirs), min(ours)
        n = len(rows)
        print(f"| {network} | {rule} | {n / a:,.0f} | {n / b:,.0f} | {a / b:.0f} | {right_a:.2f}, {right_b:.2f} |", flush=True)


if __name__ == "__main__":
    main()
