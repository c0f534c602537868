"""`optfilter adapt` beside river's models on public streams: everything is run here, one after the other, on one core.

    pip install river==0.26.1
    python bench/streams/compare.py --optfilter target/release/optfilter --rows 45312 DATA_FOLDER > bench/streams/results.md

DATA_FOLDER receives nothing; it holds the tables (`bench/streams/README.md` says where they come from). Each sample is predicted
first and learnt from afterwards, by all. Accuracy in percent, log-loss in nats (probabilities no smaller than 1e-15), seconds of the
whole process for `optfilter` (reading included) and of the loop for river.
"""

import argparse
import csv
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

STREAMS = ["elec", "covtype", "moving_squares", "shuttle", "segment", "phishing", "weather", "sea_stream"]
OURS = {
    "optfilter adapt (nothing chosen)": [],
    "optfilter adapt --network linear": ["--network", "linear"],
    "one gradient step, linear, lr 1": ["--network", "linear", "--optimizer", "gd", "--steps", "1", "--lr", "1", "--stream"],
}


def rivals():
    from river import compose, forest, linear_model, naive_bayes, optim, preprocessing, tree

    def scaled(model):
        return compose.Pipeline(preprocessing.StandardScaler(), model)

    return {
        "river logistic regression": lambda two: scaled(
            linear_model.LogisticRegression(optim.SGD(0.05))
            if two
            else linear_model.SoftmaxRegression(optim.SGD(0.05))
        ),
        "river Gaussian naive Bayes": lambda two: naive_bayes.GaussianNB(),
        "river Hoeffding adaptive tree": lambda two: tree.HoeffdingAdaptiveTreeClassifier(seed=1),
        "river adaptive random forest": lambda two: forest.ARFClassifier(n_models=10, seed=1),
    }


def load(path, rows):
    with open(path, newline="") as file:
        lines = csv.reader(file)
        head = next(lines)
        data = []
        for line in lines:
            if len(data) == rows:
                break
            data.append(({name: float(v) for name, v in zip(head, line[:-1])}, line[-1]))
    return head, data


def run_river(make, data):
    two = len({y for _, y in data}) == 2
    model = make(two)
    if two:
        first = sorted({y for _, y in data})[1]
        data = [(x, y == first) for x, y in data]
    right, loss = 0, 0.0
    start = time.perf_counter()
    for x, y in data:
        p = model.predict_proba_one(x) or {}
        named = max(p, key=p.get) if p else None
        right += named == y
        loss -= math.log(max(p.get(y, 0.0), 1e-15))
        model.learn_one(x, y)
    return 100 * right / len(data), loss / len(data), time.perf_counter() - start


def run_ours(program, flags, path):
    start = time.perf_counter()
    out = subprocess.run([program, "adapt", path, "--json", *flags], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    result = json.loads(out.stdout)[0]
    return result["accuracy"], result["mean_loss"], time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--optfilter", default="target/release/optfilter")
    parser.add_argument("--rows", type=int, default=45312, help="at most so many samples of a stream")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--slow", type=int, default=5000, help="samples for the forest, which takes milliseconds each")
    args = parser.parse_args()
    print("| stream | samples | model | accuracy % | log-loss | seconds |")
    print("|---|---|---|---|---|---|")
    for name in args.streams.split(","):
        head, data = load(args.folder / f"{name}.csv", args.rows)

        def show(label, n, result):
            accuracy, loss, seconds = result
            print(f"| {name} | {n} | {label} | {accuracy:.2f} | {loss:.4f} | {seconds:.2f} |", flush=True)

        def ours(part, runs):
            with tempfile.NamedTemporaryFile("w", suffix=".csv", newline="") as file:
                writer = csv.writer(file)
                writer.writerow(head)
                writer.writerows([[*x.values(), y] for x, y in part])
                file.flush()
                for label, flags in runs:
                    show(label, len(part), run_ours(args.optfilter, flags, file.name))

        ours(data, OURS.items())
        forest = "river adaptive random forest"
        for label, make in rivals().items():
            if label != forest:
                show(label, len(data), run_river(make, data))
        few = data[: args.slow]
        if len(few) < len(data):
            ours(few, list(OURS.items())[:1])
        show(forest, len(few), run_river(rivals()[forest], few))


if __name__ == "__main__":
    main()
