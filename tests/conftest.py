"""What every test may use: Hypothesis profiles and the word on optional programs."""

import os
from collections.abc import Callable

import hypothesis
import pytest

pytest_plugins = ["tests.support.kafka.fixtures"]

Require = Callable[[str, object, str], None]

hypothesis.settings.register_profile(
    "deterministic", max_examples=25, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("thorough", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))


@pytest.fixture(scope="session")
def require() -> Require:
    """``require(name, condition, reason)``: skip the test unless *condition* holds.

    What KPROXY_REQUIRE names (a comma list: "extract,tshark") must be there: its absence fails the test, so that a
    machine meant to check everything cannot skip in silence.
    """
    demanded = {name.strip() for name in os.environ.get("KPROXY_REQUIRE", "").split(",")}

    def check(name: str, condition: object, reason: str) -> None:
        if condition:
            return
        if name in demanded:
            pytest.fail(f"{reason} (KPROXY_REQUIRE demands {name})")
        pytest.skip(reason)

    return check
