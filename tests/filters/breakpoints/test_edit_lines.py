"""The line of an edit: who, where and which fields, with digests that another tool can check; no value of the traffic."""

import hashlib
import json

import pytest

from kproxy.filters.breakpoints.decision import Decision, Stopped
from kproxy.filters.breakpoints.edit_lines import edit_line, write_lines
from tests.support.filtering import GivenJournal, connection

BEFORE, AFTER = b"a secret of the business", b"another"
STOPPED = Stopped(connection(), "app\x1b[31m", "request", 0, 9, 4, BEFORE, 'apiName == "Produce"', True, True)


class Audit:
    """An audit filter."""

    def __init__(self, journal: GivenJournal, blocks: bool) -> None:
        self.journal = journal
        self.blocks = blocks


def test_what_is_in_a_line() -> None:
    decision = Decision("replace", "127.0.0.1:5000", AFTER)
    line = edit_line(STOPPED, decision, ["topicData[0].name"], worker=3, now=1_700_000_000.5)
    assert b"secret" not in line
    assert b"\x1b" not in line
    found = json.loads(line)
    assert found["before"] == {"size": len(BEFORE), "sha256": hashlib.sha256(BEFORE).hexdigest()}
    assert found["after"] == {"size": len(AFTER), "sha256": hashlib.sha256(AFTER).hexdigest()}
    assert found["changed"] == ["topicData[0].name"]
    assert (found["event"], found["action"], found["by"]) == ("edit", "replace", "127.0.0.1:5000")
    assert (found["at"], found["worker"], found["client"]) == ("2023-11-14T22:13:20.500Z", 3, "10.0.0.5:51234")
    assert (found["api"], found["apiVersion"], found["correlationId"]) == ("Produce", 9, 4)


def test_an_error_has_its_name_and_no_other_action_has_a_body() -> None:
    found = json.loads(edit_line(STOPPED, Decision("error", "a", error=3), [], 0, 0.0))
    assert (found["error"], found["after"]) == ("UNKNOWN_TOPIC_OR_PARTITION", None)
    assert json.loads(edit_line(STOPPED, Decision("drop", "a"), [], 0, 0.0))["error"] is None


@pytest.mark.parametrize("blocks", [False, True])
def test_a_journal_that_cannot_be_written_forbids_the_change_where_it_blocks(blocks: bool) -> None:
    journal = GivenJournal()
    journal.is_writable = False
    assert write_lines([Audit(journal, blocks)], b"{}") is not blocks
    assert not journal.lines


def test_one_journal_of_two_filters_gets_one_line() -> None:
    journal, other = GivenJournal(), GivenJournal()
    assert write_lines([Audit(journal, False), Audit(journal, True), Audit(other, False)], b"{}")
    assert (list(journal.lines.values()), list(other.lines.values())) == ([b"{}"], [b"{}"])
    assert write_lines([], b"{}")
