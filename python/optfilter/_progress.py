"""A progress bar in terminals and notebooks, if tqdm is installed."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import Any, Optional


def _wanted(progress: Optional[bool]) -> bool:
    if progress is not None:
        return progress
    if "ipykernel" in sys.modules:
        return True
    return bool(getattr(sys.stderr, "isatty", lambda: False)())


class Progress:
    """``with Progress(total, "text") as bar: bar.advance(1)``; silent where there is nobody to look."""

    def __init__(self, total: float, text: str, progress: Optional[bool] = None, unit: str = "it") -> None:
        self._bar: Any = None
        if _wanted(progress):
            try:
                from tqdm.auto import tqdm
            except ImportError:
                return
            whole = unit != "s"
            form = None if whole else "{l_bar}{bar}| {elapsed}<{remaining}"
            self._bar = tqdm(total=total, desc=text, unit=unit, bar_format=form, leave=False)

    def advance(self, amount: float = 1) -> None:
        if self._bar is not None:
            self._bar.update(amount)

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        traceback: Optional[TracebackType],
    ) -> None:
        if self._bar is not None:
            self._bar.close()
