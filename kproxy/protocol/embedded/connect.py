"""The group protocols of Kafka Connect: default (version 0), compatible (1), sessioned (2).

INT16 version, then a Struct of the protocol's old types that no schema file has (ConnectProtocol,
IncrementalCooperativeConnectProtocol, KIP-415). From version 1 on a worker's metadata holds the assignment it has.
"""

from typing import Any

from kproxy.protocol.embedded.reader import Reader

PROTOCOL_TYPE = "connect"
NEWEST = 2
CONNECTOR_TASK = -1  # stands for the connector itself among the numbers of its tasks
CONNECTOR = 2 + 4  # bytes of a connector with an empty name and no tasks


def open_metadata(data: bytes, protocol: str | None) -> dict[str, Any]:
    """``version``, ``protocol``, ``value``: url, configOffset, assignment. Raises DecodeError."""
    reader = Reader("Connect metadata", data)
    version = _read_version(reader)
    value: dict[str, Any] = {"url": reader.string(), "configOffset": reader.int64()}
    if version >= 1:
        assignment = reader.nullable_bytes()
        value["assignment"] = _nested(assignment) if assignment else None
    return {"version": version, "protocol": protocol, "value": value}


def open_assignment(data: bytes) -> dict[str, Any]:
    """``version``, ``value``: error, leader, leaderUrl, configOffset, assigned, revoked, scheduledDelay.

    Assigned and revoked are ``connectors`` and ``tasks``. Raises DecodeError.
    """
    reader = Reader("Connect assignment", data)
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
    return {"version": version, "value": value}


def _nested(data: bytes) -> dict[str, Any]:
    opened = open_assignment(data)
    value: dict[str, Any] = opened["value"]
    return {"version": opened["version"]} | value


def _read_version(reader: Reader) -> int:
    """A newer version is read as the newest known one (ConnectProtocol.checkVersionCompatibility refuses only below 0)."""
    version = reader.int16()
    if version < 0:
        raise reader.malformed(f"version {version} is below 0")
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
