"""The errors that Kafka documents for an API (DOCUMENTED), and how they are read in the sources of kafka-clients 4.3.1.

    class      the comment "Possible error codes" of XResponse.java
    schema     comments of XRequest.json and XResponse.json, which name the errors that a version adds
    client     the errors that Kafka's own client names where it handles the response: JoinGroup has no comment of the first kind

The broker returns a few more, which none of these names; they are in BROKER, with the class that has them. NONE is none, and
so are errors that a client gives itself, for which there is no response. The sources are the jar ``-sources`` of Maven Central.
"""

import io
import re
import subprocess
import tempfile
import zipfile
from pathlib import Path

from kproxy.protocol.error_codes import ErrorCode
from tests.support.kafka import jars

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy"
PATIENCE_S = 600

COMMON = "org/apache/kafka/common/requests"
CLIENTS = "org/apache/kafka/clients"
HANDLERS = {  # API -> where kafka-clients handles its response: a file, and a class or method in it
    "Produce": [
        ("producer/internals/Sender", "void completeBatch"),
        ("producer/internals/TransactionManager", "boolean canRetry"),
    ],
    "Fetch": [
        ("consumer/internals/FetchCollector", "void handleInitializeErrors"),
        ("FetchSessionHandler", "boolean handleResponse"),
    ],
    "Metadata": [
        ("Metadata", "MetadataSnapshot handleMetadataResponse"),
        ("NetworkClient", "class DefaultMetadataUpdater"),
        ("consumer/internals/TopicMetadataFetcher", "class TopicMetadataFetcher"),
    ],
    "FindCoordinator": [
        ("consumer/internals/AbstractCoordinator", "class FindCoordinatorResponseHandler"),
        ("producer/internals/TransactionManager", "class FindCoordinatorHandler"),
    ],
    "JoinGroup": [("consumer/internals/AbstractCoordinator", "class JoinGroupResponseHandler")],
    "OffsetCommit": [("consumer/internals/ConsumerCoordinator", "class OffsetCommitResponseHandler")],
    "InitProducerId": [("producer/internals/TransactionManager", "class InitProducerIdHandler")],
    "ApiVersions": [("NetworkClient", "void handleApiVersionsResponse")],
}
CLASS_COMMENT = re.compile(r"/\*\*((?:(?!\*/).)*[Pp]ossible [\w-]*\s?error codes?:.*?)\*/", re.DOTALL)
LINKED = re.compile(r"Errors#([A-Z_]+)")
NUMBERED = re.compile(r"^\s*\*\s+\w+ \((\d+)\)", re.MULTILINE)  # UnknownTopic (3)
SCHEMA_COMMENT = re.compile(r"^\s*//(.*)$", re.MULTILINE)
USED = re.compile(r"\bErrors\.([A-Z][A-Z_]+)")
WORD = re.compile(r"\b[A-Z]+(?:_[A-Z]+)+\b")


