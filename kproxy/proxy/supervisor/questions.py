"""Questions: what the supervisor asks workers, and their answers, which arrive in parts (ListConnections, ShowStop, Decide,
UseBreakpoints in messages.py).
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from kproxy.proxy.messages import Connections, StopAnswer

Part = TypeVar("Part", Connections, StopAnswer)


class Question(Generic[Part]):
    """A question to one worker. *answered* becomes True with the last part, False if the worker ends before that."""

    def __init__(self) -> None:
        self.parts: list[Part] = []
        self.answered: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    async def is_answered(self, seconds: float) -> bool:
        """Wait for the whole answer. Raises TimeoutError after so many seconds."""
        return await asyncio.wait_for(self.answered, seconds)


class Questions:
    """The questions that are being asked."""

    def __init__(self) -> None:
        self._last_number = 0
        self._open: dict[tuple[int, int], Question[Connections] | Question[StopAnswer]] = {}  # by worker and number

    @contextmanager
    def ask(self, workers: Sequence[int], part: type[Part]) -> Iterator[tuple[int, list[Question[Part]]]]:
        """Return a new number and, for each worker, its question under that number; answers count within the block."""
        self._last_number += 1
        number = self._last_number
        questions: list[Question[Part]] = [Question() for _ in workers]
        for worker, question in zip(workers, questions, strict=True):
            self._open[worker, number] = question
        try:
            yield number, questions
        finally:
            for worker in workers:
                del self._open[worker, number]

    def note(self, worker: int, part: Connections | StopAnswer) -> None:
        """Add a part to the answer of a worker."""
        question = self._open.get((worker, part.question))
        if question is not None and not question.answered.done():
            question.parts.append(part)  # type: ignore[arg-type]  # a question has answers of one kind
            if not part.more:
                question.answered.set_result(True)

    def end(self, worker: int) -> None:
        """End the questions to a worker whose process has ended."""
        for (its_worker, _), question in self._open.items():
            if its_worker == worker and not question.answered.done():
                question.answered.set_result(False)
