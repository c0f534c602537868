"""Filters over weights with error bars (EKF, BONG, LoFi, IVON, and EKF with WoLF's weight) on public streams, beside the bank.

    cargo build --release -p optfilter-nn --example adapt
    python bench/streams/rivals.py --adapt target/release/examples/adapt --network linear DATA_FOLDER

Each rival's settings are chosen from a small grid by the mean log-loss on SEA and weather, where the bank's were chosen as well, and then run
once on the others. Accuracy in percent / log-loss in nats / expected calibration error in percent.
"""

import argparse
import itertools
import json
import pathlib
import subprocess

CHOSEN_ON = ["sea_stream", "weather"]
SCORED_ON = ["elec", "phishing", "segment", "shuttle", "moving_squares", "covtype"]
DRIFTS = ["0", "1e-6", "1e-5", "1e-4", "1e-3", "1e-2"]
PRIORS = ["0.1", "1"]
BELIEF = [["--sigma2", q, "--prior", p] for q, p in itertools.product(DRIFTS, PRIORS)]
RIVALS = {
    "diagonal EKF": (["--method", "ekf"], BELIEF),
    "variational diagonal EKF": (["--method", "vdekf"], BELIEF),
    "BONG": (["--method", "bong"], BELIEF),
    "LoFi, rank 10": (["--method", "lofi", "--rank", "10"], BELIEF),
    "diagonal EKF, WoLF c=3": (["--method", "ekf", "--robust", "3"], BELIEF),
    "IVON, K=1": (["--method", "ivon", "--steps", "1"], [["--lr", lr] for lr in ("0.01", "0.03", "0.1", "0.3", "1")]),
}


def run(args, stream, flags):
    path = args.folder / f"{stream}.csv"
    command = [args.adapt, "adapt", path, "--network", args.network, "--rows", str(args.rows), *flags]
    ran = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if ran.returncode:
        return None  # diverged
    return json.loads(ran.stdout)[0]


def shown(result):
    if result is None:
        return "diverged"
    return f"{result['accuracy']:.2f} / {result['mean_loss']:.4f} / {result['calibration_error']:.1f}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--adapt", default="target/release/examples/adapt")
    parser.add_argument("--network", default="linear")
    parser.add_argument("--rows", type=int, default=45312)
    args = parser.parse_args()
    streams = CHOSEN_ON + SCORED_ON
    print(f"| method | chosen on {' and '.join(CHOSEN_ON)} | " + " | ".join(streams) + " |")
    print("|---" * (len(streams) + 2) + "|")
    bank = [shown(run(args, stream, [])) for stream in streams]
    print(f"| the bank | nothing | {' | '.join(bank)} |", flush=True)
    for name, (flags, grid) in RIVALS.items():
        best = (float("inf"), grid[0])
        for choice in grid:
            results = [run(args, stream, flags + choice) for stream in CHOSEN_ON]
            if all(results):
                loss = sum(result["mean_loss"] for result in results) / len(results)
                best = min(best, (loss, choice))
        scores = [shown(run(args, stream, flags + best[1])) for stream in streams]
        print(f"| {name} | `{' '.join(best[1])}` | {' | '.join(scores)} |", flush=True)


if __name__ == "__main__":
    main()
