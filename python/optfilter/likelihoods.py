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
