"""What every model has: sizes, equations, and the noise and start that filters take by default."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Callable, Optional, Union

import numpy as np

from . import _core, likelihoods
from ._arrays import Array, box, compact, covariance, duration, optional_covariance, vector, whole

_EXTRAS = ("u", "t", "dt", "k")
_DEFAULTS = ("dt", "Q", "R", "x0", "P0", "diffuse", "likelihood", "Q_per_time", "bounds", "name")


def _extras(name: str, function: Callable[..., Any], vectors: int = 1) -> list[str]:
    """The parameters that a callable takes besides the state (and the vector that its Jacobian is multiplied with)."""
    if not callable(function):
        raise ValueError(f"{name}: must be callable, not {function!r}")
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # built-in functions and the like have no signature
        return []
    required = []
    for parameter in parameters[vectors:]:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
            continue
        if parameter.name in _EXTRAS:
            required.append(parameter.name)
        elif parameter.default is parameter.empty:
            raise ValueError(
                f"{name}: unknown parameter {parameter.name!r}; besides the state a callable may take "
                "u (inputs), t (time), dt (length of the step) and k (number of the row, from 1)"
            )
        else:
            break
    return required


def _given_product(label: str, given: Any) -> Any:
    """A product with a Jacobian as it was given, with the parameters it takes; None where JAX is to make it."""
    if isinstance(given, str):
        if given != "jax":
            raise ValueError(f'{label}: must be callable or "jax", not {given!r}')
        return None
    return given, _extras(label, given, 2)


def _products(name: str, function: Callable[..., Any], vjp: Any, jvp: Any) -> tuple[Any, Any]:
    """The products with a callable's Jacobian, transposed and not, as given or made by JAX, with the parameters they take."""
    jitted = type(function).__module__.split(".")[0] in ("jax", "jaxlib")
    if jitted or any(isinstance(given, str) and given == "jax" for given in (vjp, jvp)):
        vjp, jvp = ("jax" if given is None else given for given in (vjp, jvp))
    backwards = None if vjp is None else _given_product(f"{name}_vjp", vjp) or _jax_vjp(name, function)
    forwards = None if jvp is None else _given_product(f"{name}_jvp", jvp) or _jax_jvp(name, function)
    return backwards, forwards


def _jax_vjp(name: str, function: Callable[..., Any]) -> Any:
    import jax  # only where it is asked for

    def product(x: Any, w: Any, *rest: Any) -> Any:
        value, pull_back = jax.vjp(lambda x: jax.numpy.asarray(function(x, *rest)), x)
        return pull_back(jax.numpy.asarray(w, value.dtype).reshape(value.shape))[0]

    return jax.jit(product), _extras(name, function)


def _jax_jvp(name: str, function: Callable[..., Any]) -> Any:
    import jax  # only where it is asked for

    def of(rest: tuple[Any, ...]) -> Callable[[Any], Any]:
        return lambda x: jax.numpy.asarray(function(x, *rest))

    def pushed(x: Any, v: Any, *rest: Any) -> Any:
        return jax.jvp(of(rest), (x,), (v,))[1]

    def transposed(x: Any, v: Any, *rest: Any) -> Any:
        value, pull_back = jax.vjp(of(rest), x)
        return jax.vjp(lambda w: pull_back(w)[0], value)[1](v)[0]

    # A function with a VJP of its own (custom_vjp) cannot be pushed through; but the VJP is linear, and its own
    # VJP is the tangent.
    ways = [jax.jit(pushed), jax.jit(transposed)]

    def product(*arguments: Any) -> Any:
        if len(ways) > 1:
            try:
                return ways[0](*arguments)
            except TypeError:
                del ways[:-1]
        return ways[-1](*arguments)

    return product, _extras(name, function)


def _flags(name: str, which: Iterable[int], size: int) -> list[bool]:
    flags = [False] * size
    for index in which:
        if not -size <= index < size:
            raise ValueError(f"{name}: there is no component {index} among {size}")
        flags[index] = True
    return flags


