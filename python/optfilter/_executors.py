"""Work on other processes and machines.

A shard is a plain function and its arguments. It carries its data and the names of its random streams, so
where and how often it runs does not change its result; a shard whose worker is lost is simply run again.
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Iterator, Sequence
from typing import Any, Callable, Optional

from ._progress import Progress

Shard = Callable[[Any], Any]


def run_shards(
    function: Shard,
    shards: Sequence[Any],
    executor: Any = None,
    progress: Optional[bool] = None,
    text: str = "",
) -> list[Any]:
    """``[function(shard) for shard in shards]`` on an executor, in the order of the shards.

    ``executor`` is None (here), any ``concurrent.futures.Executor``, a ``dask.distributed.Client``, or the
    module ``ray`` after ``ray.init()``.
    """
    results: list[Any] = [None] * len(shards)
    with Progress(len(shards), text, progress) as bar:
        for index, result in _results(function, shards, executor):
            results[index] = result
            bar.advance()
    return results


def _results(function: Shard, shards: Sequence[Any], executor: Any) -> Iterator[tuple[int, Any]]:
    if executor is None:
        for index, shard in enumerate(shards):
            yield index, function(shard)
    elif isinstance(executor, concurrent.futures.Executor):
        yield from _futures(function, shards, executor)
    elif type(executor).__module__.split(".")[0] == "distributed":
        yield from _dask(function, shards, executor)
    elif getattr(executor, "__name__", "") == "ray" or executor == "ray":
        yield from _ray(function, shards)
    else:
        raise ValueError(
            "executor: must be a concurrent.futures.Executor, a dask.distributed.Client or the module "
            f"ray, not {executor!r}"
        )


def _futures(
    function: Shard, shards: Sequence[Any], executor: concurrent.futures.Executor
) -> Iterator[tuple[int, Any]]:
    waiting: dict[concurrent.futures.Future[Any], int] = {}
    lost: list[int] = []
    try:
        for index, shard in enumerate(shards):
            try:
                waiting[executor.submit(function, shard)] = index
            except RuntimeError:  # the pool broke, or was shut down, while shards were still coming
                lost.append(index)
        for future in concurrent.futures.as_completed(waiting):
            try:
                yield waiting[future], future.result()
            except (concurrent.futures.BrokenExecutor, concurrent.futures.CancelledError):
                lost.append(waiting[future])
    except BaseException:  # a shard failed, or Ctrl-C: what has not begun need not begin
        for future in waiting:
            future.cancel()
        raise
    # A broken pool takes no more work; what it lost is done here.
    for index in lost:
        yield index, function(shards[index])


def _dask(function: Shard, shards: Sequence[Any], client: Any) -> Iterator[tuple[int, Any]]:
    from distributed import as_completed
    from distributed.scheduler import KilledWorker

    # The scheduler itself runs the tasks of a lost worker again, elsewhere.
    futures = [client.submit(function, shard, pure=False) for shard in shards]
    indices = {future.key: index for index, future in enumerate(futures)}
    try:
        for future in as_completed(futures):
            index = indices[future.key]
            try:
                yield index, future.result()
            except (KilledWorker, concurrent.futures.CancelledError):
                yield index, function(shards[index])
    except BaseException:
        client.cancel(futures)
        raise


def _ray(function: Shard, shards: Sequence[Any]) -> Iterator[tuple[int, Any]]:
    import ray

    if not ray.is_initialized():
        raise ValueError("executor: call ray.init() first")
    remote = ray.remote(function).options(max_retries=3)
    waiting = {remote.remote(shard): index for index, shard in enumerate(shards)}
    try:
        while waiting:
            done, _ = ray.wait(list(waiting), num_returns=1)
            for reference in done:
                index = waiting.pop(reference)
                try:
                    yield index, ray.get(reference)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError):
                    yield index, function(shards[index])
    except BaseException:
        for reference in waiting:
            ray.cancel(reference)
        raise
