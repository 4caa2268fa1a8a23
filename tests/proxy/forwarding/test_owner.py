"""LinkOwner names exactly what the extension modules use of an owner, and a virtual cluster has all of it."""

import re
from pathlib import Path

from kproxy.proxy.forwarding.owner import LinkOwner
from tests.support.links import Owner

PACKAGE = Path(__file__).parents[3] / "kproxy" / "proxy"
USED_BY_THE_WORKER = {"row_of"}  # in worker.py: one row of /connections
READ_WHEN_A_LINK_IS_MADE = {"plan", "limits", "sampler"}  # attributes of instances


def members(protocol: type) -> set[str]:
    return {name for name in vars(protocol) if not name.startswith("_")}


def test_every_member_is_used_by_the_extension_modules_and_they_use_no_other() -> None:
    sources = "\n".join(path.read_text("utf-8") for path in (PACKAGE / "forwarding").glob("*.pyx"))
    assert set(re.findall(r"\bowner\.(\w+)", sources)) == members(LinkOwner) - USED_BY_THE_WORKER


def test_the_owner_of_the_tests_has_what_lanes_and_links_use() -> None:
    used_by_acceptors = {"admit_client", "open_link", "on_unreachable", "on_accept_error"}
    missing = members(LinkOwner) - set(dir(Owner)) - READ_WHEN_A_LINK_IS_MADE - USED_BY_THE_WORKER
    assert missing == used_by_acceptors