class Model:
    """A state-space model written as Python callables over NumPy arrays.

    ``x_t = f(x_{t-1}) + noise`` and ``y_t = h(x_t) + noise``. Both take the state as an array of ``n``
    numbers and, if they name them, ``u`` (inputs), ``t`` (time), ``dt`` (length of the step) and ``k``
    (number of the row, from 1). A JAX-jitted function works as it is.

    Callables are the slow way: expressions (:meth:`from_expressions`, :meth:`from_toml`) and the systems of
    :mod:`optfilter.models` run without Python in the loop.

    Parameters
    ----------
    f, h : callable
        Transition and observation.
    n, m : int
        Numbers in the state and in a measurement.
    f_jacobian, h_jacobian : callable, optional
        Their Jacobians, ``(n, n)`` and ``(m, n)``; central differences otherwise, with a step that suits the
        size of the state and the precision of the results (a warning says where that is single).
    f_vjp, h_vjp : callable or "jax", optional
        Their vector-Jacobian products: ``f_vjp(x, w)`` is the transposed Jacobian at ``x`` times ``w``, an array of ``n``
        numbers. They may name ``u``, ``t``, ``dt`` and ``k``, too. With them a gradient costs one call, whatever ``n``.
        ``"jax"`` makes them by :func:`jax.vjp`, as is done of itself for a jitted function. A filter that needs a
        gradient and has neither product nor Jacobian takes differences, and warns once.
    f_jvp, h_jvp : callable or "jax", optional
        Their Jacobian-vector products: ``f_jvp(x, v)`` is the Jacobian at ``x`` times ``v``, an array of ``n`` numbers (of
        ``h``, ``m``). :class:`optfilter.CG` needs tangents besides gradients: with these one costs one call. Without them it
        is the given Jacobian times ``v``, or else a difference for two calls of ``f`` or ``h`` (four where a state is nearly
        zero), whatever ``n``; that is as good as exact unless states differ by many orders of magnitude. JAX makes them by
        :func:`jax.jvp` where it makes the others.
    vectorized : bool
        Whether ``f`` and ``h`` take many states at once, as the rows of an array ``(points, n)``, and return
        ``(points, n)`` and ``(points, m)``: a Jacobian, or a step of all particles, is then one call. Jacobians
        that are given take one state all the same.
    inputs : int
        Control inputs that ``f`` and ``h`` read.
    dt : float
        The length of a step of time, unless measurements carry times.
    Q, R : array_like, optional
        Covariances of process and measurement noise: a matrix, a vector of variances, or one variance.
    x0, P0 : array_like, optional
        Mean and covariance of the state at the first measurement; 0 and I by default.
    diffuse : bool or sequence of int
        States of which nothing is known at the first measurement, whatever ``P0`` says of them, or all of them. Exact (Durbin
        and Koopman 2012, chapter 5) under ``Kalman``, ``EKF``, ``IEKF`` and ``UKF`` on linear models: an infinite ``P0``.
        Variances are infinite until measurements say what a state is.
    state_angles, angles : sequence of int
        Components of the state and of the measurement that are angles in radians.
    likelihood : optfilter.likelihoods.Likelihood, optional
        How measurements scatter, where not by a Gaussian with R.
    state_names, observation_names, input_names : sequence of str
        Names, by which the columns of data frames are found.

    Examples
    --------
    >>> import numpy as np
    >>> import optfilter
    >>> model = optfilter.Model(
    ...     f=lambda x, dt: np.array([x[0] + dt * x[1], x[1] - dt * np.sin(x[0])]),
    ...     h=lambda x: x[:1],
    ...     n=2, m=1, dt=0.1, Q=0.01, R=0.1)
    >>> model
    Model(n=2, m=1, dt=0.1)
    >>> model.f([0.1, 0.0]).round(4)
    array([ 0.1 , -0.01])
    """

    name: str
    n: int
    m: int
    inputs: int
    dt: float
    Q_per_time: bool
    x0: Array
    #: States of which nothing is known at the start.
    diffuse: tuple[int, ...]
    likelihood: Optional[likelihoods.Likelihood]
    bounds: Optional[tuple[Array, Array]]
    state_names: tuple[str, ...]
    observation_names: tuple[str, ...]
    input_names: tuple[str, ...]
    parameters: Mapping[str, float]
    #: Whether measurements have names of their own.
    has_names: bool
    #: Which states are angles.
    state_angles: tuple[bool, ...]
    #: The ``[filter]`` table of a model file.
    filter_settings: Mapping[str, Any] = {}
    _columns: Mapping[str, str] = {}

    def __init__(
        self,
        f: Callable[..., Any],
        h: Callable[..., Any],
        n: int,
        m: int = 1,
        *,
        f_jacobian: Optional[Callable[..., Any]] = None,
        h_jacobian: Optional[Callable[..., Any]] = None,
        f_vjp: Any = None,
        h_vjp: Any = None,
        f_jvp: Any = None,
        h_jvp: Any = None,
        inputs: int = 0,
        dt: float = 1.0,
        Q: Any = None,
        R: Any = None,
        Q_per_time: bool = False,
        x0: Any = 0.0,
        P0: Any = 1.0,
        diffuse: Union[bool, Sequence[int]] = (),
        state_angles: Sequence[int] = (),
        angles: Sequence[int] = (),
        likelihood: Optional[likelihoods.Likelihood] = None,
        bounds: Any = None,
        vectorized: bool = False,
        state_names: Sequence[str] = (),
        observation_names: Sequence[str] = (),
        input_names: Sequence[str] = (),
        name: str = "Model",
    ) -> None:
        n, m, inputs = whole("n", n), whole("m", m), whole("inputs", inputs, 0)

        def pair(label: str, function: Any) -> Any:
            return None if function is None else (function, _extras(label, function))

        f_products, h_products = _products("f", f, f_vjp, f_jvp), _products("h", h, h_vjp, h_jvp)
        core = _core.CoreModel.callable(
            n,
            m,
            inputs,
            pair("f", f),
            pair("f_jacobian", f_jacobian),
            *f_products,
            pair("h", h),
            pair("h_jacobian", h_jacobian),
            *h_products,
            _flags("state_angles", state_angles, n),
            _flags("angles", angles, m),
            bool(vectorized),
        )
        self._recipe = dict(
            f=f,
            h=h,
            n=n,
            m=m,
            f_jacobian=f_jacobian,
            h_jacobian=h_jacobian,
            f_vjp=f_vjp,
            h_vjp=h_vjp,
            f_jvp=f_jvp,
            h_jvp=h_jvp,
            inputs=inputs,
            state_angles=tuple(state_angles),
            angles=tuple(angles),
            vectorized=bool(vectorized),
            state_names=tuple(state_names),
            observation_names=tuple(observation_names),
            input_names=tuple(input_names),
        )
        names = (state_names, observation_names, input_names)
        self._finish(core, dt, Q, R, Q_per_time, x0, P0, diffuse, likelihood, bounds, name, names)
        self.state_angles = tuple(_flags("state_angles", state_angles, n))

    def _finish(
        self,
        core: _core.CoreModel,
        dt: float,
        Q: Any,
        R: Any,
        Q_per_time: bool,
        x0: Any,
        P0: Any,
        diffuse: Union[bool, Sequence[int]],
        likelihood: Optional[likelihoods.Likelihood],
        bounds: Any,
        name: str,
        names: tuple[Sequence[str], Sequence[str], Sequence[str]] = ((), (), ()),
        parameters: Optional[Mapping[str, float]] = None,
    ) -> None:
        self._core = core
        self.n, self.m, self.inputs = core.dims
        self.dt = duration("dt", dt)
        # As they were given: a state of many components has no room for a matrix unless a filter needs one.
        self._compact: dict[str, Optional[Array]] = {
            "Q": None if Q is None else compact("Q", Q, self.n),
            "R": None if R is None else compact("R", R, self.m),
            "P0": compact("P0", P0, self.n),
        }
        self.Q_per_time = bool(Q_per_time)
        self.x0 = vector("x0", x0, self.n)
        places = range(self.n if diffuse else 0) if isinstance(diffuse, bool) else diffuse
        self.diffuse = tuple(i for i, unknown in enumerate(_flags("diffuse", places, self.n)) if unknown)
        if callable(likelihood) and not isinstance(likelihood, likelihoods.Likelihood):
            likelihood = likelihoods.LogProb(likelihood)
        if likelihood is not None and not isinstance(likelihood, likelihoods.Likelihood):
            raise ValueError(f"likelihood: must be one of optfilter.likelihoods or a function, not {likelihood!r}")
        self.likelihood = likelihood
        self.bounds = box(bounds, self.n)
        self.name = name
        states, observations, inputs = names
        for label, given, size in (
            ("state_names", states, self.n),
            ("observation_names", observations, self.m),
            ("input_names", inputs, self.inputs),
        ):
            if given and len(given) != size:
                raise ValueError(f"{label}: {size} names are needed, {len(given)} were given")
        self.has_names = bool(observations)
        self.state_angles: tuple[bool, ...] = (False,) * self.n
        self.state_turns: tuple[float, ...] = (2 * np.pi,) * self.n
        self.state_names = tuple(states) or tuple(f"x{i}" for i in range(self.n))
        self.observation_names = tuple(observations) or tuple(f"y{i}" for i in range(self.m))
        self.input_names = tuple(inputs) or tuple(f"u{i}" for i in range(self.inputs))
        self.parameters = dict(parameters or {})
        self.x0.flags.writeable = False

    def _settings(self) -> dict[str, Any]:
        """What makes the model anew."""
        defaults = {key: getattr(self, key) for key in _DEFAULTS if key not in self._compact}
        return {**self._recipe, **defaults, **self._compact}

    @property
    def Q(self) -> Optional[Array]:
        """The covariance (n, n) of the process noise, per unit of time if ``Q_per_time``; None if not given."""
        return optional_covariance("Q", self._compact["Q"], self.n)

    @property
    def R(self) -> Optional[Array]:
        """The covariance (m, m) of the measurement noise; None if not given."""
        return optional_covariance("R", self._compact["R"], self.m)

    @property
    def P0(self) -> Array:
        """The covariance (n, n) of the state before the first step."""
        return covariance("P0", self._compact["P0"], self.n)

    # ---- other ways to make one

    @staticmethod
    def from_toml(source: Union[str, "os.PathLike[str]"], **changes: Any) -> TextModel:
        """A model file of the command line: its path, or its text.

        >>> import optfilter
        >>> optfilter.Model.from_toml('system = "pendulum"', dt=0.05)
        TextModel('Pendulum whose horizontal position is measured', n=2, m=1, dt=0.05)
        """
        text = os.fspath(source)
        label = "model"
        if "\n" not in text and "=" not in text:
            label = os.path.basename(text)
            with open(text, encoding="utf-8") as file:
                text = file.read()
        return TextModel(text, label, **changes)

    @staticmethod
    def from_expressions(
        dynamics: Mapping[str, str],
        observation: Mapping[str, Any],
        *,
        parameters: Optional[Mapping[str, Union[float, str]]] = None,
        definitions: Optional[Mapping[str, str]] = None,
        inputs: Sequence[str] = (),
        integrator: Optional[str] = None,
        substeps: int = 1,
        dt: float = 1.0,
        Q: Any = 1.0,
        R: Any = 1.0,
        x0: Any = 0.0,
        P0: Any = 1.0,
        state_angles: Sequence[str] = (),
        **changes: Any,
    ) -> TextModel:
        """A model of expressions, compiled in Rust with exact derivatives.

        Keys of ``dynamics`` are the states, or ``"dx/dt"`` for a differential equation; keys of
        ``observation`` name the measurements. ``state_angles`` names states that are angles in radians. Differential
        equations that are linear with constant coefficients are solved exactly over every step, others by ``integrator``
        ("rk4" unless given, or "euler") with ``substeps`` steps; naming one, or more substeps, integrates those too.

        >>> import optfilter
        >>> model = optfilter.Model.from_expressions(
        ...     {"dtheta/dt": "omega", "domega/dt": "-g*sin(theta)"},
        ...     {"y": "sin(theta)"},
        ...     parameters={"g": 9.81}, dt=0.02, Q=1e-3, R=0.1)
        >>> model.state_names, model.observation_names
        (('theta', 'omega'), ('y',))
        >>> optfilter.Model.from_expressions({"x": "x + sin(z)"}, {"y": "x"})
        Traceback (most recent call last):
        ValueError: unknown name `z`
        ...
        """
        if integrator not in (None, "rk4", "euler"):
            raise ValueError(f"integrator: must be 'rk4' or 'euler', not {integrator!r}")
        substeps = whole("substeps", substeps)
        rates = [key for key in dynamics if key.startswith("d") and key.endswith("/dt")]
        if rates and len(rates) != len(dynamics):
            raise ValueError("dynamics: either all keys are rates such as 'dx/dt', or none is")
        states = [key[1:-3] if rates else key for key in dynamics]
        lines = [f"name = {_quote('expressions')}", f"states = [{', '.join(map(_quote, states))}]"]
        if inputs:
            lines.append(f"inputs = [{', '.join(map(_quote, inputs))}]")
        for title, table in (("parameters", parameters), ("definitions", definitions)):
            if table:
                lines += [f"[{title}]", *(f"{_quote(k)} = {_value(v)}" for k, v in table.items())]
        lines += ["[dynamics]", *(f"{_quote(k)} = {_value(v)}" for k, v in dynamics.items())]
        if rates and (integrator is not None or substeps != 1):
            lines += ["[integrator]", f"method = {_quote(integrator or 'rk4')}", f"substeps = {substeps}"]
        lines += ["[observation]", *(f"{_quote(k)} = {_value(v)}" for k, v in observation.items())]
        if state_angles:
            lines += ["[angles]", *(f"{_quote(name)} = true" for name in state_angles)]
        lines += ["[process_noise]", "var = 1", "[measurement_noise]", "var = 1"]
        lines += ["[initial]", "mean = 0", "std = 1", "[time]", f"dt = {float(dt)!r}"]
        text = "\n".join(lines) + "\n"
        return TextModel(text, "expressions", Q=Q, R=R, x0=x0, P0=P0, **changes)

    def replace(self, **changes: Any) -> Model:
        """The same model with another ``dt``, ``Q``, ``R``, ``x0``, ``P0``, ``likelihood``, ``bounds``, ...

        A ``P0`` that is given is meant: no state is ``diffuse`` any more, unless that is given too.

        >>> import optfilter
        >>> optfilter.models.Growth().replace(R=4.0).R
        array([[4.]])
        """
        if "P0" in changes:
            changes = {"diffuse": (), **changes}
        return type(self)(**{**self._settings(), **changes})

    # ---- use

    def filter(self, ys: Any, ts: Any = None, us: Any = None, **settings: Any) -> Any:
        """Filters measurements by the filter that the model file asks for, or by the one that fits it.

        ``settings`` are those of a ``[filter]`` table (``method``, ``steps``, ``lr``, ...) and of
        :meth:`optfilter.Filter.filter` (``predict_first``, ``errors``, ``covariances``, ...). The numbers are those of
        ``optfilter filter`` on the same file and table, to the bit.

        >>> import optfilter
        >>> model = optfilter.Model.from_toml('system = "local-level"')
        >>> model.filter([1.0, None, 2.0], method="kf").means.shape
        (3, 1)

        ``by`` names the column of a frame (pandas, polars, pyarrow) that says whose row it is; see
        :meth:`optfilter.Filter.filter`.
        """
        known = ("x0", "P0", "t0", "errors", "first_run", "covariances", "only", "horizon", "by")
        call = {key: settings.pop(key) for key in known if key in settings}
        return self._own_filter(settings).filter(ys, ts, us, **call)

    def smooth(self, ys: Any, ts: Any = None, us: Any = None, **settings: Any) -> Any:
        """Smooths measurements by the filter that the model file asks for, or by the one that fits it.

        ``settings`` are those of a ``[filter]`` table and of :meth:`optfilter.Filter.smooth`. The numbers are those of
        ``optfilter smooth`` on the same file and table, to the bit.

        >>> import optfilter
        >>> model = optfilter.Model.from_toml('system = "local-level"')
        >>> model.smooth([1.0, None, 2.0], method="kf").means.shape
        (3, 1)
        """
        known = ("x0", "P0", "t0", "first_run", "by")
        call = {key: settings.pop(key) for key in known if key in settings}
        return self._own_filter(settings).smooth(ys, ts, us, **call)

    def forecast(self, ys: Any, steps: int = 1, ts: Any = None, us: Any = None, **settings: Any) -> Any:
        """Filters measurements and predicts ``steps`` rows beyond them, with intervals.

        ``settings`` are those of a ``[filter]`` table and of :meth:`optfilter.Filter.forecast`; steps of an optimizer are
        ``optimizer_steps`` here.

        >>> import optfilter
        >>> model = optfilter.Model.from_toml('system = "local-level"')
        >>> model.forecast([1.0, None, 2.0], steps=4, method="kf").intervals.shape
        (4, 1, 3, 2)
        """
        known = ("x0", "P0", "t0", "us_ahead", "dt", "by")
        call = {key: settings.pop(key) for key in known if key in settings}
        if "optimizer_steps" in settings:
            settings["steps"] = settings.pop("optimizer_steps")
        return self._own_filter(settings).forecast(ys, steps, ts, us, **call)

    def _own_filter(self, settings: dict[str, Any]) -> Any:
        """The filter of the model file, with other settings."""
        from .filters import make

        of_file = dict(self.filter_settings)
        # Settings of another method in the file mean nothing for the one asked for.
        if settings.get("method") not in (None, of_file.get("method")) and "method" in of_file:
            of_file = {key: value for key, value in of_file.items() if key in ("predict_first", "irregular")}
        return make(self, **{**of_file, **settings})

    def fit(self, ys: Any, ts: Any = None, us: Any = None, **settings: Any) -> Any:
        """Estimates parameters, noise and start by maximum likelihood, along windows, or by one-step predictions.

        ``ys`` are measurements as :meth:`filter` takes them; ``(B, T, m)``, or a list of frames, are several series of one
        model. ``free`` names what is estimated: parameters, ``"process_noise.STATE"`` and ``"measurement_noise.OUTPUT"`` as
        variances, ``"initial.mean.STATE"``, or a group (``"parameters"``, ``"process_noise"``, ``"measurement_noise"``,
        ``"initial.mean"``); by default what the ``[fit]`` table of the model says, else all noise. ``method`` is kf, ekf, iekf,
        ukf, imap or vkf; ``starts`` and ``seed`` are those of the search, which begins at the model's values, in the units of the
        rows, and at what the rows say; ``max_rows`` takes the first rows of each series only. Returns a
        :class:`optfilter.FitResult`.

        ``criterion`` is what is maximised: ``"likelihood"``, that of kf, ekf, iekf or ukf, with exact gradients through the
        filter; ``"window"``, that of paths through windows of ``window`` past rows and a newest (whole series, without), whose
        first states are found with the rest, for measurements of any kind; ``"prediction"``, how well imap or vkf as it is
        predicts the next row. The last two say nothing of process noise. By default it is the likelihood of a Gaussian
        filter; imap is fitted by its window where it has one, or where no filter is named and measurements are not Gaussian,
        else by prediction.

        ``by`` names the column of a frame that says whose row it is: all series are fitted by one model, or with ``each=True``
        each by its own; the result is then a frame with a row for each series, as ``optfilter fit --each`` writes it.

        >>> import optfilter
        >>> model = optfilter.Model.from_toml('system = "local-level"')
        >>> data = optfilter.simulate(model, 500, seed=1)
        >>> found = model.fit(data.observations)
        >>> sorted(found.params)
        ['measurement_noise.y', 'process_noise.level']
        >>> abs(found.params["measurement_noise.y"] - 1.0) < 3 * found.std_errors["measurement_noise.y"]
        True
        >>> bool(found.model.R[0, 0] == found.params["measurement_noise.y"])
        True

        The growth of counts:

        >>> counts = optfilter.Model.from_toml('''
        ... states = ["x"]
        ... [parameters]
        ... growth = 0
        ... [dynamics]
        ... x = "x + growth"
        ... [observation.y]
        ... equation = "x"
        ... likelihood = "poisson"
        ... link = "log"
        ... [initial]
        ... mean = 0
        ... std = 1
        ... ''')
        >>> found = counts.fit([3, 4, 8, 11])
        >>> found.criterion, round(found.params["growth"], 4)
        ('window', 0.4556)
        """
        from ._fit import fit

        return fit(self, ys, ts, us, **settings)

    def column(self, name: str) -> str:
        """The column of a table that holds a measurement or an input."""
        return self._columns.get(name, name)

    def f(self, x: Any, u: Any = None, *, t: Optional[float] = None, k: int = 1) -> Array:
        """The transition: the expected state one step after ``x``; ``t`` is the time it ends at."""
        return self._core.evaluate("f", x, u, self._step(t, k), False)

    def h(self, x: Any, u: Any = None, *, t: Optional[float] = None, k: int = 1) -> Array:
        """The observation: the expected measurement at ``x``."""
        return self._core.evaluate("h", x, u, self._step(t, k), False)

    def f_jacobian(self, x: Any, u: Any = None, *, t: Optional[float] = None, k: int = 1) -> Array:
        """The Jacobian (n, n) of the transition."""
        return self._core.evaluate("f", x, u, self._step(t, k), True)

    def h_jacobian(self, x: Any, u: Any = None, *, t: Optional[float] = None, k: int = 1) -> Array:
        """The Jacobian (m, n) of the observation."""
        return self._core.evaluate("h", x, u, self._step(t, k), True)

    def _step(self, t: Optional[float], k: int) -> tuple[int, float, float]:
        k = whole("k", k)
        return (k, k * self.dt if t is None else float(t), self.dt)

    @property
    def is_linear(self) -> bool:
        """Whether the equations are known to be linear in the state."""
        return self._core.is_linear

    def __repr__(self) -> str:
        label = "" if self.name == type(self).__name__ else f"{self.name!r}, "
        inputs = f", inputs={self.inputs}" if self.inputs else ""
        return f"{type(self).__name__}({label}n={self.n}, m={self.m}{inputs}, dt={self.dt:g})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self._settings())

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        mine, theirs = self._settings(), other._settings()
        return all(
            _same(mine[key], theirs.get(key))
            or (key in self._compact and _same(getattr(self, key), getattr(other, key)))
            for key in mine
        )

    __hash__ = None  # type: ignore[assignment]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return np.array_equal(a, b)
    if isinstance(a, tuple) and isinstance(b, tuple) and len(a) == len(b):
        return all(map(_same, a, b))
    return bool(a == b)


