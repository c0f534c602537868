"""Writes the tables of this folder from the packages that carry them (see README.md).

    pip install statsmodels==0.15.0
    pip download --no-deps --no-binary :all: hmmlearn==0.3.3 && tar xzf hmmlearn-0.3.3.tar.gz
    python make_data.py hmmlearn-0.3.3
"""

import re
import sys
from pathlib import Path

from statsmodels.datasets import co2, elnino, nile

here = Path(__file__).parent


def write(name, header, rows):
    lines = [",".join(header)] + [",".join(cells) for cells in rows]
    (here / name).write_text("\n".join(lines) + "\n")


def number(value):
    return "" if value != value else f"{value:g}"


data = nile.load_pandas().data
write("nile.csv", ["year", "volume"], ([f"{y:.0f}", number(v)] for y, v in data.to_numpy()))

data = co2.load_pandas().data
write("co2.csv", ["date", "co2"], ([str(t.date()), number(v)] for t, v in data["co2"].items()))

data = elnino.load_pandas().data.to_numpy()
months = [(f"{row[0]:.0f}-{m:02}-15", row[m]) for row in data for m in range(1, 13)]
write("elnino.csv", ["date", "temperature"], ([t, number(v)] for t, v in months))

example = (Path(sys.argv[1]) / "examples" / "plot_poisson_hmm.py").read_text()
array = re.search(r"earthquakes = np\.array\(\[(.*?)\]\)", example, re.DOTALL).group(1)
counts = [int(c) for c in array.replace("\n", " ").split(",")]
write("earthquakes.csv", ["year", "count"], ([str(1900 + i), str(c)] for i, c in enumerate(counts)))
