"""Which fields of responses are not compared: by the classes that their reasons belong to."""

import pytest

from kproxy.protocol import facts
from kproxy.protocol.structs import struct_types
from kproxy.replay.left_out import LeftOut, class_of

FIELDS = {
    ("FetchResponse", "FetchResponse", "ThrottleTimeMs"): LeftOut.THROTTLE,
    ("MetadataResponse", "MetadataResponse", "ClusterId"): LeftOut.NODES,
    ("MetadataResponse", "MetadataResponsePartition", "ReplicaNodes"): LeftOut.NODES,
    ("MetadataResponse", "MetadataResponseTopic", "TopicId"): LeftOut.IDS,
    ("MetadataResponse", "MetadataResponseTopic", "ErrorCode"): None,
    ("MetadataResponse", "MetadataResponseTopic", "Name"): None,
    ("ListOffsetsResponse", "ListOffsetsPartitionResponse", "Offset"): LeftOut.OFFSETS,
    ("ProduceResponse", "PartitionProduceResponse", "BaseOffset"): LeftOut.OFFSETS,
    ("ProduceResponse", "PartitionProduceResponse", "LogAppendTimeMs"): LeftOut.TIMES,
    ("ProduceResponse", "PartitionProduceResponse", "ErrorMessage"): LeftOut.TEXTS,
    ("OffsetFetchResponse", "OffsetFetchResponsePartition", "CommittedOffset"): LeftOut.OFFSETS,
    ("SyncGroupResponse", "SyncGroupResponse", "Assignment"): None,
    ("DescribeLogDirsResponse", "DescribeLogDirsPartition", "PartitionSize"): LeftOut.SIZES,
    ("DescribeConfigsResponse", "DescribeConfigsResourceResult", "Value"): None,
}


@pytest.mark.parametrize(("place", "left_out"), FIELDS.items(), ids=[".".join(place) for place in FIELDS])
def test_classes(place: tuple[str, str, str], left_out: LeftOut | None) -> None:
    message, struct, name = place
    [field] = [field for field in struct_types(message)[struct].fields if field.name == name]
    assert class_of(message, field) is left_out


@pytest.mark.parametrize("api", facts().apis.values(), ids=lambda api: api.name)
def test_no_error_code_is_left_out(api: object) -> None:
    message = f"{api.name}Response"  # type: ignore[attr-defined]
    for struct in struct_types(message).values():
        for field in struct.fields:
            assert not field.name.endswith("ErrorCode") or class_of(message, field) is None
