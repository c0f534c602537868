"""Filters: step by step (``predict``, ``update``, ``x``, ``P``) or over whole series (``filter``).

What is left out has the default of the engine, which is the command line's and Rust's too. Every filter keeps the state
inside ``bounds`` (a truncated Gaussian, reflected particles, projected steps), and takes ``irregular="per_row"`` to count every
row as one step where times are irregular and the model knows no ``dt``; otherwise that is an error.

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

import inspect
from typing import Any, Optional

from . import likelihoods, optimizers
from ._arrays import Array
from ._filter import Filter
from ._model import Model
from ._settings import documented

__all__ = [
    "ETKF",
    "LETKF",
    "ExtendedKalmanFilter",
    "Filter",
    "ImplicitMAP",
    "IteratedKalmanFilter",
    "KalmanFilter",
    "ParticleFilter",
    "UnscentedKalmanFilter",
    "VariationalKalmanFilter",
]


def _given(arguments: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in arguments.items() if key not in ("cls", "model", "__class__")}


class KalmanFilter(Filter):
    """The Kalman filter of a linear model with Gaussian measurements, exact there.

    >>> import optfilter
    >>> model = optfilter.models.Linear(F=1.0, H=1.0, Q=0.1, R=1.0)
    >>> f = optfilter.KalmanFilter(model)
    >>> f.predict(); f.update(2.0)
    >>> f.x.round(3), f.P.round(3), f.K.round(3)
    (array([1.048]), array([[0.524]]), array([[0.524]]))
    """

    __slots__ = ()
    method = "kf"

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        gate: Optional[float] = None,
        gating: Optional[str] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class ExtendedKalmanFilter(Filter):
    """The extended Kalman filter: the model linearised at the estimate, by exact derivatives."""

    __slots__ = ()
    method = "ekf"

    def __new__(
        cls,
        model: Model,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        gate: Optional[float] = None,
        gating: Optional[str] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class IteratedKalmanFilter(Filter):
    """The iterated extended Kalman filter: ``steps`` linearisations per measurement (5 unless given)."""

    __slots__ = ()
    method = "iekf"

    def __new__(
        cls,
        model: Model,
        steps: Optional[int] = None,
        *,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        gate: Optional[float] = None,
        gating: Optional[str] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class UnscentedKalmanFilter(Filter):
    """The unscented Kalman filter, with van der Merwe's ``alpha``, ``beta``, ``kappa``.

    The defaults are ``alpha = 1``, ``beta = 1``, ``kappa = 2 - n``: right to fourth order for sums of squares, and
    never with a covariance that is not one.
    """

    __slots__ = ()
    method = "ukf"

    def __new__(
        cls,
        model: Model,
        *,
        alpha: Optional[float] = None,
        beta: Optional[float] = None,
        kappa: Optional[float] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        gate: Optional[float] = None,
        gating: Optional[str] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class ParticleFilter(Filter):
    """The bootstrap particle filter.

    ``resampling`` is "systematic", "stratified", "residual" or "multinomial", when the effective sample size falls
    below the fraction ``threshold`` of the particles (0.5 unless given; 1 resamples after every measurement). The
    result depends on ``seed`` and on nothing else.
    """

    __slots__ = ()
    method = "pf"

    def __new__(
        cls,
        model: Model,
        particles: Optional[int] = None,
        *,
        seed: Optional[int] = None,
        resampling: Optional[str] = None,
        threshold: Optional[float] = None,
        likelihood: Optional[likelihoods.Likelihood] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))

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


class _Ensemble(Filter):
    __slots__ = ()

    @property
    def members(self) -> Array:
        """The members, (count, n)."""
        arrays = self.particle_arrays()
        assert arrays is not None
        return arrays[0]


class ETKF(_Ensemble):
    """The ensemble transform Kalman filter: the spread of ``members`` (40 unless given) is the covariance.

    After each measurement the members' deviations from their mean are multiplied by ``inflation`` (1.02 unless given)
    and, with ``rotate``, turned at random. Without Q members move by the model alone. Covariances are made up to 1,000 states.

    >>> import optfilter
    >>> model = optfilter.models.Lorenz96(dt=0.05, Q=0.0, R=1.0)
    >>> data = optfilter.simulate(model, 100, seed=1)
    >>> f = optfilter.ETKF(model, members=30, rotate=True)
    >>> f.filter(data.observations).means.shape, f.members.shape
    ((100, 40), (30, 40))
    """

    __slots__ = ()
    method = "etkf"

    def __new__(
        cls,
        model: Model,
        members: Optional[int] = None,
        *,
        inflation: Optional[float] = None,
        rotate: Optional[bool] = None,
        seed: Optional[int] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class LETKF(_Ensemble):
    """The local ensemble transform Kalman filter: every state is corrected by the measurements near it alone.

    Measurements count for two thirds at ``radius`` (4 states unless given) and for nothing from 3.6 radii on. They
    are spread evenly over the states; ``periodic`` makes the last state the first one's neighbour. Where states do not stand in a row,
    ``state_places`` (n rows of coordinates) and ``measurement_places`` (m rows) say where they do, ``period`` after which length each
    coordinate repeats (0: never), and the radius is in their units. The rest is as in :class:`ETKF`.
    """

    __slots__ = ()
    method = "letkf"

    def __new__(
        cls,
        model: Model,
        members: Optional[int] = None,
        radius: Optional[float] = None,
        *,
        periodic: Optional[bool] = None,
        state_places: Any = None,
        measurement_places: Any = None,
        period: Any = None,
        inflation: Optional[float] = None,
        rotate: Optional[bool] = None,
        seed: Optional[int] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class ImplicitMAP(Filter):
    """The implicit MAP filter: an optimizer and a number of steps are the filter.

    Each measurement is followed by ``steps`` steps of ``optimizer`` on its negative log-likelihood, started
    at the prediction. Q is read for the error covariance only, where one is carried; R, where it is given, says how
    steep the likelihood is.

    Parameters
    ----------
    model : Model
    optimizer : optfilter.optimizers.Optimizer or callable
        Adam(lr=0.1) unless given. A name such as "adam" stands for its defaults; a callable is
        ``rule(x, gradient, state) -> (x, state)``; an optax transformation works too.
    steps : int
        Steps per measurement; 50 unless given, 3 for CG.
    window : int
        Past rows that are looked at besides the newest; 0, the paper's filter, unless given. The result then has
        ``lagged``: what the rows after it have made of each estimate. Step by step, ``f.lagged`` is the state at the
        oldest row of the window; None before the first row.
    discount : float
        How much each row of the window counts, of the one after it; 1 unless given.
    constraint : {"strong", "weak"}
        Whether the path through the window follows the model, or may bend at every row as far as Q says.
    shorten : bool
        Whether a window that diverges is tried again with its newer half, and so on down to the newest row; it grows again as rows
        come. There are no error bars then.
    loss : {"likelihood", "squared"}, optional
        What is descended: the model's likelihood where it has one or R is given, else the squared error of the paper.
    likelihood : optfilter.likelihoods.Likelihood, optional
        In place of the model's own.
    carry : bool
        Whether the optimizer's state is carried from one measurement to the next; the paper restarts it.
    gaps : {"widen", "ignore"}, optional
        Whether to take more steps after a gap, as many as the wider prior of a longer prediction asks for. By default
        where Q is per unit of time.
    bounds : (lower, upper), optional
        A box that the state is kept in; the model's own unless given.
    error_bars : bool, optional
        Whether to carry an error covariance, by differentiating through the optimizer's steps. By default where Q
        and R are given, the optimizer can be differentiated and is restarted, and state and measurement have at most 100 numbers together: for each of them it costs about
        what the estimates cost. A window has it by default up to 100 states, under a weak constraint up to 100 of the
        ``D * (window + 1)`` numbers that are then optimised.
    strict : bool
        Whether a covariance that grows without bound is an error; otherwise it is given up (NaN), and the
        estimates go on.

    Examples
    --------
    >>> import optfilter
    >>> model = optfilter.models.Lorenz63(dt=0.02)
    >>> data = optfilter.simulate(model, 200, seed=3)
    >>> f = optfilter.ImplicitMAP(model, optimizer=optfilter.SGD(lr=0.2), steps=5)
    >>> result = f.filter(data.observations)
    >>> bool(result.rmse(data.states) < 2.0)
    True
    >>> result.covariances.shape
    (200, 3, 3)
    """

    __slots__ = ()
    method = "imap"

    def __new__(
        cls,
        model: Model,
        optimizer: optimizers.OptimizerLike = None,
        steps: Optional[int] = None,
        *,
        window: Optional[int] = None,
        discount: Optional[float] = None,
        constraint: Optional[str] = None,
        shorten: Optional[bool] = None,
        loss: Optional[str] = None,
        likelihood: Optional[likelihoods.Likelihood] = None,
        carry: Optional[bool] = None,
        gaps: Optional[str] = None,
        bounds: Any = None,
        error_bars: Optional[bool] = None,
        strict: Optional[bool] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        P0: Any = None,
        dt: Optional[float] = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


class VariationalKalmanFilter(Filter):
    """The variational Kalman filter: like the implicit one, with an explicit prior around each prediction.

    ``prior_cov`` is that prior's covariance: a matrix, a vector of variances or one variance; Q (over a step, where Q
    is per time) unless given. ``optimizer`` is Adam(lr=0.1) and ``steps`` 50 unless given.
    """

    __slots__ = ()
    method = "vkf"

    def __new__(
        cls,
        model: Model,
        prior_cov: Any = None,
        optimizer: optimizers.OptimizerLike = None,
        steps: Optional[int] = None,
        *,
        loss: Optional[str] = None,
        likelihood: Optional[likelihoods.Likelihood] = None,
        Q: Any = None,
        R: Any = None,
        x0: Any = None,
        dt: Optional[float] = None,
        bounds: Any = None,
        process_scale: Optional[float] = None,
        measurement_scale: Optional[float] = None,
        predict_first: Optional[bool] = None,
        irregular: Optional[str] = None,
    ) -> Any:
        return cls._make(model, _given(locals()))


#: Every filter by its name in model files and on the command line.
BY_NAME: dict[str, type[Filter]] = {
    kind.method: kind
    for kind in (
        ImplicitMAP,
        ExtendedKalmanFilter,
        IteratedKalmanFilter,
        UnscentedKalmanFilter,
        ParticleFilter,
        KalmanFilter,
        VariationalKalmanFilter,
        ETKF,
        LETKF,
    )
}

for _kind in BY_NAME.values():
    _kind.__doc__ = documented(_kind.__doc__ or "", inspect.signature(_kind.__new__).parameters)


def make(model: Model, **settings: Any) -> Filter:
    """The filter that settings describe, by the names of a model file's ``[filter]`` table.

    Where none is named it is the one that fits: kf, ekf or pf where noise is given, else imap at a rate of the model's own.

    >>> import optfilter
    >>> optfilter.filters.make(optfilter.models.Growth(), method="ukf").flags
    '--method ukf'
    >>> optfilter.filters.make(optfilter.models.Linear(F=1.0, H=1.0)).flags
    '--method kf'
    """
    settings = {key: value for key, value in settings.items() if value is not None}
    if "method" not in settings:
        settings = Filter._fitted(model, settings)
    name = settings.pop("method")
    if name not in BY_NAME:
        raise ValueError(f"method: {name!r} is not one of {', '.join(BY_NAME)}")
    made: Filter = BY_NAME[name]._make(model, settings)
    return made
