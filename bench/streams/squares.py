"""Six streams like moving_squares, of other seeds, sizes and speeds: what the bank makes of that kind of world, asked without looking at the one it is scored on.

    python bench/streams/squares.py FOLDER
    cargo run --release -p optfilter-nn --example hindsight -- --network linear FOLDER/squares*.csv

Three or four classes are squares in a row; the row walks to and fro along itself, so that each place belongs to every class in turn.
"""

import pathlib
import random
import sys


def write(path, seed, classes, period, samples=40_000, span=12, gap=1.7):
    draw = random.Random(seed)
    with open(path, "w") as file:
        file.write("a,b,label\n")
        for i in range(samples):
            which, turn = draw.randrange(classes), (i / period) % 2
            walk = span * min(turn, 2 - turn)
            file.write(f"{gap * which + walk + draw.random():.5f},{2 * draw.random():.5f},c{which}\n")


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    for k in range(6):
        write(folder / f"squares{k}.csv", 100 + k, classes=3 + k % 2, period=(1500, 2000, 2500)[k % 3])
