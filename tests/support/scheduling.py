"""Which worker runs which test: those that share something costly run one after the other on one worker, which makes it once.

Tests are grouped by ``pytest.mark.xdist_group(name)``. That is what `--dist loadgroup` of xdist is for; xdist 3.8 passes
the groups on in the names of the tests, which pytest 9.2 no longer lets it change. Here each worker writes the groups of
the tests that it has collected into a file, and the scheduler reads one of these files, as all workers collect the same.
Groups are scheduled first, the largest first.
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


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Take our scheduler in place of xdist's."""
    return GroupScheduling(config, log) if config.getoption("dist") == "loadgroup" else None


class GroupScheduling(LoadScopeScheduling):
    """Sends the tests of a group to one worker, and each other test wherever there is room.

    What xdist does after each test grows with the number of tests before it, which takes 40 s of a processor for 18,000
    tests. Here it does not grow, and tests go out some at a time.
    """

    @cached_property
    def _group_of(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(next(Path(self.config.stash[FOLDER]).iterdir()).read_text(encoding="utf-8"))
        return found

    @cached_property
    def _place_of(self) -> dict[str, int]:
        return {nodeid: place for place, nodeid in enumerate(self.collection or ())}

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of.get(nodeid, nodeid)

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
