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
    """Sends the tests of a group to one worker, and each other test wherever there is room."""

    @cached_property
    def _group_of(self) -> dict[str, str]:
        found: dict[str, str] = json.loads(next(Path(self.config.stash[FOLDER]).iterdir()).read_text(encoding="utf-8"))
        return found

    def _split_scope(self, nodeid: str) -> str:
        return self._group_of.get(nodeid, nodeid)
