"""The process that evaluates CEL: what it answers, and that it can be stopped."""

import threading
from collections.abc import Iterator

import pytest

from kproxy.page.filtering.worker import ERROR, FALSE, OTHER, TRUE, Question, Worker, Workers
from kproxy.page.work import Cancelled, Work


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    found = Worker()
    yield found
    found.close()


def test_rows(worker: Worker) -> None:
    columns = [[5, 1, None, 5], ["a", "a", "a", None]]
    asked = Question('x > 2 && y == "a"', ["x", "y"], ["", ""], columns, 4)
    assert list(worker.ask(asked, Work())) == [TRUE, FALSE, ERROR, FALSE]
    assert list(worker.ask(Question("x", ["x"], [""], [[5, True]], 2), Work())) == [OTHER, TRUE]


def test_values_are_made_as_the_decoded_log_has_them(worker: Worker) -> None:
    at = Question('t == "2025-11-21T09:36:37.151234Z"', ["t"], ["time"], [[1_763_717_797_151_234_000, None]], 2)
    assert list(worker.ask(at, Work())) == [TRUE, FALSE]
    errors = Question('e.exists(x, x.name == "NOT_COORDINATOR")', ["e"], ["errors"], [[[16], [3], None]], 3)
    assert list(worker.ask(errors, Work())) == [TRUE, FALSE, FALSE]
    trailing = Question("t != null && t.response == 3", ["t"], ["trailing"], [[[None, 3], [None, None], [3, None]]], 3)
    assert list(worker.ask(trailing, Work())) == [TRUE, FALSE, ERROR]


def test_lines(worker: Worker) -> None:
    lines = [b'{"request":{"a":[1,2]},"x":1}', b'{"request":null}', b"{}"]
    asked = Question("request.a.exists(i, i == 2)", ["request"], lines=lines)
    assert list(worker.ask(asked, Work())) == [TRUE, ERROR, ERROR]


def test_a_condition_that_never_ends_is_stopped_and_the_next_one_answered(worker: Worker) -> None:
    digits = "[0,1,2,3,4,5,6,7,8,9]"
    hostile = "true"
    for depth in range(12):
        hostile = f"{digits}.all(i{depth}, {hostile})"
    with pytest.raises(Cancelled, match="seconds"):
        worker.ask(Question(hostile, [], count=1), Work(0.2))
    assert list(worker.ask(Question("true", [], count=1), Work())) == [TRUE]


def test_to_start_it_waits_for_no_question() -> None:
    """Each answer with rows starts it: a selection for an export takes minutes, and would hold a thread for each of them."""
    worker = Worker()
    with worker._lock:  # as while it is asked
        starting = threading.Thread(target=worker.start, daemon=True)
        starting.start()
        starting.join(60)
        assert not starting.is_alive()


def test_several_processes_answer_in_the_order_of_the_questions() -> None:
    workers = Workers(2)
    try:
        questions = [Question("x > 5", ["x"], [""], [[n, 9]], 2) for n in range(9)]
        made: list[int] = []
        counted = (made.append(at) or question for at, question in enumerate(questions))
        for at, answer in enumerate(workers.ask_all(counted, Work())):
            assert list(answer) == [TRUE if at > 5 else FALSE, TRUE]
            assert len(made) <= at + 3, "few are made before they are asked"
        assert made == list(range(9))
        assert list(workers.ask_all([], Work())) == []
    finally:
        workers.close()
