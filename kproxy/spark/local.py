"""The cores of this machine in place of Spark: as much of a SparkContext as ingest and report need, without a JVM.

    ingest(LocalContext(), inputs, output)

Its tasks are those of Spark, in processes that are forked for each ``collect``, as those of kproxy.cli.jobs. The parent has no
threads but those of Arrow, which forks do not harm. Nothing is shuffled or persisted. A task whose process is killed, as the
system does without memory, is tried again once, while no other one runs.
"""

import os
import signal
import traceback
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain, pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

if TYPE_CHECKING:
    from pyspark import SparkContext

    Context: TypeAlias = "SparkContext | LocalContext"

Step = Callable[[int, Iterator[Any]], Iterable[Any]]
KILLED = "its process was killed twice, perhaps by the system for lack of memory"


class TasksKilled(Exception):
    """Raised if processes of tasks were killed twice.

    done: what the other tasks gave. lost: what those tasks were given.
    """

    def __init__(self, done: list[Any], lost: list[Any]) -> None:
        super().__init__(KILLED)
        self.done = done
        self.lost = lost


class Value(Struct):
    """What all tasks get."""

    value: Any


class LocalContext:
    """See above. *processes*: how many; None: as many as there are cores for this process."""

    master = "local"

    def __init__(self, processes: int | None = None) -> None:
        self.defaultParallelism = processes or len(os.sched_getaffinity(0))

    def broadcast(self, value: Any) -> Value:
        return Value(value)

    def parallelize(self, values: Iterable[Any], slices: int) -> "LocalRDD":
        given, count = list(values), max(1, slices)
        bounds = [len(given) * at // count for at in range(count + 1)]
        return LocalRDD(self.defaultParallelism, [given[first:last] for first, last in pairwise(bounds)])


def spark_of(context: "Context") -> "SparkContext":
    """The context of Spark, where only that will do."""
    assert not isinstance(context, LocalContext)
    return context


class LocalRDD:
    """As a SparkContext's RDD; each of *parts* is a task. *processes*: how many tasks run at a time."""

    def __init__(self, processes: int, parts: Sequence[list[Any]], steps: tuple[Step, ...] = ()) -> None:
        self._processes = processes
        self._parts = parts
        self._steps = steps

    def mapPartitionsWithIndex(self, step: Step) -> "LocalRDD":
        return LocalRDD(self._processes, self._parts, (*self._steps, step))

    def map(self, change: Callable[[Any], Any]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_map, change))

    def flatMap(self, change: Callable[[Any], Iterable[Any]]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_flat_map, change))

    def filter(self, wanted: Callable[[Any], bool]) -> "LocalRDD":
        return self.mapPartitionsWithIndex(partial(_filter, wanted))

    def collect(self) -> list[Any]:
        """Run the tasks. Raises TasksKilled, and what a task raised."""
        done: dict[int, list[Any]] = {}
        for processes in (self._processes, 1):
            self._run_tasks([number for number in range(len(self._parts)) if number not in done], processes, done)
        results = [item for number in sorted(done) for item in done[number]]
        if lost := [part for number, part in enumerate(self._parts) if number not in done]:
            raise TasksKilled(results, list(chain.from_iterable(lost)))
        return results

    def _run_tasks(self, numbers: Iterable[int], most: int, done: dict[int, list[Any]]) -> None:
        """Run tasks in at most so many processes, and add to *done* what those give whose processes are not killed."""
        left, working = deque(numbers), dict[Any, _Worker]()
        try:
            while left or working:
                while left and len(working) < most:
                    worker = _Worker(self._steps, self._parts, list(working))
                    working[worker.pipe] = worker
                    worker.start(left.popleft())
                for pipe in wait(list(working)):
                    worker = working[pipe]
                    result = worker.result()
                    if result is not None:
                        done[worker.number] = result
                    if result is not None and left:
                        worker.start(left.popleft())
                    else:
                        working.pop(pipe).end()
        finally:
            for worker in working.values():
                worker.end()


class _Worker:
    """A process for one task after the other, in the parent. *others*: pipes of other processes."""

    def __init__(self, steps: tuple[Step, ...], parts: Sequence[list[Any]], others: list[Connection]) -> None:
        context = get_context("fork")
        self.number = 0  # of its task
        self.pipe, theirs = context.Pipe()
        self._process = context.Process(target=_serve, args=(steps, parts, theirs, [*others, self.pipe]), daemon=True)
        self._process.start()
        theirs.close()

    def start(self, number: int) -> None:
        self.number = number
        with suppress(OSError):  # it was killed, as result() will find
            self.pipe.send(number)

    def result(self) -> list[Any] | None:
        """Return what the task gives, or None if its process was killed; raise what it raised."""
        try:
            result, error = self.pipe.recv()
        except (EOFError, OSError):
            return None
        if error is not None:
            raise error
        return list(result)

    def end(self) -> None:
        self.pipe.close()
        self._process.kill()
        self._process.join()
        self._process.close()


# In a process


def _serve(steps: tuple[Step, ...], parts: Sequence[list[Any]], pipe: Connection, others: list[Connection]) -> None:
    """Run tasks until the parent closes its end of the pipe, or is killed; the copies here of the parent's ends are closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent is interrupted, too, and ends this process
    for each in others:
        each.close()
    with suppress(EOFError, OSError):  # of the pipe
        while True:
            number = pipe.recv()
            try:
                answer: tuple[list[Any], Exception | None] = _run(steps, number, parts[number]), None
            except Exception as error:
                error.add_note(traceback.format_exc())
                answer = [], error
            pipe.send(answer)


def _run(steps: tuple[Step, ...], number: int, part: list[Any]) -> list[Any]:
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