def _rebuild(kind: Callable[..., Any], settings: dict[str, Any]) -> Any:
    return kind(**settings)


def _quote(text: str) -> str:
    return '"' + str(text).replace("\\", "\\\\").replace('"', '\\"') + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _quote(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_quote(k)} = {_value(v)}" for k, v in value.items()) + " }"
    return repr(float(value))


class TextModel(Model):
    """A model of expressions; see :meth:`Model.from_toml` and :meth:`Model.from_expressions`."""

    text: str

    def __init__(self, text: str, label: str = "model", **changes: Any) -> None:
        core, about = _core.CoreModel.text(label, text)
        self.text = text
        self._recipe = dict(text=text, label=label)
        R = about.get("R")
        bounds = about.get("bounds")
        settings = {
            "dt": about["dt"],
            "Q": about.get("Q"),
            "R": R,
            "Q_per_time": about.get("Q_per_time", False),
            "x0": about["x0"],
            "P0": about["P0"],
            "diffuse": about["diffuse"],
            "likelihood": likelihoods.from_file(about["likelihoods"]),
            "bounds": None if bounds is None else tuple(zip(*bounds)),
            "name": about["name"],
        }
        unknown = set(changes) - set(settings)
        if unknown:
            known = ", ".join(settings)
            raise ValueError(f"{', '.join(sorted(unknown))}: not a setting of a model; there are {known}")
        if "P0" in changes:  # it is meant
            settings["diffuse"] = ()
        settings.update(changes)
        self.filter_settings = json.loads(about["filter"])
        self._columns = dict(about["columns"])
        self.time_column: Optional[str] = about["time_column"]
        self.seconds_per_unit: float = about["seconds_per_unit"]
        self.time_pattern: Optional[str] = about["time_pattern"]
        self.time_epoch: Optional[float] = about["time_epoch"]
        #: What holds of inputs between the rows that state them; None where rows state all of them.
        self.input_rules: Any = about["input_rules"]
        names = (about["states"], about["observations"], about["inputs"])
        self._finish(core, **settings, names=names, parameters=about["parameters"])
        self.state_angles = tuple(about["state_angles"])
        self.state_turns = tuple(about["state_turns"])
