"""Budgets of failed logins: who guesses is stopped, and nobody is locked out by another."""

from collections.abc import Callable

import pytest

from kproxy.authentication.budgets import GIVEN_BACK_S, Budgets
from kproxy.authentication.mechanisms import LoginFailed
from kproxy.filters.bounded_set import BoundedSet
from kproxy.proxy.shared_state import SharedCounts

OF_ADDRESS, OF_USER = 50, 100


def budgets(clock: Callable[[], float], shared: SharedCounts) -> Budgets:
    return Budgets(OF_ADDRESS, OF_USER, clock, shared.times("logins"), BoundedSet())


def is_admitted(admit: Callable[..., None], *words: str) -> bool:
    try:
        admit(*words)
    except LoginFailed:
        return False
    return True


def test_an_address_that_guesses_is_stopped_and_gets_failures_back() -> None:
    now = [0.0]
    shared = SharedCounts.create()
    made = budgets(lambda: now[0], shared)
    for number in range(OF_ADDRESS):
        assert is_admitted(made.admit_address, "evil")
        made.note_failure("evil", LoginFailed("wrong", user=f"user-{number}"))
    assert not is_admitted(made.admit_address, "evil") and is_admitted(made.admit_address, "good")
    with pytest.raises(LoginFailed) as refused:
        made.admit_address("evil")
    for _ in range(1_000):
        made.note_failure("evil", refused.value)  # these do not count
    now[0] = GIVEN_BACK_S
    assert is_admitted(made.admit_address, "evil")
    made.note_failure("evil", LoginFailed("wrong"))
    assert not is_admitted(made.admit_address, "evil")
    now[0] = 1e6
    for _ in range(OF_ADDRESS):  # and no more than at first
        made.note_failure("evil", LoginFailed("wrong"))
    assert not is_admitted(made.admit_address, "evil")


def test_a_user_whose_password_many_guess_still_comes_in_from_where_it_did() -> None:
    shared = SharedCounts.create()
    made = budgets(lambda: 0.0, shared)
    made.note_success("office", "alice")
    for number in range(OF_USER):
        assert is_admitted(made.admit_user, f"bot-{number}", "alice")
        made.note_failure(f"bot-{number}", LoginFailed("wrong", user="alice"))
    assert not is_admitted(made.admit_user, "bot-1000", "alice")
    assert is_admitted(made.admit_user, "office", "alice") and is_admitted(made.admit_user, "bot-1000", "bob")


def test_workers_share_them_and_so_does_a_worker_that_starts_later() -> None:
    counts = SharedCounts.create()
    one, other = (budgets(lambda: 7.0, SharedCounts(counts.fd)) for _ in range(2))
    for number in range(OF_ADDRESS):
        assert is_admitted(other.admit_address, "evil")
        (one, other)[number % 2].note_failure("evil", LoginFailed("wrong"))
    for worker in (one, other, budgets(lambda: 7.0, SharedCounts(counts.fd))):
        assert not is_admitted(worker.admit_address, "evil") and is_admitted(worker.admit_address, "good")
