"""Networks that follow a drifting world, in scikit-learn's manner and in river's, computed in Rust.

A :class:`Follower` predicts each time step *before* it learns from it: K optimizer steps from the present weights, down the
discounted sum of the losses of the last L + 1 batches. One that is given none of these settings is a *bank* of them, mixed by how well each has
predicted lately. ``docs/explanation/filter-banks.md`` has the equations and says when to use what; :mod:`optfilter.torch` and :mod:`optfilter.jax` do the
same with anyone's network.

>>> import numpy as np
>>> import optfilter
>>> from optfilter.nn import Follower
>>> rng = np.random.default_rng(0)
>>> X = rng.normal(size=(800, 2))
>>> time = np.repeat(np.arange(40), 20)                        # 40 time steps
>>> y = np.where(X[:, 0] * np.cos(time / 10) + X[:, 1] * np.sin(time / 10) > 0, "up", "down")
>>> nothing_chosen = Follower("mlp:8")
>>> bool(nothing_chosen.follow(X, y, time).accuracy > 0.9), len(nothing_chosen.shares_)
(True, 8)
>>> follower = Follower("mlp:8", optimizer=optfilter.Adam(0.01), steps=10, window=3, carry=True)
>>> result = follower.follow(X, y, time)
>>> bool(result.accuracy > 0.9)
True
>>> follower.predict(X[:3]).shape, follower.predict_proba(X[:3]).shape
((3,), (3, 2))
>>> sure = optfilter.nn.follow(X, y, time, network="linear", method="lofi", rank=2, drift_var=1e-2)
>>> bool(sure.accuracy > 0.85), bool(sure.calibration_error < 0.1)
(True, True)
>>> follower.partial_fit([[0.0, 1.0]], ["sideways"])
Traceback (most recent call last):
ValueError: y: unknown class np.str_('sideways') of sample 0; the classes are ['down', 'up']
"""

from __future__ import annotations

import os
from typing import Any, Callable, Optional, Union

import numpy as np
from numpy.typing import NDArray

from . import _network, _saved, _stream, _weights
from ._arrays import Array, whole
from ._estimator import not_fitted
from ._network import (
    ELU,
    Conv,
    Dense,
    Flatten,
    Layer,
    LeakyReLU,
    MaxPool,
    MeanPool,
    NetworkLike,
    ReLU,
    Tanh,
)
from ._native import LEARNT, Native
from ._progress import Progress
from ._river import OneByOne
from ._stream import FollowResult, WeightDivergenceError
from .optimizers import Optimizer

__all__ = [
    "ELU",
    "Conv",
    "Dense",
    "Flatten",
    "FollowResult",
    "Follower",
    "Layer",
    "LeakyReLU",
    "MaxPool",
    "MeanPool",
    "ReLU",
    "Tanh",
    "WeightDivergenceError",
    "follow",
]


