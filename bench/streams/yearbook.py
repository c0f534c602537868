"""The Yearbook photographs as a stream: at most 50 of each year from 1905 to 2013, one after the other.

    python bench/streams/yearbook.py yearbook32.npz FOLDER/yearbook.csv

Pixels are means of 2 by 2, so that a photograph has 16 by 16 numbers from 0 to 1; the last column is the label. Which 50 and their order within the year are
drawn with a fixed seed. The photographs are of real people and have no licence: neither they nor the table belong into a repository.
"""

import csv
import sys

import numpy as np


def main(source, path):
    data = np.load(source)
    draw = np.random.default_rng(0)
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"p{i}" for i in range(256)), "label"])
        for year in np.unique(data["year"]):
            rows = draw.permutation(np.flatnonzero(data["year"] == year))[:50]
            small = data["images"][rows].reshape(-1, 16, 2, 16, 2).mean(axis=(2, 4)) / 255
            for pixels, label in zip(small, data["label"][rows]):
                writer.writerow([*(f"{v:.4f}" for v in pixels.ravel()), "FM"[label]])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
