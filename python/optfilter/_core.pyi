"""The extension module. Users import `optfilter`."""

from typing import Any, Callable, Optional, final

import numpy as np
from numpy.typing import NDArray
from typing_extensions import disjoint_base

FLAGS: list[str]
_Array = NDArray[np.float64]
_Step = tuple[int, float, float]

__all__ = [
    "FLAGS",
    "CoreFilter",
    "CoreFollower",
    "CorePage",
    "InputRules",
    "CoreModel",
    "__version__",
    "built_in_systems",
    "check_likelihood",
    "check_spec",
    "chi_square_band",
    "fit_spec",
    "fit_text",
    "implied_prior",
    "largest_learning_rate",
    "learning_rate_matrix",
    "methods",
    "paper_systems",
    "parse_times",
    "reproduce_systems",
    "reproduce_yearbook",
    "settings",
    "simulate",
]

__version__: str

@final
class CoreModel:
    @staticmethod
    def growth() -> CoreModel: ...
    @staticmethod
    def lorenz63(sigma: float, rho: float, beta: float, method: str, substeps: int) -> CoreModel: ...
    @staticmethod
    def lorenz96(n: int, forcing: float, method: str, substeps: int) -> CoreModel: ...
    @staticmethod
    def random_walk(n: int) -> CoreModel: ...
    @staticmethod
    def linear(f: Any, h: Any, b: Any = None, dt: Optional[float] = None) -> CoreModel: ...
    @staticmethod
    def text(name: str, text: str) -> tuple[CoreModel, dict[str, Any]]: ...
    @staticmethod
    def callable(
        states: int,
        outputs: int,
        inputs: int,
        f: tuple[Any, list[str]],
        f_jacobian: Optional[tuple[Any, list[str]]],
        f_vjp: Optional[tuple[Any, list[str]]],
        f_jvp: Optional[tuple[Any, list[str]]],
        h: tuple[Any, list[str]],
        h_jacobian: Optional[tuple[Any, list[str]]],
        h_vjp: Optional[tuple[Any, list[str]]],
        h_jvp: Optional[tuple[Any, list[str]]],
        state_angles: list[bool],
        angles: list[bool],
        vectorized: bool,
    ) -> CoreModel: ...
    @property
    def dims(self) -> tuple[int, int, int]: ...
    @property
    def is_linear(self) -> bool: ...
    def evaluate(self, which: str, x: Any, u: Any, time: _Step, jacobian: bool) -> _Array: ...

@final
class InputRules:
    @property
    def waits(self) -> Optional[str]: ...
    def acting(self, ys: Any, ts: Any, us: Any, last: Any) -> tuple[_Array, _Array]: ...

@disjoint_base
class CoreFilter:
    def __new__(cls, model: CoreModel, spec: str, problem: dict[str, Any], rule: Any = None) -> Any: ...
    def predict(self, u: Any = None, dt: Optional[float] = None) -> None: ...
    def update(self, y: Any = None, u: Any = None, r: Any = None) -> None: ...
    @property
    def x(self) -> _Array: ...
    @property
    def P(self) -> Optional[_Array]: ...
    def set_belief(self, x: Any, p: Any) -> None: ...
    def set_noise(self, q: Any, r: Any) -> None: ...
    @property
    def prior(self) -> Optional[tuple[_Array, Optional[_Array]]]: ...
    @property
    def z(self) -> Optional[_Array]: ...
    @property
    def lagged(self) -> Optional[_Array]: ...
    @property
    def flags(self) -> str: ...
    @property
    def form(self) -> Optional[str]: ...
    @property
    def predicts_first(self) -> bool: ...
    def reset(self) -> None: ...
    @property
    def clock(self) -> tuple[int, float]: ...
    @property
    def innovation(self) -> Optional[_Array]: ...
    @property
    def S(self) -> Optional[_Array]: ...
    @property
    def log_likelihood(self) -> Optional[float]: ...
    @property
    def nis(self) -> Optional[float]: ...
    def particle_arrays(self) -> Optional[tuple[_Array, _Array]]: ...
    def save(self) -> tuple[bytes, tuple[int, float, float, bool, bool]]: ...
    def load(self, saved: tuple[bytes, tuple[int, float, float, bool, bool]]) -> None: ...
    def take(
        self,
        saved: Optional[bytes],
        ys: Any,
        ts: Any = None,
        calendar: bool = False,
        us: Any = None,
    ) -> tuple[dict[str, Any], bytes, int]: ...
    def run(
        self,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        x0: Any = None,
        p0: Any = None,
        t0: Optional[float] = None,
        lenient: bool = False,
        first_run: int = 0,
        predict_first: bool = False,
        covariances: bool = True,
        only: Optional[list[str]] = None,
    ) -> tuple[dict[str, Any], list[Any]]: ...
    def horizon_arrays(
        self,
        rows: int,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        x0: Any = None,
        p0: Any = None,
        t0: Optional[float] = None,
        first_run: int = 0,
        predict_first: bool = False,
    ) -> dict[str, Any]: ...
    def smooth_arrays(
        self,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        x0: Any = None,
        p0: Any = None,
        t0: Optional[float] = None,
        first_run: int = 0,
        predict_first: bool = False,
    ) -> dict[str, Any]: ...
    def forecast_arrays(
        self,
        rows: int,
        dt: float,
        us_ahead: Any,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        x0: Any = None,
        p0: Any = None,
        t0: Optional[float] = None,
        predict_first: bool = False,
    ) -> dict[str, Any]: ...
    def innovations_of(
        self,
        means: Any,
        ys: Any,
        ts: Any = None,
        us: Any = None,
        x0: Any = None,
        t0: Optional[float] = None,
        predict_first: bool = False,
    ) -> _Array: ...

