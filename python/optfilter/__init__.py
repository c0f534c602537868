"""Bayesian filtering in which an optimizer and a number of steps are the filter.

>>> import optfilter
>>> model = optfilter.models.Growth(Q=3.0, R=2.0)
>>> data = optfilter.simulate(model, 200, seed=0)
>>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.Adam(lr=0.1), steps=50)
>>> result = f.filter(data.observations)
>>> result.means.shape
(200, 1)
"""

from __future__ import annotations

from typing import Any

from . import filters, likelihoods, models, nn, optimizers
from ._ahead import Forecast, RollingForecast, SmoothResult
from ._core import __version__
from ._errors import DivergenceError
from ._explore import Explorer, explore
from ._fit import FitResult
from ._model import Model, TextModel
from ._reproduce import (
    Reproduction,
    YearbookReproduction,
    paper_systems,
    reproduce,
    reproduce_yearbook,
)
from ._result import FilterResult
from ._simulate import Simulation, simulate
from ._sweep import MonteCarloResult, TuneResult, TuneRow, default_grid, monte_carlo, tune
from ._theory import implied_prior, largest_learning_rate, learning_rate_matrix
from .filters import (
    ETKF,
    LETKF,
    ExtendedKalmanFilter,
    Filter,
    ImplicitMAP,
    IteratedKalmanFilter,
    KalmanFilter,
    ParticleFilter,
    UnscentedKalmanFilter,
    VariationalKalmanFilter,
)
from .optimizers import CG, SGD, Adadelta, Adagrad, Adam, Preconditioned, RMSProp

__all__ = [
    "CG",
    "ETKF",
    "LETKF",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "DivergenceError",
    "Explorer",
    "ExtendedKalmanFilter",
    "Filter",
    "FilterResult",
    "FitResult",
    "Forecast",
    "ImplicitMAP",
    "IteratedKalmanFilter",
    "KalmanFilter",
    "Model",
    "MonteCarloResult",
    "ParticleFilter",
    "Preconditioned",
    "RMSProp",
    "Reproduction",
    "RollingForecast",
    "Simulation",
    "SmoothResult",
    "TextModel",
    "TuneResult",
    "TuneRow",
    "UnscentedKalmanFilter",
    "VariationalKalmanFilter",
    "YearbookReproduction",
    "__version__",
    "default_grid",
    "explore",
    "filters",
    "implied_prior",
    "largest_learning_rate",
    "learning_rate_matrix",
    "likelihoods",
    "models",
    "monte_carlo",
    "nn",
    "optimizers",
    "paper_systems",
    "reproduce",
    "reproduce_yearbook",
    "simulate",
    "tune",
]


def __getattr__(name: str) -> Any:
    """The doors to PyTorch and JAX open when they are asked for."""
    if name in ("jax", "torch"):
        import importlib

        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