class Follower(Native, OneByOne):
    """A network with a filter over its weights, or with a bank of filters.

    Where no setting of a filter is given (none from ``optimizer`` to ``ivon_decay`` below), nothing has to be chosen: rules, rates,
    K and windows run side by side, a linear network beside the one asked for, and what is predicted is their mixture by how well
    each has predicted lately (``shares_``). It is what ``optfilter adapt`` does by itself, to the bit. Each of these settings makes a single filter,
    the others at the defaults below. Several numbers per sample are always predicted by a single one.
    A setting that the method does not read is refused.

    Parameters
    ----------
    network : str or list of layers
        ``"mlp:64,64"``, ``"linear"``, ``"cnn"`` (images), or layers: ``[Conv(8, size=5, stride=2), ReLU(), Dense(16), Tanh()]``,
        as text ``"conv:8,5,2 relu dense:16 tanh"``. The last dense layer, with an output for each class or number, is added.
    optimizer : optfilter.optimizers.Optimizer
        The rule; its learning rate acts on the loss *summed* over a batch. Of a single filter by default Adam with a rate of 1e-3.
    steps : int
        K, for each batch; of a single filter by default 10.
    window : int
        L, the number of past batches that are looked at again; of a single filter by default none.
    discount : float
        g, how much a batch counts for each time step of its age; of a single filter by default 1.
    carry : bool
        Whether the optimizer's memory goes on from batch to batch; else (the default of a single filter) it begins anew with each.
    method : str
        How the weights follow: ``"imap"`` (of a single filter the default) takes K optimizer steps, ``"vkf"`` takes them with a pull to the
        prediction, ``"direct"`` takes 1000; ``"ekf"``, ``"vdekf"``, ``"bong"`` (a variance for each weight), ``"lofi"`` (a low-rank
        belief) and ``"ivon"`` have error bars on weights, over which :meth:`predict_proba` averages; ``"pf"`` has
        particles, ``"static"`` never learns, and ``"auto"`` is the bank.
    lr : float
        The rate of ``"ivon"``, by default 0.1. (The rate of a rule belongs to it: ``optimizer=Adam(lr)``.)
    drift_var : float
        Variance of the weights' random walk for each time step: by default 0.01 of vkf and pf, 1e-5 of ekf, vdekf, bong and lofi. ``--sigma2`` of
        the command line.
    prior_var, noise_var : float
        Of ekf, vdekf, bong and lofi: variance of each weight at the start, and of a label that is a number in units of its scale; by default 0.1 both.
    robust : float
        Of the same: labels beyond about so many deviations count less (WoLF); by default all count alike.
    rank, particles : int
        Directions of lofi (by default 10), particles of pf (by default 1000). With a ``rank`` bong has a low-rank belief, too; on the linearised network these are
        the equations of lofi, and the same numbers.
    samples : int
        Of bong: gradients at so many draws of the weights for each sample, instead of the linearised network (which ``robust`` needs).
    ivon_size, ivon_curvature, ivon_decay : float
        Of ivon: the effective sample size (by default 10000; the larger, the narrower the belief), the curvature it begins with (0.1; by it the rate
        is scaled), and the weight decay (1e-4; the precision without data).
    ivon_betas : tuple of (float, float)
        Of ivon: how much of momentum and of curvature is kept at each step, by default ``(0.9, 0.999)``.
    task : {"classification", "regression"}, optional
        By default texts and whole numbers are classes, other labels numbers.
    scale : bool
        Whether features and numbers to predict are scaled by mean and deviation of all samples learnt from so far (while
        :meth:`follow` predicts a time step, of that step's features as well); images are left as they are. Turn it off for weights that were trained on data as they are.
    weights : path, optional
        A safetensors file of Flax or of a PyTorch ``nn.Sequential`` with the same layers, to start from.
    epochs : int
        The most steps of :meth:`fit`.
    seed : int
        For the initial weights, and for what is drawn.

    Attributes
    ----------
    classes_ : numpy.ndarray
        The classes, once they are known.
    n_features_in_ : int
        Numbers of a sample.
    shares_ : tuple of (str, float)
        Of a bank: its settings with their shares in what is predicted, the largest first. A single filter has none.
    """

    classes_: NDArray[Any]
    n_features_in_: int

    def __init__(
        self,
        network: NetworkLike = "mlp:64,64",
        optimizer: Optional[Optimizer] = None,
        steps: Optional[int] = None,
        window: Optional[int] = None,
        discount: Optional[float] = None,
        carry: Optional[bool] = None,
        *,
        method: Optional[str] = None,
        lr: Optional[float] = None,
        drift_var: Optional[float] = None,
        prior_var: Optional[float] = None,
        noise_var: Optional[float] = None,
        robust: Optional[float] = None,
        rank: Optional[int] = None,
        particles: Optional[int] = None,
        samples: Optional[int] = None,
        ivon_size: Optional[float] = None,
        ivon_curvature: Optional[float] = None,
        ivon_betas: Optional[tuple[float, float]] = None,
        ivon_decay: Optional[float] = None,
        task: Optional[str] = None,
        scale: bool = True,
        weights: Union[str, os.PathLike[str], None] = None,
        epochs: int = 500,
        seed: int = 0,
    ) -> None:
        self.network = network
        self.optimizer = optimizer
        self.steps = steps
        self.window = window
        self.discount = discount
        self.carry = carry
        self.method = method
        self.lr = lr
        self.drift_var = drift_var
        self.prior_var = prior_var
        self.noise_var = noise_var
        self.robust = robust
        self.rank = rank
        self.particles = particles
        self.samples = samples
        self.ivon_size = ivon_size
        self.ivon_curvature = ivon_curvature
        self.ivon_betas = ivon_betas
        self.ivon_decay = ivon_decay
        self.task = task
        self.scale = scale
        self.weights = weights
        self.epochs = epochs
        self.seed = seed

    @property
    def shares_(self) -> tuple[tuple[str, float], ...]:
        """Of a bank: its settings with their shares in what is predicted, the largest first."""
        if not self._banked:
            raise AttributeError("shares_: there are none, because this is a single filter or has learnt nothing yet")
        return tuple(self._engine.shares)

    # ---------------------------------------------------------------- scikit-learn's manner

    def fit(self, X: Any, y: Any) -> Follower:
        """Begins anew and fits all samples at once: up to ``epochs`` steps of Adam on the mean loss, until it settles."""
        fresh = Follower(**self.get_params())
        X, y, names = fresh._pair(X, y)
        fresh._begin(X, y, None, names)
        most = whole("epochs", self.epochs, least=0, most=2**32 - 1)
        fresh._engine.settle(X, *fresh._coded(y), most, 1e-5)
        fresh._samples = len(X)
        for name in LEARNT:
            self.__dict__.pop(name, None)
        self.__dict__.update({k: v for k, v in fresh.__dict__.items() if k not in self._names()})
        return self

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Follower:
        """Time passes by one step, and the labels of its samples arrive; ``y=None``: none did, and nothing is learnt.

        ``classes`` names all classes, at the first call; else they are those of the first labels. A batch that does not fit, a
        class that is not known or weights that leave the finite numbers raise an error, and everything is as before.
        """
        if y is None and hasattr(self, "_engine"):
            self._read(X)
            self._engine.skip()
            return self
        X, y, names = self._pair(X, y)
        if hasattr(self, "_engine"):
            if classes is not None and self._classifies:
                if not np.array_equal(np.unique(np.asarray(classes)), np.sort(self.classes_)):
                    raise ValueError(f"classes: {list(classes)} on a later call, but they were {self.classes_.tolist()}")
            coded = self._coded(y)
            with self._undone():
                self._renew()
                self._engine.learn(X, *coded)
        else:
            fresh = Follower(**self.get_params())
            fresh._begin(X, y, classes, names)
            fresh._engine.learn(X, *fresh._coded(y))
            self.__dict__.update(fresh.__dict__)
        self._samples += len(X)
        return self

    def _outputs(self, X: Any) -> Array:
        if not hasattr(self, "_engine"):
            raise not_fitted()
        outputs: Array = self._engine.outputs(self._read(X)[0])
        return outputs

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, or numbers."""
        z = self._outputs(X)
        if not self._classifies:
            return z[:, 0] if self._flat else z
        # One output is the log-odds of class 1; a bank says probabilities.
        chosen = (z[:, 0] > 0).astype(int) if z.shape[1] == 1 else z.argmax(axis=1)
        return np.asarray(self.classes_[np.minimum(chosen, len(self.classes_) - 1)])

    @property
    def predict_proba(self) -> Callable[[Any], Array]:
        """``predict_proba(X)``: probabilities of all classes, in the order of ``classes_``, averaged over the belief of a method
        with error bars on weights; not there for numbers."""
        if self.task == "regression" or (hasattr(self, "_engine") and not self._classifies):
            raise AttributeError("predict_proba: numbers are predicted, not classes")
        return self._probabilities

    def _probabilities(self, X: Any) -> Array:
        z = self._outputs(X)
        if self._banked:
            return np.ones_like(z[:, :1]) if len(self.classes_) == 1 else z
        if z.shape[1] == 1:
            p = 0.5 * (1.0 + np.tanh(0.5 * z))  # of class 1, without overflow
            return np.hstack([1.0 - p, p])[:, : len(self.classes_)] if len(self.classes_) == 2 else np.ones_like(p)
        e = np.exp(z - z.max(axis=1, keepdims=True))
        return np.asarray(e / e.sum(axis=1, keepdims=True))

    def score(self, X: Any, y: Any) -> float:
        """Share of right classes, or R squared, at the present weights."""
        predicted = self.predict(X)
        y = _network.labels(y, len(predicted))
        if self._classifies:
            return float(np.mean(predicted == _network.class_labels(y)))
        return _stream.level(predicted.reshape(len(predicted), -1), _network.number_labels(y), False)

    def follow(
        self,
        X: Any,
        y: Any,
        time: Any = None,
        *,
        every: int = 1,
        pretrain: int = 0,
        progress: Optional[bool] = None,
    ) -> FollowResult:
        """Predicts, scores and then learns, time step after time step: samples of equal ``time``, or ``every`` rows.

        The first ``pretrain`` time steps are fitted (:meth:`fit`) and not judged. What fails leaves the weights as they
        were before the time step that failed.
        """
        X, y, names = self._pair(X, y)
        slices, times = _stream.time_steps(len(X), time, every)
        pretrain = whole("pretrain", pretrain, least=0, most=len(slices) - 1)
        first = slices[pretrain].start
        with self._undone():
            if pretrain:
                rows = slice(0, first)
                self.fit(X[rows], y[rows])
            elif not hasattr(self, "_engine"):
                self._begin(X, y, None, names)
            self._renew()
            coded = self._coded(y[first:])
        slices, times = slices[pretrain:], times[pretrain:]
        ends = [rows.stop - first for rows in slices]
        with Progress(len(slices), "following", progress, unit="step") as bar:
            done = 0

            def tell(steps: int) -> None:
                nonlocal done
                bar.advance(steps - done)
                done = steps

            scores = self._engine.follow(X[first:], *coded, ends, tell)
        self._samples += len(X) - first
        shares = self.shares_ if self._banked else ()
        return FollowResult(time=times, classification=self._classifies, shares=shares, **scores)

    # ---------------------------------------------------------------- saved

    def save(self, path: Union[str, os.PathLike[str]]) -> None:
        """Writes the weights as safetensors (Flax's names), with settings, scaling and classes in its metadata.

        ``optfilter adapt --weights`` of the command line goes on from there, and so does :meth:`load`. Of a bank these are the weights of
        the leading member of the network asked for: :meth:`load` begins a new bank at them, whose shares, rates and linear members start anew.
        A pickle keeps everything: all members of a bank, windows and the optimizers' memory.
        """
        if not hasattr(self, "_engine"):
            raise not_fitted()
        _saved.write(self, path)

    @classmethod
    def load(cls, path: Union[str, os.PathLike[str]]) -> Follower:
        """A follower that :meth:`save` or ``optfilter adapt --save`` wrote."""
        made: Follower = _saved.read(cls, path)
        return made


def follow(
    X: Any,
    y: Any,
    time: Any = None,
    *,
    every: int = 1,
    pretrain: int = 0,
    progress: Optional[bool] = None,
    auto: Optional[bool] = None,
    **settings: Any,
) -> FollowResult:
    """Follows a stream and returns the scores of foresight: each time step is predicted, judged and then learnt from.

    It is a new :class:`Follower` of these settings: a bank where none of a single filter is given, and then the result's ``shares`` says
    whom it listens to. ``auto`` insists: True that it is a bank, False that it is a single filter.

    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 400).reshape(-1, 1)
    >>> result = follow(X, X[:, 0] ** 2, every=10, pretrain=2, network="mlp:8", window=2)
    >>> len(result), bool(result.rmse < 1.0)
    (38, True)
    >>> follow(X, X[:, 0] > 0, network="linear").shares[0][0].split()[0] in ("adam", "gd")
    True
    """
    if auto is False and not _weights.given(settings):
        settings["method"] = "imap"
    follower = Follower(**settings)
    if auto:
        chosen = _weights.given(follower._filter())
        if chosen:
            raise ValueError(f"{chosen[0]}: is chosen by the bank itself; leave it out, or auto=False")
        if np.ndim(y) > 1 and np.shape(y)[1] > 1:
            raise ValueError("y: the bank predicts one number for each sample; use auto=False for several")
    return follower.follow(X, y, time, every=every, pretrain=pretrain, progress=progress)