@final
class CoreFollower:
    def __new__(
        cls,
        network: str,
        shape: list[int],
        classes: int,
        numbers: int,
        spec: Optional[str],
        scale: bool,
        seed: int,
    ) -> CoreFollower: ...
    def outputs(self, x: Any) -> _Array: ...
    def learn(self, x: Any, classes: Optional[NDArray[np.uint32]] = None, values: Any = None) -> None: ...
    def skip(self) -> None: ...
    def settle(
        self, x: Any, classes: Optional[NDArray[np.uint32]], values: Any, most: int, tolerance: float
    ) -> None: ...
    def follow(
        self,
        x: Any,
        classes: Optional[NDArray[np.uint32]],
        values: Any,
        ends: list[int],
        tell: Optional[Callable[[int], object]],
    ) -> dict[str, Any]: ...
    def grow(self, classes: int) -> None: ...
    @property
    def shares(self) -> list[tuple[str, float]]: ...
    @property
    def updates(self) -> int: ...
    @property
    def parameters(self) -> list[tuple[str, list[int], int]]: ...
    @property
    def weights(self) -> NDArray[np.float32]: ...
    def set_weights(self, weights: NDArray[np.float32], updates: int = 0) -> None: ...
    @property
    def scaling(self) -> tuple[list[tuple[float, float]], list[tuple[float, float]]]: ...
    def set_scaling(
        self, features: list[tuple[float, float]], labels: list[tuple[float, float]], samples: float
    ) -> None: ...
    def to_safetensors(self, about: Optional[str] = None) -> bytes: ...
    def read_safetensors(self, bytes: bytes) -> None: ...
    def save(self) -> bytes: ...
    def load(self, bytes: bytes) -> None: ...

def built_in_systems() -> list[tuple[str, str]]: ...
def check_spec(text: str) -> str: ...
def settings() -> str: ...
def fit_text(
    name: str,
    text: str,
    changes: dict[str, Any],
    series: list[tuple[_Array, Optional[_Array], Optional[_Array]]],
    free: list[str],
    method: Optional[str],
    starts: int,
    seed: int,
    criterion: Optional[str],
    window: Optional[int],
    max_rows: Optional[int],
) -> dict[str, Any]: ...
def fit_spec(model: CoreModel, text: str, problem: dict[str, Any]) -> str: ...
def methods() -> list[str]: ...
def parse_times(texts: list[str], pattern: Optional[str] = None) -> list[float]: ...
def check_likelihood(spec: tuple[Any, ...]) -> None: ...
def simulate(
    model: CoreModel,
    problem: dict[str, Any],
    us: Any,
    predict_first: bool,
    steps: int,
    count: int,
    seed: int,
    first_run: int,
) -> tuple[_Array, _Array]: ...

@final
class CorePage:
    def __new__(cls, given: Optional[tuple[str, str, Optional[str], bytes]], port: int) -> CorePage: ...
    def address(self) -> Optional[str]: ...
    def close(self) -> None: ...

def implied_prior(rate: Any, h: Any, r: Any, steps: int) -> _Array: ...
def learning_rate_matrix(prior_cov: Any, h: Any, r: Any, steps: int) -> _Array: ...
def largest_learning_rate(h: Any, r: Any) -> float: ...
def chi_square_band(dof: int, count: int) -> tuple[float, float]: ...
def paper_systems() -> list[tuple[str, str, str, float, float]]: ...
def reproduce_systems(
    indices: list[int],
    specified: bool,
    runs: int,
    seed: int,
    particles: bool,
    tell: Optional[Callable[[float], object]],
) -> list[tuple[list[dict[str, Any]], list[dict[str, Any]]]]: ...
def reproduce_yearbook(
    protocols: list[str],
    size: str,
    data: Optional[str],
    seeds: Optional[int],
    out: str,
    tell: Optional[Callable[[float], object]],
) -> tuple[list[dict[str, Any]], tuple[str, int, bool]]: ...
