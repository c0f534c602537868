"""Filters: step by step (``predict``, ``update``, ``x``, ``P``) or over whole series (``filter``).

>>> import optfilter
>>> model = optfilter.models.Growth(Q=3.0, R=2.0)
>>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.Adam(lr=0.1), steps=50)
>>> f.predict()
>>> f.update(4.0)
>>> f.x.shape
(1,)
>>> f.update(None)   # a missing measurement changes nothing
"""

from __future__ import annotations

from typing import Any, Optional, Union

from . import likelihoods, optimizers
from ._arrays import Array, box, covariance, whole
from ._filter import Filter
from ._model import Model

__all__ = [
    "ExtendedKalmanFilter",
    "Filter",
    "ImplicitMAP",
    "IteratedEKF",
    "KalmanFilter",
    "ParticleFilter",
    "UnscentedKF",
    "VariationalKF",
]

# Counts that the extension holds in 32 bits.
_MOST = 2**32 - 1
_DEFAULT_OPTIMIZER = optimizers.Adam(lr=0.1)


class KalmanFilter(Filter):
    """The Kalman filter of :class:`optfilter.models.Linear`, exact there.

    >>> import optfilter
    >>> model = optfilter.models.Linear(F=1.0, H=1.0, Q=0.1, R=1.0)
    >>> f = optfilter.KalmanFilter(model)
    >>> f.predict(); f.update(2.0)
    >>> f.x.round(3), f.P.round(3)
    (array([1.048]), array([[0.524]]))
    """

    _kind = "KalmanFilter"

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        return cls._make(model, dict(Q=Q, R=R, x0=x0, P0=P0, dt=dt), {})


class ExtendedKalmanFilter(Filter):
    """The extended Kalman filter: the model linearised at the estimate, by exact derivatives."""

    _kind = "ExtendedKalmanFilter"

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        return cls._make(model, dict(Q=Q, R=R, x0=x0, P0=P0, dt=dt), {})


