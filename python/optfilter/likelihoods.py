"""How a measurement scatters about its prediction: what implicit and particle filters read.

>>> from optfilter.likelihoods import StudentT
>>> StudentT(dof=4.0, scale=0.5)
StudentT(dof=4.0, scale=0.5)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Union

import numpy as np

from . import _core
from ._arrays import compact

__all__ = [
    "Bernoulli",
    "Gaussian",
    "Huber",
    "Independent",
    "Likelihood",
    "LogProb",
    "Poisson",
    "SquaredError",
    "StudentT",
]


class Likelihood:
    """Base of all likelihoods."""

    def _spec(self, m: int) -> tuple[Any, ...]:
        raise NotImplementedError

    def _check(self) -> None:
        _core.check_likelihood(self._spec(1))


@dataclass(frozen=True)
class SquaredError(Likelihood):
    """Half the squared distance: a Gaussian with R = I, the paper's choice."""

    def _spec(self, m: int) -> tuple[Any, ...]:
        return ("squared",)


class Gaussian(Likelihood):
    """A Gaussian with covariance R: a matrix, a vector of variances or one variance."""

    def __init__(self, R: Any) -> None:
        self.R: Any = R if np.ndim(R) == 0 else np.array(R, dtype=float)

    def _spec(self, m: int) -> tuple[Any, ...]:
        return ("gaussian", compact("R", self.R, m))

    def __repr__(self) -> str:
        return f"Gaussian(R={np.asarray(self.R).tolist()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Gaussian) and np.array_equal(self.R, other.R)

    __hash__ = None  # type: ignore[assignment]


class _Component(Likelihood):
    def _part(self) -> tuple[str, float, float, bool]:
        raise NotImplementedError

    def _spec(self, m: int) -> tuple[Any, ...]:
        return ("independent", [self._part()] * m)

    def __post_init__(self) -> None:
        self._check()


@dataclass(frozen=True)
class StudentT(_Component):
    """Student's t: like a Gaussian near the centre, with tails that forgive outliers."""

    dof: float
    scale: float

    def _part(self) -> tuple[str, float, float, bool]:
        return ("student_t", float(self.dof), float(self.scale), False)


@dataclass(frozen=True)
class Huber(_Component):
    """Quadratic within ``delta`` scales of the centre, linear beyond."""

    delta: float = 1.345
    scale: float = 1.0

    def _part(self) -> tuple[str, float, float, bool]:
        return ("huber", float(self.delta), float(self.scale), False)


@dataclass(frozen=True)
class Poisson(_Component):
    """Counts; h(x) is the rate (``link="identity"``) or its logarithm (``"log"``)."""

    link: str = "identity"

    def _part(self) -> tuple[str, float, float, bool]:
        if self.link not in ("identity", "log"):
            raise ValueError(f"link: must be 'identity' or 'log', not {self.link!r}")
        return ("poisson", 0.0, 1.0, self.link == "log")


@dataclass(frozen=True)
class Bernoulli(_Component):
    """Zeros and ones; h(x) is the probability of a one (``link="identity"``) or its logit."""

    link: str = "identity"

    def _part(self) -> tuple[str, float, float, bool]:
        if self.link not in ("identity", "logit"):
            raise ValueError(f"link: must be 'identity' or 'logit', not {self.link!r}")
        return ("bernoulli", 0.0, 1.0, self.link == "logit")


@dataclass(frozen=True)
class _Normal(_Component):
    std: float

    def _part(self) -> tuple[str, float, float, bool]:
        return ("gaussian", 0.0, float(self.std), False)


class Independent(Likelihood):
    """A likelihood of its own kind for each component of the measurement."""

    def __init__(self, *components: Likelihood) -> None:
        for part in components:
            if not isinstance(part, _Component):
                raise ValueError(
                    "components: must be StudentT, Huber, Poisson or Bernoulli, or a standard "
                    f"deviation via Independent.normal, not {part!r}"
                )
        self.components: tuple[Likelihood, ...] = components

    @staticmethod
    def normal(std: float) -> Likelihood:
        """A Gaussian component with the given standard deviation."""
        return _Normal(std)

    def _spec(self, m: int) -> tuple[Any, ...]:
        if len(self.components) != m:
            raise ValueError(
                f"likelihood: has {len(self.components)} components; the model measures {m}"
            )
        return ("independent", [c._part() for c in self.components])  # type: ignore[attr-defined]

    def __repr__(self) -> str:
        return f"Independent({', '.join(map(repr, self.components))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Independent) and self.components == other.components

    def __hash__(self) -> int:
        return hash(self.components)


