"""Which worker runs which tests, and in which order: groups stay on one worker, the longest goes first.

Tests that share something costly (a cluster, a browser, a Spark session) carry ``pytest.mark.xdist_group(name)`` and run one
after the other on one worker, which makes the costly thing once in a run. `--dist loadgroup` of xdist is meant for that, but
xdist 3.8 passes the groups on in the names of the tests, which pytest 9.2 no longer lets it change. Here each worker writes
the groups of the tests that it has collected into a file, and the scheduler reads one of these files: all workers collect
the same.

How long a group or a test takes is what it took in the last run here (in pytest's cache), else what ``seconds.json`` says, else
``UNKNOWN`` for each test. ``seconds.json`` only sets the order, so it may be out of date; to renew it, run all tests and copy
`.pytest_cache/v/kproxy/seconds` over it.
"""

import json
import tempfile
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadScopeScheduling

FOLDER = pytest.StashKey[str]()
MOST_AT_ONCE = 20  # tests in a message to a worker: most take a millisecond, as long as a message and its answer
UNKNOWN = 0.02  # seconds that a test takes about which nothing is known
WORTH_KEEPING = 1.0  # seconds; the order of what is shorter does not matter
CACHED = "kproxy/seconds"
CHECKED_IN = Path(__file__).with_name("seconds.json")
SHARED = ("single", "three", "driver", "spark")  # fixtures of the session that are dear to keep


def pytest_configure(config: pytest.Config) -> None:
    """Make a folder for the files of the workers."""
    if not hasattr(config, "workerinput"):
        folder = tempfile.TemporaryDirectory(prefix="kproxy-test-groups-")
        config.stash[FOLDER] = folder.name
        config.add_cleanup(folder.cleanup)


def pytest_configure_node(node: Any) -> None:
    """Tell a worker where the folder is."""
    node.workerinput["groups"] = node.config.stash[FOLDER]


@pytest.hookimpl(trylast=True)  # other hooks add groups
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a worker, write the groups of its tests for the scheduler."""
    worker = getattr(config, "workerinput", None)
    if worker is not None:
        groups = {item.nodeid: group for item in items for group in _groups(item)}
        Path(worker["groups"], worker["workerid"]).write_text(json.dumps(groups), encoding="utf-8")


def _groups(item: pytest.Item) -> Iterator[str]:
    mark = item.get_closest_marker("xdist_group")
    if mark is not None:
        yield mark.args[0]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
    """On a worker, end what a group of tests shares after the last of them.

    Without work, a broker takes 4 % of a processor, and each proxy in front of it some more; so does a browser with a page.
    """
    yield
    is_last = nextitem is None or [*_groups(item)] != [*_groups(nextitem)]
    if hasattr(item.config, "workerinput") and [*_groups(item)] and is_last and isinstance(item, pytest.Function):
        for name in set(SHARED) & set(item.fixturenames):
            item._fixtureinfo.name2fixturedefs[name][-1].finish(item._request)  # type: ignore[arg-type] - the node alone


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Take our scheduler in place of xdist's."""
    if config.getoption("dist") != "loadgroup":
        return None
    scheduler = GroupScheduling(config, log)
    config.pluginmanager.register(Measured(config, scheduler))
    return scheduler


def _cached_seconds(config: pytest.Config) -> dict[str, float]:
    """What the last runs here took; nothing with `-p no:cacheprovider`."""
    cache = getattr(config, "cache", None)
    return cache.get(CACHED, {}) if cache is not None else {}


class GroupScheduling(LoadScopeScheduling):
    """Sends the tests of a group to one worker, and each other test wherever there is room; the longest first.

    What xdist does after each test grows with the number of tests before it, which takes 40 s of a processor for 18,000
    tests. Here it does not grow, and tests go out some at a time.
    """

    @cached_property
    def _group_of(self) -> dict[str, str]:
        written = next(Path(self.config.stash[FOLDER]).iterdir())
        groups: dict[str, str] = json.loads(written.read_text(encoding="utf-8"))
        return groups

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self.collection or ())}

    @cached_property
    def _known_seconds(self) -> dict[str, float]:
        return {**json.loads(CHECKED_IN.read_text(encoding="utf-8")), **_cached_seconds(self.config)}

    def scope_of(self, nodeid: str) -> str:
        """The group of a test, or the test itself when it has none."""
        return self._group_of.get(nodeid, nodeid)

    _split_scope = scope_of

    def expected_seconds(self, scope: str, tests: int) -> float:
        """How long a scope of *tests* tests will take."""
        return self._known_seconds.get(scope, UNKNOWN * tests)

    def schedule(self) -> None:
        """Order what is to be done before the first of it goes out."""
        if self.collection is None and self.registered_collections:
            self._order(next(iter(self.registered_collections.values())))
        super().schedule()

    def _order(self, collection: list[str]) -> None:
        tests_of: dict[str, int] = {}
        for nodeid in collection:
            scope = self.scope_of(nodeid)
            tests_of[scope] = tests_of.get(scope, 0) + 1
        longest_first = sorted(tests_of, key=lambda scope: -self.expected_seconds(scope, tests_of[scope]))
        self.workqueue.update((scope, {}) for scope in longest_first)  # xdist fills them, and keeps this order

    def mark_test_complete(self, node: Any, item_index: int, duration: float = 0) -> None:
        """Forget what is done, through which xdist would look for what is not done."""
        super().mark_test_complete(node, item_index, duration)
        assigned = self.assigned_work[node]
        scope = self._split_scope(self.registered_collections[node][item_index])
        if all(assigned[scope].values()):
            del assigned[scope]

    def _assign_work_unit(self, node: Any) -> None:
        # At last one at a time, so that no worker has many when the other has none
        at_once = max(1, min(MOST_AT_ONCE, len(self.workqueue) // 100))
        places: list[int] = []
        while self.workqueue and len(places) < at_once:
            scope, tests = self.workqueue.popitem(last=False)
            self.assigned_work[node][scope] = tests
            places += [self._place_of[nodeid] for nodeid, done in tests.items() if not done]
        node.send_runtest_some(places)


class Measured:
    """Keeps what took long, for the order of the next run."""

    def __init__(self, config: pytest.Config, scheduler: GroupScheduling) -> None:
        self._config = config
        self._scheduler = scheduler
        self._took: dict[str, float] = {}  # seconds by scope

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        scope = self._scheduler.scope_of(report.nodeid)
        self._took[scope] = self._took.get(scope, 0.0) + report.duration

    def pytest_sessionfinish(self) -> None:
        cache = getattr(self._config, "cache", None)
        if cache is not None:
            long = {scope: round(took, 1) for scope, took in self._took.items() if took >= WORTH_KEEPING}
            cache.set(CACHED, _cached_seconds(self._config) | long)