class IteratedEKF(Filter):
    """The iterated extended Kalman filter: ``iterations`` linearisations per measurement."""

    _kind = "IteratedEKF"

    def __new__(
        cls,
        model: Model,
        iterations: int = 5,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        arguments = dict(iterations=whole("iterations", iterations, most=_MOST), Q=Q, R=R, x0=x0, P0=P0, dt=dt)
        return cls._make(model, arguments, {"iterations": arguments["iterations"]})


class UnscentedKF(Filter):
    """The unscented Kalman filter, with van der Merwe's ``alpha``, ``beta``, ``kappa``.

    The defaults are Julier's points, ``alpha = 1``, ``beta = 0``, ``kappa = 3 - n``.
    """

    _kind = "UnscentedKF"

    def __new__(
        cls,
        model: Model,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        kappa: Optional[float] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        n = getattr(model, "n", 1)
        spread = 3.0 - n if kappa is None else float(kappa)
        arguments = dict(alpha=alpha, beta=beta, kappa=kappa, Q=Q, R=R, x0=x0, P0=P0, dt=dt)
        return cls._make(model, arguments, {"points": (float(alpha), float(beta), spread)})


class ParticleFilter(Filter):
    """The bootstrap particle filter.

    ``resampling`` is "systematic", "stratified", "residual" or "multinomial", after every measurement or,
    with ``threshold``, when the effective sample size falls below that fraction of the particles. The
    result depends on ``seed`` and on nothing else.
    """

    _kind = "ParticleFilter"

    def __new__(
        cls,
        model: Model,
        particles: int = 1000,
        *,
        seed: int = 0,
        resampling: str = "systematic",
        threshold: Optional[float] = None,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            particles=whole("particles", particles, most=_MOST),
            seed=whole("seed", seed, 0),
            resampling=resampling,
            threshold=threshold,
            likelihood=likelihood,
            Q=Q,
            R=R,
            x0=x0,
            P0=P0,
            dt=dt,
        )
        seen = likelihood or model.likelihood or "gaussian"
        settings = dict(
            particles=arguments["particles"],
            seed=arguments["seed"],
            resampling=resampling,
            threshold=threshold,
            likelihood=likelihoods.coerce(seen, model.R if R is None else R, model.m),
        )
        return cls._make(model, arguments, settings)

    @property
    def particles(self) -> Array:
        """The particles, (count, n)."""
        arrays = self.particle_arrays()
        assert arrays is not None
        return arrays[0]

    @property
    def weights(self) -> Array:
        """Their weights, which sum to one."""
        arrays = self.particle_arrays()
        assert arrays is not None
        return arrays[1]


class ImplicitMAP(Filter):
    """The implicit MAP filter: an optimizer and a number of steps are the filter.

    Each measurement is followed by ``steps`` steps of ``optimizer`` on its negative log-likelihood, started
    at the prediction. Neither Q nor R is read, unless ``error_bars`` asks for a covariance.

    Parameters
    ----------
    model : Model
    optimizer : optfilter.optimizers.Optimizer or callable
        A callable is ``rule(x, gradient, state) -> (x, state)``; an optax transformation works too.
    steps : int
        Steps per measurement.
    likelihood : optfilter.likelihoods.Likelihood, "squared" or "gaussian", optional
        The model's own, or else the squared error of the paper (R = I).
    carry : bool
        Whether the optimizer's state is carried from one measurement to the next; the paper restarts it.
    bounds : (lower, upper), optional
        A box that the state is kept in.
    error_bars : bool
        Also carry an error covariance, by differentiating through the optimizer's steps.

    Examples
    --------
    >>> import optfilter
    >>> model = optfilter.models.Lorenz63(dt=0.02)
    >>> data = optfilter.simulate(model, 200, seed=3)
    >>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.SGD(lr=0.05), steps=5, error_bars=True)
    >>> result = f.filter(data.observations)
    >>> bool(result.rmse(data.states) < 2.0)
    True
    >>> result.covariances.shape
    (200, 3, 3)
    """

    _kind = "ImplicitMAP"

    def __new__(
        cls,
        model: Model,
        optimizer: optimizers.OptimizerLike = _DEFAULT_OPTIMIZER,
        steps: int = 50,
        *,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        carry: bool = False,
        bounds: Any = None,
        error_bars: bool = False,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            optimizer=optimizer,
            steps=whole("steps", steps, most=_MOST),
            likelihood=likelihood,
            carry=carry or None,
            bounds=bounds,
            error_bars=error_bars or None,
            Q=Q,
            R=R,
            x0=x0,
            P0=P0,
            dt=dt,
        )
        sides = box(model.bounds if bounds is None else bounds, model.n)
        settings = dict(
            optimizer=optimizers.spec(optimizer),
            steps=arguments["steps"],
            likelihood=likelihoods.coerce(
                likelihood or model.likelihood, model._compact["R"] if R is None else R, model.m
            ),
            carry=bool(carry),
            bounds=sides and tuple(side.tolist() for side in sides),
            error_bars=bool(error_bars),
        )
        return cls._make(model, arguments, settings, point=not error_bars)


class VariationalKF(Filter):
    """The variational Kalman filter: like the implicit one, with an explicit prior around each prediction.

    ``prior_cov`` is that prior's covariance: a matrix, a vector of variances or one variance.
    """

    _kind = "VariationalKF"

    def __new__(
        cls,
        model: Model,
        prior_cov: Any = 1.0,
        optimizer: optimizers.OptimizerLike = _DEFAULT_OPTIMIZER,
        steps: int = 200,
        *,
        likelihood: Union[likelihoods.Likelihood, str, None] = None,
        R: Any = None,
        x0: Any = None,
        dt: Optional[float] = None,
    ) -> Any:
        if not isinstance(model, Model):
            raise ValueError(f"model: must be an optfilter.Model, not {model!r}")
        arguments = dict(
            prior_cov=prior_cov,
            optimizer=optimizer,
            steps=whole("steps", steps, most=_MOST),
            likelihood=likelihood,
            R=R,
            x0=x0,
            dt=dt,
        )
        settings = dict(
            prior_cov=covariance("prior_cov", prior_cov, model.n),
            optimizer=optimizers.spec(optimizer),
            steps=arguments["steps"],
            likelihood=likelihoods.coerce(
                likelihood or model.likelihood or ("squared" if R is None and model.R is None else "gaussian"),
                model.R if R is None else R,
                model.m,
            ),
        )
        return cls._make(model, arguments, settings)
