"""What other people's decoders read in a response: kio's and kafka-python's, where they know it."""

import importlib
import importlib.util
import re
import warnings
from collections.abc import Iterator
from typing import Any

AVAILABLE = all(importlib.util.find_spec(name) for name in ("kio", "kafka"))
KAFKA_PYTHON_ROOMS = ("admin", "consumer", "metadata", "producer")

Address = tuple[int, str, int]  # node id, host, port


def kio_decoded(name: str, version: int, body: bytes) -> Any:
    """The response as kio decodes it, to its last byte; None when kio does not know it."""
    api = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name.removesuffix("Response")).lower()
    try:
        module = importlib.import_module(f"kio.schema.{api}.v{version}.response")
    except ModuleNotFoundError:
        return None
    value, size = importlib.import_module("kio.serial").entity_reader(getattr(module, name))(body, 0)
    assert size == len(body), f"kio leaves {len(body) - size} bytes"
    return value


def kafka_python_decoded(name: str, version: int, body: bytes) -> Any:
    """The response as kafka-python decodes it; None when it does not know it."""
    for room in KAFKA_PYTHON_ROOMS:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of how it reads its own definitions
            found = getattr(importlib.import_module(f"kafka.protocol.{room}"), name, None)
        if found is not None and found.min_version <= version <= found.max_version:
            return found.decode(body, version=version)
    return None


def addresses(value: Any) -> list[Address]:
    """Node id, host and port of everything in a decoded response that has a host and a port."""
    return sorted(_addresses(value, -1))


def _addresses(value: Any, node_id: int) -> Iterator[Address]:
    if isinstance(value, list | tuple):
        for entry in value:
            yield from _addresses(entry, node_id)
        return
    if not hasattr(value, "__slots__") and not hasattr(value, "fields"):
        return
    ids = (getattr(value, name, None) for name in ("node_id", "broker_id", "leader_id"))
    node_id = next((int(found) for found in ids if found is not None), node_id)
    host, port = getattr(value, "host", None), getattr(value, "port", None)
    if host is not None and port is not None:
        yield node_id, str(host), int(port)
    for name in _names(value):
        yield from _addresses(getattr(value, name, None), node_id)


def _names(value: Any) -> list[str]:
    dataclass_fields = getattr(value, "__dataclass_fields__", None)
    if dataclass_fields is not None:
        return list(dataclass_fields)
    return [field for field in getattr(value, "fields", ()) if isinstance(field, str)]