class Sources:
    """The sources jar of kafka-clients; Maven keeps it."""

    def __init__(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            what = f"-Dartifact=org.apache.kafka:kafka-clients:{jars.NEWEST}:jar:sources"
            command = ["mvn", "-q", "-B", COPY, what, f"-DoutputDirectory={folder}"]
            subprocess.run(command, check=True, timeout=PATIENCE_S, stdin=subprocess.DEVNULL, cwd=folder)
            (jar,) = Path(folder).glob("*.jar")
            self._jar = zipfile.ZipFile(io.BytesIO(jar.read_bytes()))

    def documented(self, api: str) -> set[str]:
        """The errors of an API."""
        found = self._of_class(api) | self._of_schemas(api)
        for file, place in HANDLERS[api]:
            found |= set(USED.findall(_body(self._text(f"{CLIENTS}/{file}.java"), place)))
        return (found & set(ErrorCode.__members__)) - {"NONE"}

    def _text(self, name: str) -> str:
        return self._jar.read(name).decode()

    def _of_class(self, api: str) -> set[str]:
        text = "".join(CLASS_COMMENT.findall(self._text(f"{COMMON}/{api}Response.java")))
        return set(LINKED.findall(text)) | {ErrorCode(int(number)).name for number in NUMBERED.findall(text)}

    def _of_schemas(self, api: str) -> set[str]:
        comments = [
            line
            for message in ("Request", "Response")
            for line in SCHEMA_COMMENT.findall(self._text(f"common/message/{api}{message}.json"))
        ]
        return {word for line in comments for word in WORD.findall(line)}


def _body(text: str, place: str) -> str:
    """From a class or method to its closing brace; all methods of that name."""
    found = [_block(text, match.start()) for match in re.finditer(rf"\b{re.escape(place)}\b", text)]
    if not found:
        raise ValueError(f"{place} is not in the source")
    return "".join(found)


def _block(text: str, start: int) -> str:
    depth = 0
    for at in range(text.index("{", start), len(text)):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            return text[start : at + 1]
    return text[start:]


DOCUMENTED = {
    "Produce": (
        "CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER MESSAGE_TOO_LARGE INVALID_TOPIC_EXCEPTION "
        "RECORD_LIST_TOO_LARGE NOT_ENOUGH_REPLICAS NOT_ENOUGH_REPLICAS_AFTER_APPEND INVALID_REQUIRED_ACKS "
        "TOPIC_AUTHORIZATION_FAILED CLUSTER_AUTHORIZATION_FAILED UNSUPPORTED_FOR_MESSAGE_FORMAT "
        "OUT_OF_ORDER_SEQUENCE_NUMBER DUPLICATE_SEQUENCE_NUMBER INVALID_PRODUCER_EPOCH INVALID_TXN_STATE "
        "INVALID_PRODUCER_ID_MAPPING CONCURRENT_TRANSACTIONS TRANSACTIONAL_ID_AUTHORIZATION_FAILED "
        "KAFKA_STORAGE_ERROR UNKNOWN_PRODUCER_ID INVALID_RECORD UNKNOWN_TOPIC_ID TRANSACTION_ABORTABLE"
    ),
    "Fetch": (
        "UNKNOWN_SERVER_ERROR OFFSET_OUT_OF_RANGE CORRUPT_MESSAGE UNKNOWN_TOPIC_OR_PARTITION NOT_LEADER_OR_FOLLOWER "
        "REPLICA_NOT_AVAILABLE TOPIC_AUTHORIZATION_FAILED KAFKA_STORAGE_ERROR FETCH_SESSION_ID_NOT_FOUND "
        "FENCED_LEADER_EPOCH UNKNOWN_LEADER_EPOCH UNSUPPORTED_COMPRESSION_TYPE OFFSET_NOT_AVAILABLE UNKNOWN_TOPIC_ID "
        "INCONSISTENT_TOPIC_ID FETCH_SESSION_TOPIC_ID_ERROR"
    ),
    "Metadata": (
        "UNKNOWN_TOPIC_OR_PARTITION LEADER_NOT_AVAILABLE REPLICA_NOT_AVAILABLE INVALID_TOPIC_EXCEPTION "
        "TOPIC_AUTHORIZATION_FAILED LISTENER_NOT_FOUND REBOOTSTRAP_REQUIRED"
    ),
    "FindCoordinator": (
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE GROUP_AUTHORIZATION_FAILED INVALID_REQUEST "
        "TRANSACTIONAL_ID_AUTHORIZATION_FAILED TRANSACTION_ABORTABLE"
    ),
    "JoinGroup": (
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR INCONSISTENT_GROUP_PROTOCOL "
        "INVALID_GROUP_ID UNKNOWN_MEMBER_ID INVALID_SESSION_TIMEOUT REBALANCE_IN_PROGRESS GROUP_AUTHORIZATION_FAILED "
        "UNSUPPORTED_VERSION MEMBER_ID_REQUIRED GROUP_MAX_SIZE_REACHED FENCED_INSTANCE_ID"
    ),
    "OffsetCommit": (
        "UNKNOWN_TOPIC_OR_PARTITION REQUEST_TIMED_OUT OFFSET_METADATA_TOO_LARGE COORDINATOR_LOAD_IN_PROGRESS "
        "COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR ILLEGAL_GENERATION UNKNOWN_MEMBER_ID REBALANCE_IN_PROGRESS "
        "INVALID_COMMIT_OFFSET_SIZE TOPIC_AUTHORIZATION_FAILED GROUP_AUTHORIZATION_FAILED INVALID_TXN_STATE "
        "INVALID_PRODUCER_ID_MAPPING GROUP_ID_NOT_FOUND FENCED_INSTANCE_ID UNKNOWN_TOPIC_ID FENCED_MEMBER_EPOCH "
        "STALE_MEMBER_EPOCH"
    ),
    "InitProducerId": (
        "COORDINATOR_LOAD_IN_PROGRESS COORDINATOR_NOT_AVAILABLE NOT_COORDINATOR CLUSTER_AUTHORIZATION_FAILED "
        "INVALID_PRODUCER_EPOCH TRANSACTIONAL_ID_AUTHORIZATION_FAILED PRODUCER_FENCED TRANSACTION_ABORTABLE"
    ),
    "ApiVersions": "UNSUPPORTED_VERSION INVALID_REQUEST",
}
# What the broker returns beyond these, by the class that does
BROKER = {
    "Fetch": "INVALID_FETCH_SESSION_EPOCH",  # org.apache.kafka.server.FetchManager
    "Metadata": "UNKNOWN_TOPIC_ID",  # kafka.server.KafkaApis.handleTopicMetadataRequest
    "InitProducerId": "CONCURRENT_TRANSACTIONS INVALID_TRANSACTION_TIMEOUT INVALID_PRODUCER_ID_MAPPING",
}  # the last: kafka.coordinator.transaction.TransactionCoordinator

PAIRS = [(api, error) for api, errors in DOCUMENTED.items() for error in f"{errors} {BROKER.get(api, '')}".split()]