class LogProb(Likelihood):
    """Any density, by its logarithm: a function ``log_prob(y, eta)`` of a measurement ``(m,)`` and of eta = h(x) ``(m,)``.

    Implicit filters descend it, particle filters weigh by it. Components of ``y`` that are missing are NaN; a row without
    any measurement is not asked for.

    Parameters
    ----------
    log_prob : callable
        The logarithm of the density of ``y`` given eta, a number.
    gradient : callable or "jax", optional
        Its derivative by eta, ``(m,)``. ``"jax"`` has JAX differentiate a ``log_prob`` that is written in ``jax.numpy``. Without
        one, implicit filters take differences, and say so.
    vectorized : bool
        Whether both functions take many etas at once, ``(N, m)``, and give ``(N,)`` and ``(N, m)``: a particle filter then
        calls once for all its particles.

    Examples
    --------
    Stochastic volatility: the state is the logarithm of a variance, and what is measured has that variance.

    >>> import numpy as np, optfilter
    >>> from optfilter.likelihoods import LogProb
    >>> def log_prob(y, h):
    ...     return -0.5 * (np.log(2 * np.pi) + h[:, 0] + y[0] ** 2 * np.exp(-h[:, 0]))
    >>> model = optfilter.models.Linear([[0.95]], [[1.0]], Q=0.05, likelihood=LogProb(log_prob, vectorized=True))
    >>> result = optfilter.ParticleFilter(model, 2000, seed=1).filter([0.1, -0.3, 2.5, -3.0, 2.0])
    >>> bool(result.means[-1, 0] > result.means[1, 0])
    True
    """

    def __init__(self, log_prob: Any, gradient: Any = None, *, vectorized: bool = False) -> None:
        if not callable(log_prob):
            raise ValueError(f"log_prob: must be a function of (y, eta), not {log_prob!r}")
        if not (gradient is None or gradient == "jax" or callable(gradient)):
            raise ValueError(f'gradient: must be a function of (y, eta) or "jax", not {gradient!r}')
        self.log_prob, self.gradient, self.vectorized = log_prob, gradient, bool(vectorized)

    def _spec(self, m: int) -> tuple[Any, ...]:
        gradient = _jax_gradient(self.log_prob, self.vectorized) if self.gradient == "jax" else self.gradient
        return ("log_prob", self.log_prob, gradient, self.vectorized)

    def __repr__(self) -> str:
        name = getattr(self.log_prob, "__name__", None) or repr(self.log_prob)
        return f"LogProb({name})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LogProb) and self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return (self.log_prob, self.gradient, self.vectorized)


def _jax_gradient(log_prob: Any, vectorized: bool) -> Any:
    """The gradient by eta as JAX has it."""
    try:
        import jax
    except ImportError:
        raise ImportError('gradient="jax" needs JAX: pip install jax') from None
    # The sum over etas has, by each of them, the derivative of its own term.
    total = (lambda y, eta: log_prob(y, eta).sum()) if vectorized else log_prob
    return jax.jit(jax.grad(lambda y, eta: total(y, eta).squeeze(), argnums=1))


def from_file(parts: list[tuple[str, float, float]]) -> Union[Likelihood, None]:
    """The likelihood of a model file; None where all components are Gaussian.

    Links are compiled into the file's equations, which give rates and probabilities.
    """
    if all(kind == "gaussian" for kind, _, _ in parts):
        return None
    made: list[Likelihood] = []
    for kind, shape, scale in parts:
        if kind == "student_t":
            made.append(StudentT(shape, scale))
        elif kind == "huber":
            made.append(Huber(shape, scale))
        elif kind == "poisson":
            made.append(Poisson())
        elif kind == "bernoulli":
            made.append(Bernoulli())
        else:
            made.append(_Normal(scale))
    return Independent(*made)
