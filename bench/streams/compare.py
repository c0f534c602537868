"""`optfilter adapt` beside river's models on public streams: everything is run here, one after the other, on one core.

    pip install river==0.26.1
    python bench/streams/compare.py --optfilter target/release/optfilter --rows 45312 DATA_FOLDER > bench/streams/results.md

DATA_FOLDER receives nothing; it holds the tables (`bench/streams/README.md` says where they come from). Each sample is predicted
first and learnt from afterwards, by all. Nobody is told the classes beforehand: `adapt` reads the table as it comes (`--stream`), and a
class that is met for the first time counts as wrong for all, with a probability of 1e-15. Accuracy in percent, log-loss in nats,
seconds of the processor (not of the clock, which other work slows down): of the whole process for `optfilter`, reading included, and of the loop for river.
"""

import argparse
import csv
import json
import math
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

STREAMS = ["elec", "covtype", "moving_squares", "shuttle", "segment", "phishing", "weather", "sea_stream", "digits", "yearbook"]
OURS = {
    "optfilter adapt (nothing chosen)": ["--stream"],
    "optfilter adapt --network linear": ["--network", "linear", "--stream"],
    "one gradient step, linear, lr 1": ["--network", "linear", "--optimizer", "gd", "--steps", "1", "--lr", "1", "--stream"],
}


def rivals():
    """Models by name: for two classes or more, and whether they take milliseconds a sample. None: not for so many classes."""
    from river import compose, ensemble, forest, linear_model, naive_bayes, optim, preprocessing, tree

    def scaled(model):
        return compose.Pipeline(preprocessing.StandardScaler(), model)

    return {
        "river logistic regression": (
            lambda two: scaled(
                linear_model.LogisticRegression(optim.SGD(0.05))
                if two
                else linear_model.SoftmaxRegression(optim.SGD(0.05))
            ),
            False,
        ),
        "river ALMA": (lambda two: linear_model.ALMAClassifier() if two else None, False),
        "river Gaussian naive Bayes": (lambda two: naive_bayes.GaussianNB(), False),
        "river Hoeffding adaptive tree": (lambda two: tree.HoeffdingAdaptiveTreeClassifier(seed=1), False),
        "river adaptive random forest": (lambda two: forest.ARFClassifier(n_models=10, seed=1), True),
        "river leveraging bagging": (
            lambda two: ensemble.LeveragingBaggingClassifier(tree.HoeffdingTreeClassifier(), n_models=10, seed=1),
            True,
        ),
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


def run_river(make, data, patience):
    """Accuracy, log-loss and seconds; None where the model is not for these data, and how far it came where it took too long."""
    two = len({y for _, y in data}) == 2
    model = make(two)
    if model is None:
        return None
    if two:
        first = sorted({y for _, y in data})[1]
        data = [(x, y == first) for x, y in data]
    right, loss = 0, 0.0
    start = time.process_time()
    for i, (x, y) in enumerate(data):
        if time.process_time() - start > patience:
            return i
        p = model.predict_proba_one(x) or {}
        named = max(p, key=p.get) if p else None
        right += named == y
        loss -= math.log(max(p.get(y, 0.0), 1e-15))
        model.learn_one(x, y)
    return 100 * right / len(data), loss / len(data), time.process_time() - start


def of_children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run_ours(program, flags, path):
    start = of_children()
    out = subprocess.run([program, "adapt", path, "--json", *flags], capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stderr)
    result = json.loads(out.stdout)[0]
    return result["accuracy"], result["mean_loss"], of_children() - start


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--optfilter", default="target/release/optfilter")
    parser.add_argument("--rows", type=int, default=45312, help="at most so many samples of a stream")
    parser.add_argument("--streams", default=",".join(STREAMS))
    parser.add_argument("--slow", type=int, default=5000, help="samples for ensembles, which take milliseconds each")
    parser.add_argument("--patience", type=float, default=240.0, help="processor seconds that a model of river's may take on a stream")
    parser.add_argument("--only", default="", help="only models whose name has this in it")
    args = parser.parse_args()
    print("| stream | samples | model | accuracy % | log-loss | seconds |")
    print("|---|---|---|---|---|---|")
    for name in args.streams.split(","):
        head, data = load(args.folder / f"{name}.csv", args.rows)

        def show(label, n, result):
            if result is None:
                return
            if isinstance(result, int):
                print(f"| {name} | {n} | {label} | after {result} samples its time was up |  |  |", flush=True)
                return
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

        asked = {label: flags for label, flags in OURS.items() if args.only in label}
        ours(data, asked.items())
        models = {label: model for label, model in rivals().items() if args.only in label}
        for label, (make, slow) in models.items():
            if not slow:
                show(label, len(data), run_river(make, data, args.patience))
        few = data[: args.slow]
        if len(few) < len(data):
            ours(few, list(asked.items())[:1])
        for label, (make, slow) in models.items():
            if slow:
                show(label, len(few), run_river(make, few, args.patience))


if __name__ == "__main__":
    main()
