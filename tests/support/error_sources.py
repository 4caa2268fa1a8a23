"""The errors that Kafka documents for an API, read in the sources of kafka-clients (its jar ``-sources`` of Maven Central).

    class      the comment "Possible error codes" of XResponse.java
    schema     comments of XRequest.json and XResponse.json, which name the errors that a version adds
    client     the errors that Kafka's own client names where it handles the response: JoinGroup has no comment of the first kind

The broker returns a few more, which none of these names; they are in BROKER, with the class that has them.

NONE is none, and so are errors that a client gives itself, for which there is no response.
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
    """The sources jar of kafka-clients of a release; Maven keeps it."""

    def __init__(self, release: str = jars.NEWEST) -> None:
        with tempfile.TemporaryDirectory() as folder:
            what = f"-Dartifact=org.apache.kafka:kafka-clients:{release}:jar:sources"
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
