"""Budgets of failed logins: who guesses is stopped, and nobody is locked out by another."""

from collections.abc import Callable

import pytest

from kproxy.authentication.budgets import GIVEN_BACK_S, MOST_KEPT, Budget, Budgets
from kproxy.authentication.mechanisms import LoginFailed

OF_ADDRESS, OF_USER = 50, 100


def is_admitted(admit: Callable[..., None], *words: str) -> bool:
    try:
        admit(*words)
    except LoginFailed:
        return False
    return True


def test_an_address_that_guesses_is_stopped_and_gets_failures_back() -> None:
    now = [0.0]
    budgets = Budgets(OF_ADDRESS, OF_USER, lambda: now[0])
    for number in range(OF_ADDRESS):
        assert is_admitted(budgets.admit_address, "evil")
        budgets.note_failure("evil", LoginFailed("wrong", user=f"user-{number}"))
    assert not is_admitted(budgets.admit_address, "evil") and is_admitted(budgets.admit_address, "good")
    with pytest.raises(LoginFailed) as refused:
        budgets.admit_address("evil")
    for _ in range(1_000):
        budgets.note_failure("evil", refused.value)  # these do not count
    now[0] = GIVEN_BACK_S
    assert is_admitted(budgets.admit_address, "evil")
    budgets.note_failure("evil", LoginFailed("wrong"))
    assert not is_admitted(budgets.admit_address, "evil")
    now[0] = 1e6
    for _ in range(OF_ADDRESS):  # and no more than at first
        budgets.note_failure("evil", LoginFailed("wrong"))
    assert not is_admitted(budgets.admit_address, "evil")


def test_a_user_whose_password_many_guess_still_comes_in_from_where_it_did() -> None:
    budgets = Budgets(OF_ADDRESS, OF_USER, lambda: 0.0)
    budgets.note_success("office", "alice")
    for number in range(OF_USER):
        assert is_admitted(budgets.admit_user, f"bot-{number}", "alice")
        budgets.note_failure(f"bot-{number}", LoginFailed("wrong", user="alice"))
    assert not is_admitted(budgets.admit_user, "bot-1000", "alice")
    assert is_admitted(budgets.admit_user, "office", "alice") and is_admitted(budgets.admit_user, "bot-1000", "bob")


def test_budgets_do_not_grow_without_end() -> None:
    budget: Budget[int] = Budget(2)
    for key in range(MOST_KEPT + 10):
        budget.spend(key, 0.0)
    assert len(budget._spent) == MOST_KEPT
