"""The group protocols of Kafka Connect: default (version 0), compatible (1), sessioned (2).

INT16 version, then a Struct of the protocol's old types that no schema file has (ConnectProtocol,
IncrementalCooperativeConnectProtocol, KIP-415). From version 1 on a worker's metadata holds the assignment it has.
"""

from typing import Any

from kproxy.protocol.embedded.reader import Reader, Texts

PROTOCOL_TYPE = "connect"
NEWEST = 2
CONNECTOR_TASK = -1  # the task number of the connector itself
CONNECTOR = 2 + 4  # bytes of a connector with an empty name and no tasks


def open_metadata(data: bytes, protocol: str | None, texts: Texts | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``protocol``, ``value``: url, configOffset, assignment. *texts*: see Reader. Raises DecodeError."""
    reader = Reader("Connect metadata", data, texts=texts)
    version = _read_version(reader)
    value: dict[str, Any] = {"url": reader.string(), "configOffset": reader.int64()}
    if version >= 1:
        assignment = reader.nullable_bytes()
        value["assignment"] = _nested(reader, len(assignment)) if assignment else None
    _end(reader)
    return {"version": version, "protocol": protocol, "value": value}


def open_assignment(data: bytes, texts: Texts | None = None) -> dict[str, Any]:
    """Decode to ``version``, ``value``: error, leader, leaderUrl, configOffset, assigned, revoked, scheduledDelay.

    Assigned and revoked are ``connectors`` and ``tasks``. *texts*: see Reader. Raises DecodeError.
    """
    return _assignment(Reader("Connect assignment", data, texts=texts))


def _assignment(reader: Reader) -> dict[str, Any]:
    version = _read_version(reader)
    value: dict[str, Any] = {
        "error": reader.int16(),
        "leader": reader.string(),
        "leaderUrl": reader.string(),
        "configOffset": reader.int64(),
        "assigned": _connectors(reader),
    }
    if version >= 1:
        value |= {"revoked": _connectors(reader), "scheduledDelay": reader.int32()}
    _end(reader)
    return {"version": version, "value": value}


def _nested(metadata: Reader, size: int) -> dict[str, Any]:
    """Decode the assignment in the *size* bytes that *metadata* has just read."""
    start = metadata.position - size
    opened = _assignment(Reader("Connect assignment", metadata.data[: metadata.position], start, metadata.texts))
    value: dict[str, Any] = opened["value"]
    return {"version": opened["version"]} | value


def _end(reader: Reader) -> None:
    """Check the end: bytes of a newer version may follow, unless all texts must be noted; then there must be a text."""
    if reader.texts is not None:
        reader.end()
        if not reader.texts:
            raise reader.malformed("no text, where a worker's URL or id is expected")


def _read_version(reader: Reader) -> int:
    """Read the version; newer ones are read as the newest known, as Kafka refuses only those below 0 (ConnectProtocol)."""
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version} is below 0")
    if version > NEWEST and reader.texts is not None:
        raise reader.malformed(f"version {version} is not known, so its texts are not")
    return version


def _connectors(reader: Reader) -> dict[str, list[Any]]:
    connectors: list[Any] = []
    tasks: list[Any] = []
    for _ in range(reader.count(CONNECTOR)):
        name = reader.string() or ""
        for task in reader.int32s():
            if task == CONNECTOR_TASK:
                connectors.append(name)
            else:
                tasks.append({"connector": reader.repeated(name), "task": task})
    return {"connectors": connectors, "tasks": tasks}
