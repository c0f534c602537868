"""A small transformer that follows a drifting language, with optfilter.torch.

Sequences of letters are drawn from a Markov chain whose transition matrix drifts; the network reads the first letters and
names the last one. A transformer that is trained on the first time steps and then left alone goes stale; one that is followed
with a few optimizer steps on a short window does not.

    pip install torch && python examples/networks/transformer.py
"""

from __future__ import annotations

import copy

import numpy as np
import torch

from optfilter.torch import Follower

LETTERS, LENGTH, BATCH, STEPS = 6, 8, 32, 60


class Transformer(torch.nn.Module):
    """Letters and places embedded, two layers of attention, one output per letter."""

    def __init__(self, width: int = 24) -> None:
        super().__init__()
        self.letters = torch.nn.Embedding(LETTERS, width)
        self.places = torch.nn.Parameter(0.02 * torch.randn(LENGTH - 1, width))
        layer = torch.nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True)
        self.encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.output = torch.nn.Linear(width, LETTERS)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.output(self.encoder(self.letters(text) + self.places)[:, -1])


def language(seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Texts, their last letters and their times; the habits of the language turn into others within the stream."""
    rng = np.random.default_rng(seed)
    old, new = (np.eye(LETTERS)[rng.permutation(LETTERS)] for _ in range(2))
    texts, times = [], []
    for t in range(STEPS):
        habit = old + (new - old) * t / (STEPS - 1)
        chain = 0.85 * habit + 0.15 / LETTERS
        for _ in range(BATCH):
            text = [rng.integers(LETTERS)]
            for _ in range(LENGTH - 1):
                text.append(rng.choice(LETTERS, p=chain[text[-1]]))
            texts.append(text)
            times.append(t)
    texts = np.array(texts)
    return texts[:, :-1], texts[:, -1], np.array(times, dtype=float)


def main() -> dict[str, float]:
    torch.manual_seed(0)
    X, y, time = language()
    early = time < 10
    start = Follower(Transformer(), torch.nn.functional.cross_entropy, torch.optim.Adam, lr=3e-3, steps=150)
    start.partial_fit(X[early], y[early])  # the first ten time steps at once, as anyone would train it
    late = {}
    for name, settings in {
        "left alone": dict(steps=0),
        "followed, newest batch only": dict(steps=10),
        "followed, window of 7, discount 0.8, memory carried": dict(steps=10, window=7, discount=0.8, carry=True),
    }.items():
        module = copy.deepcopy(start.module)
        follower = Follower(module, torch.nn.functional.cross_entropy, torch.optim.Adam, lr=1e-3, **settings)
        result = follower.follow(X[~early], y[~early], time[~early])
        half = result.time >= 35
        late[name] = float(result.right[half].sum() / result.n[half].sum())
        print(f"{name:52} all {100 * result.accuracy:5.1f} %   second half {100 * late[name]:5.1f} %")
    return late


if __name__ == "__main__":
    main()
