"""The few fields of request and response bodies that a line is made of, with every name and type they have in some version.

msgspec decodes Kafka's JSON into these and skips all the rest without building it, so a Fetch of a thousand partitions
costs what its names and sizes cost. Every field is optional, because every version has others.
"""

from collections.abc import Mapping

import msgspec

from kproxy.output.escaping import word
from kproxy.protocol.constants import ZERO_UUID


class Partition(msgspec.Struct):
    """A partition of a request or response, with any of the names that Kafka has for its fields."""

    index: int | None = None
    partition: int | None = None
    partitionIndex: int | None = None
    records: None = None
    recordsSizeInBytes: int | None = None
    unalignedRecordsSizeInBytes: int | None = None
    timestamp: int | None = None

    @property
    def number(self) -> int | None:
        """The partition's number, whatever this API calls it."""
        for number in (self.partitionIndex, self.index, self.partition):
            if number is not None:
                return number
        return None

    @property
    def size(self) -> int:
        """Bytes of its records field."""
        return self.recordsSizeInBytes or self.unalignedRecordsSizeInBytes or 0


class Named(msgspec.Struct):
    """A topic whose name alone is needed, with any of the names that Kafka has for its fields."""

    name: str | None = None
    topic: str | None = None
    topicName: str | None = None
    topicId: str | None = None

    def name_or_id(self, names: Mapping[str, str]) -> str:
        """Return its name, or its id if the name is not known, both as in the message."""
        name = self.name or self.topic or self.topicName
        if name is None and self.topicId is not None and self.topicId != ZERO_UUID:
            name = names.get(self.topicId, self.topicId)
        return name or ""

    def label(self, names: Mapping[str, str]) -> str:
        """Return its name, or its id if the name is not known; printable."""
        return word(self.name_or_id(names), 48)


class Topic(Named):
    """A topic with partitions."""

    partitions: list[Partition] = []
    partitionData: list[Partition] = msgspec.field(default_factory=list)
    partitionResponses: list[Partition] = msgspec.field(default_factory=list)

    def all_partitions(self) -> list[Partition]:
        """Return its partitions, whatever this API calls them."""
        return self.partitions or self.partitionData or self.partitionResponses


class ProduceRequest(msgspec.Struct):
    acks: int | None = None
    transactionalId: str | None = None
    topicData: list[Topic] = []


class FetchResponse(msgspec.Struct):
    """FetchResponse and ShareFetchResponse."""

    responses: list[Topic] = []


class Group(msgspec.Struct):
    """A group that is only named."""

    groupId: str | None = None


class Resource(msgspec.Struct):
    """A resource whose configuration is read or written."""

    resourceType: int = 0
    resourceName: str = ""


class Transaction(msgspec.Struct):
    """A transaction of AddPartitionsToTxn."""

    transactionalId: str = ""
    topics: list[Named] = []


class Marker(msgspec.Struct):
    """A marker of WriteTxnMarkers."""

    producerId: int = -1
    producerEpoch: int = -1
    transactionResult: bool = False
    topics: list[Named] = []


class Common(msgspec.Struct):
    """Fields that many requests have at their top."""

    transactionalId: str | None = None
    producerId: int | None = None
    producerEpoch: int | None = None
    groupId: str | None = None
    memberId: str | None = None
    groupInstanceId: str | None = None
    instanceId: str | None = None
    generationId: int | None = None
    generationIdOrMemberEpoch: int | None = None
    memberEpoch: int | None = None
    brokerId: int | None = None
    validateOnly: bool | None = None
    committed: bool | None = None
    mechanism: str | None = None


class Request(Common):
    """Fields of the requests whose APIs have a function of their own in key_facts.py, except Produce."""

    topics: list[Topic] | None = msgspec.field(default_factory=list)  # null: all topics
    topicNames: list[str] = msgspec.field(default_factory=list)
    groups: list[Group | str] = msgspec.field(default_factory=list)
    groupIds: list[str] = msgspec.field(default_factory=list)
    groupsNames: list[str] = msgspec.field(default_factory=list)
    resources: list[Resource] = msgspec.field(default_factory=list)
    # Fetch
    replicaId: int = -1
    sessionId: int = 0
    sessionEpoch: int = -1
    # ApiVersions v3 and later
    clientSoftwareName: str | None = None
    clientSoftwareVersion: str | None = None
    # FindCoordinator, with one key before version 4
    key: str | None = None
    keyType: int = 0
    coordinatorKeys: list[str] = msgspec.field(default_factory=list)
    # AddPartitionsToTxn, with one transaction before version 4, and WriteTxnMarkers
    transactions: list[Transaction] = msgspec.field(default_factory=list)
    v3AndBelowTransactionalId: str | None = None
    v3AndBelowTopics: list[Named] = msgspec.field(default_factory=list)
    markers: list[Marker] = msgspec.field(default_factory=list)


class Coordinator(msgspec.Struct):
    """One answer of FindCoordinator."""

    nodeId: int = -1
    host: str = ""
    port: int = -1


class Response(Coordinator):
    """Fields of the responses whose APIs have a function of their own in key_facts.py, except Fetch."""

    brokers: list[msgspec.Raw] = []
    topics: list[msgspec.Raw] = []
    apiKeys: list[msgspec.Raw] = []
    coordinators: list[Coordinator] = []
    members: list[msgspec.Raw] = []
    generationId: int = -1
    protocolName: str | None = None
    leader: str = ""
    memberId: str | None = None
    memberEpoch: int | None = None
    producerId: int = -1
    producerEpoch: int = -1
