"""The manners of a scikit-learn estimator, without scikit-learn: settings by name, tags, and what is not fitted yet."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Optional, TypeVar

_E = TypeVar("_E", bound="Estimator")


class _NotFitted(ValueError, AttributeError):
    """A prediction was asked for before anything was learnt."""


def not_fitted() -> Exception:
    """scikit-learn's exception where it is imported, else one that is caught alike."""
    known = sys.modules.get("sklearn.exceptions")
    kind: Any = getattr(known, "NotFittedError", _NotFitted)
    made: Exception = kind("this Follower is not fitted yet: call partial_fit, fit or follow first")
    return made


def _same(value: Any, default: Any) -> bool:
    return value is default or (type(value) is type(default) and bool(value == default))


class Estimator:
    """Settings are the arguments of ``__init__``, kept under their names; ``task`` says what is predicted."""

    task: Optional[str]

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in self._names()}

    def set_params(self: _E, **params: Any) -> _E:
        """Other settings; weights and scaling stay, what the optimizer remembers and the window begin anew."""
        for name, value in params.items():
            if name not in self._names():
                raise ValueError(f"{name}: is not a setting; there are {', '.join(self._names())}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        default = {name: p.default for name, p in inspect.signature(type(self).__init__).parameters.items()}
        changed = [f"{k}={v!r}" for k, v in self.get_params().items() if not _same(v, default[k])]
        return f"{type(self).__name__}({', '.join(changed)})"

    @property
    def _estimator_type(self) -> Optional[str]:
        return {"classification": "classifier", "regression": "regressor"}.get(self.task or "")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_engine")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        kind = self._estimator_type
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=True, multi_output=self.task == "regression"),
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(three_d_array=True),
        )
