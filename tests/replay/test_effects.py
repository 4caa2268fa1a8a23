"""What requests would do: against the manifest's workloads, and every API of the facts."""

import pytest

from kproxy.protocol import ApiKey, facts
from kproxy.replay.effects import EFFECTS, READS, Effects, Verb
from kproxy.replay.recording import Recording
from kproxy.replay.selection import LOGINS, is_internal, reason_not_sent
from tests.support.replayed import recorded


def effects_of(recording: Recording) -> Effects:
    found = Effects(recording.names)
    for one in recording.requests:
        if reason_not_sent(one) is None:
            found.add(one, one.body())
    return found


@pytest.mark.parametrize("api", facts().apis.values(), ids=lambda api: api.name)
def test_every_api_has_an_effect_or_reads_or_is_not_sent(api: object) -> None:
    key = api.key  # type: ignore[attr-defined]
    unsent = key in LOGINS or is_internal(key, 0)
    assert [key in EFFECTS, key in READS, unsent].count(True) == 1


def test_records_are_counted() -> None:
    counts = effects_of(recorded(1)).found[Verb.WRITE, "topic orders"]
    assert counts["records"] == 200  # captures/README.md
    assert counts["bytes"] == 36_778  # 10491 + 13..., recordsSizeInBytes of captures/decoded/01


def test_transactions() -> None:
    found = effects_of(recorded(4)).found
    assert found[Verb.WRITE, "topic tx"]["records in transactions"] == 51  # 5 of 10, and the one of the fenced producer
    assert found[Verb.WRITE, "transactions of tx-1"] == {"commits": 3, "aborts": 3}
    assert (Verb.TAKE_PART, "transactional id tx-1") in found


def test_admin() -> None:
    """Of the operations that the workload reports (MANIFEST.jsonl): those that change something, the failing ones too."""
    found = {(verb.value, subject) for verb, subject in effects_of(recorded(5)).found}
    apis = {one.api_key for one in recorded(5).requests}
    assert {key for key in apis if key in EFFECTS}
    assert ("create", "ACLs of User:alice") in found or any(subject.startswith("ACLs of") for _, subject in found)
    assert any(verb == "delete" and subject.startswith("topic ") for verb, subject in found)
    assert any(verb == "change" and subject.startswith("settings of topic") for verb, subject in found)


def test_what_is_only_validated_has_no_effect() -> None:
    one = next(one for one in recorded(5).requests if one.api_key == ApiKey.CREATE_TOPICS)
    body = one.body()
    body.validate_only = True
    found = Effects()
    found.add(one, body)
    assert found.found == {}


def test_subjects_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kproxy.replay.effects.MOST_SUBJECTS", 2)
    found = Effects()
    for number in range(10):
        found.note(Verb.CREATE, f"topic {number}", topics=1)
    assert len(found.found) == 3
    assert sum(counts["topics"] for counts in found.found.values()) == 10
