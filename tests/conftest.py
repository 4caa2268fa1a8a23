"""What every test may rely on: Hypothesis profiles, workers, optional programs, and that no other test left anything running."""

import gc
import os
import sys
from collections.abc import Callable, Generator, Iterator

import hypothesis
import pytest

from tests.support.leftovers import Leftovers

pytest_plugins = [
    "tests.support.kafka.fixtures",
    "tests.support.scheduling",
    "tests.support.sources",
    "tests.support.spark",
]

Require = Callable[[str, object, str], None]
COLLECT_AFTER = gc.get_threshold()
MOST_WORKERS = 4  # each of them takes half a gigabyte of memory

hypothesis.settings.register_profile(
    "deterministic", max_examples=25, deadline=None, derandomize=True, database=None, print_blob=True
)
hypothesis.settings.register_profile("thorough", max_examples=2_000, deadline=None, print_blob=True)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "deterministic"))


def pytest_xdist_auto_num_workers() -> int:
    """A worker more than processors that we may use: `-n auto` in pyproject.toml; `-n 0` runs the tests in this process.

    Of two workers on two processors, each waits almost half of its time: for brokers, clients, and what comes after a while.
    """
    return min(len(os.sched_getaffinity(0)) + 1, MOST_WORKERS)


def pytest_configure(config: pytest.Config) -> None:
    """Keep compiled modules in pytest's cache where the environment wants none next to the sources.

    Otherwise each run compiles all tests anew, which takes half a minute, and each `kproxy run` all of kproxy, three times.
    """
    cache = getattr(config, "cache", None)  # none with `-p no:cacheprovider`
    if sys.dont_write_bytecode and cache is not None and not hasattr(config, "workerinput"):
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(cache.mkdir("bytecode"))
        sys.dont_write_bytecode = False
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collect_directory(parent: pytest.Collector) -> Generator[None, pytest.Collector, pytest.Collector]:
    """Let every second worker begin with the last file, so that each compiles half of the tests and finds the others compiled."""
    directory = yield
    number = getattr(parent.config, "workerinput", {}).get("workerid", "gw0").removeprefix("gw")
    if int(number) % 2:
        first_to_last = directory.collect
        directory.collect = lambda: [*first_to_last()][::-1]  # type: ignore[method-assign]
    return directory


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All workers must have the same order, wherever they began."""
    items.sort(key=lambda item: item.path)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Undo what a worker or an analyzer that ran in this process did to the garbage collector.

    Frozen cycles are never collected: their sockets and shared memory would stay open for as long as the tests run.
    """
    gc.set_threshold(*COLLECT_AFTER)
    gc.unfreeze()


@pytest.fixture(scope="session", autouse=True)
def nothing_is_left_running() -> Iterator[None]:
    """Fail the last test of this process if a process, a listening socket or a thread of any test is still there."""
    leftovers = Leftovers()
    yield
    found = leftovers.found()
    assert not found, "left behind:\n" + "\n".join(found)


@pytest.fixture(scope="session")
def require() -> Require:
    """``require(name, condition, reason)``: skip the test unless *condition* holds.

    The names in KPROXY_REQUIRE (a comma list: "extract,tshark") are required: where their condition does not hold, the
    test fails, so that a machine meant to check everything cannot skip in silence.
    """
    required = {name.strip() for name in os.environ.get("KPROXY_REQUIRE", "").split(",")}

    def check(name: str, condition: object, reason: str) -> None:
        if condition:
            return
        if name in required:
            pytest.fail(f"{reason} (KPROXY_REQUIRE demands {name})")
        pytest.skip(reason)

    return check
