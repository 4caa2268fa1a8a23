"""The cores of this machine in place of Spark: as much of a SparkContext as ingest needs, without a JVM.

    with LocalContext() as context:
        ingest(context, inputs, output)

Its tasks are those of Spark, in forked processes. Nothing is shuffled, persisted or tried again.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import chain, pairwise
from multiprocessing import get_context
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from pyspark import SparkContext

    Context: TypeAlias = "SparkContext | LocalContext"

Step = Callable[[int, Iterator[Any]], Iterable[Any]]


class Value(Struct):
    """What all tasks get."""

    value: Any


class LocalContext:
    """See above. *processes*: how many; None: as many as there are cores for this process."""

    master = "local"

    def __init__(self, processes: int | None = None) -> None:
        self.defaultParallelism = processes or len(os.sched_getaffinity(0))
        self._pool = ProcessPoolExecutor(self.defaultParallelism, mp_context=get_context("fork"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)

    def broadcast(self, value: Any) -> Value:
        return Value(value)

    def parallelize(self, values: Iterable[Any], slices: int) -> "LocalRDD":
        given, count = list(values), max(1, slices)
        bounds = [len(given) * at // count for at in range(count + 1)]
        return LocalRDD(self._pool, [given[first:last] for first, last in pairwise(bounds)])


def spark_of(context: "Context") -> "SparkContext":
    """The context of Spark, where only that will do."""
    assert not isinstance(context, LocalContext)
    return context


class LocalRDD:
    """As a SparkContext's RDD; each of *parts* is a task."""

    def __init__(self, pool: ProcessPoolExecutor, parts: Sequence[list[Any]], steps: tuple[Step, ...] = ()) -> None:
        self._pool = pool
        self._parts = parts
        self._steps = steps

    def mapPartitionsWithIndex(self, step: Step) -> "LocalRDD":
        return LocalRDD(self._pool, self._parts, (*self._steps, step))

    def map(self, change: Callable[[Any], Any]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_map, change))

    def flatMap(self, change: Callable[[Any], Iterable[Any]]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_flat_map, change))

    def filter(self, wanted: Callable[[Any], bool]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_filter, wanted))

    def collect(self) -> list[Any]:
        return list(
            chain.from_iterable(self._pool.map(partial(_run, self._steps), range(len(self._parts)), self._parts))
        )


def _run(steps: tuple[Step, ...], number: int, part: list[Any]) -> list[Any]:
    """Run as a task."""
    items: Iterator[Any] = iter(part)
    for step in steps:
        items = iter(step(number, items))
    return list(items)


def _map(change: Callable[[Any], Any], _: int, items: Iterator[Any]) -> Iterator[Any]:
    return map(change, items)


def _flat_map(change: Callable[[Any], Iterable[Any]], _: int, items: Iterator[Any]) -> Iterator[Any]:
    return chain.from_iterable(map(change, items))


def _filter(wanted: Callable[[Any], bool], _: int, items: Iterator[Any]) -> Iterator[Any]:
    return filter(wanted, items)
