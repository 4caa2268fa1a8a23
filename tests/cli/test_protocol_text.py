"""Fields and differences as text, against what Kafka's KIPs say changed."""

import pytest

from kproxy.cli.protocol_text import Difference, FieldTree, all_versions, differences, layout_at
from kproxy.output.text.styles import PLAIN
from kproxy.protocol import facts


def tree(message: str, version: int, width: int = 80) -> list[str]:
    layout = layout_at(message, version)
    assert layout is not None
    return list(FieldTree(layout, version, PLAIN, width).render())


def test_fields_have_type_nullability_tag_and_default() -> None:
    lines = tree("FetchRequest", 12)
    assert lines[0] == "├─ clusterId: string  nullable, tag 0, default null"  # KIP-595
    assert "├─ isolationLevel: int8" in lines
    assert "│     0 READ_UNCOMMITTED; 1 READ_COMMITTED" in lines
    assert lines[-1] == "└─ rackId: string"  # KIP-392


def test_only_fields_of_the_version_are_there() -> None:
    assert not [line for line in tree("FetchRequest", 12) if "topicId" in line]
    assert [line for line in tree("FetchRequest", 13) if "topicId: uuid" in line]  # KIP-516


@pytest.mark.parametrize(
    ("message", "old", "new", "expected"),
    [
        ("MetadataRequest", 3, 4, [Difference("+", "allowAutoTopicCreation", "bool, default True")]),  # KIP-204
        ("OffsetCommitRequest", 4, 5, [Difference("-", "retentionTimeMs", "int64")]),  # KIP-211
        ("HeartbeatRequest", 2, 3, [Difference("+", "groupInstanceId", "string, nullable, default null")]),  # KIP-345
        ("MetadataRequest", 5, 6, []),
    ],
)
def test_differences_are_those_of_the_kips(message: str, old: int, new: int, expected: list[Difference]) -> None:
    assert differences(message, old, new) == expected


def test_an_added_struct_is_one_difference() -> None:
    paths = [d.path for d in differences("ProduceResponse", 7, 8)]  # KIP-467
    assert paths == ["responses.partitionResponses.recordErrors", "responses.partitionResponses.errorMessage"]


def test_becoming_flexible_is_a_difference() -> None:
    first = differences("FetchRequest", 11, 12)[0]
    assert first == Difference("~", "", "flexible: compact encodings, tagged fields")  # KIP-482


def test_every_message_at_every_version_fits_into_80_columns() -> None:
    wide = [
        (message, version, line)
        for message in facts().messages()
        for version in all_versions(message)
        for line in tree(message, version)
        if len(line) > 80
    ]
    assert not wide
