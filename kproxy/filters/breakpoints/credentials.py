"""Which messages cannot be stopped, as a person would see credentials in them.

These are SASL, delegation tokens, SCRAM credentials and secret settings.

kproxy.protocol.secrets says which fields carry credentials. An API with such a field in its request or response cannot be stopped
at all, in either direction. Where the name of a setting decides (configurations), a message passes if it has one that is secret.
"""

import functools
from collections.abc import Iterable
from typing import Any

from kproxy.protocol import ApiKey, Message, MessageStruct, request_message, response_message
from kproxy.protocol.facts import Field, facts
from kproxy.protocol.ids import METADATA_TOPIC, METADATA_TOPIC_ID
from kproxy.protocol.secrets import Secrecy, secrecy

LOGIN = {ApiKey.SASL_HANDSHAKE, ApiKey.SASL_AUTHENTICATE}
# The log and snapshots of the controllers have the SCRAM credentials and delegation tokens of all users
SNAPSHOTS = {ApiKey.FETCH_SNAPSHOT}


@functools.cache
def why_api_is_refused(api_key: int) -> str | None:
    """Return why no message of an API can be stopped, as a sentence; None if messages can."""
    name = facts().apis[api_key].name
    if api_key in LOGIN:
        return f"{name} is part of a login, and cannot be stopped"
    messages = [message for message in (request_message(api_key), response_message(api_key)) if message is not None]
    if api_key in SNAPSHOTS or any(_has(message.name, Secrecy.ALWAYS) for message in messages):
        return f"{name} carries credentials, and cannot be stopped"
    return None


def carries_credentials(message: Message, version: int, value: MessageStruct) -> bool:
    """Return whether a message has a secret setting, or is about the log of the controllers."""
    if message.api_key in (ApiKey.FETCH, ApiKey.PRODUCE) and _is_of_controllers(value):
        return True
    if not _has(message.name, Secrecy.BY_NAME):
        return False
    body = message.encode(version, value)
    return message.to_json(version, body) != message.to_json(version, body, withhold=True)


def _is_of_controllers(value: Any) -> bool:
    for array in ("topics", "responses", "topic_data"):
        for topic in getattr(value, array, None) or ():
            names = (getattr(topic, name, None) for name in ("topic", "name", "topic_id"))
            if any(name in (METADATA_TOPIC, METADATA_TOPIC_ID) for name in names):
                return True
    return False


@functools.cache
def _has(message: str, wanted: Secrecy) -> bool:
    """Return whether a message has a field of that kind at any version."""
    return any(_any_field(message, layout.fields, (), wanted) for layout in facts().layouts(message))


def _any_field(message: str, fields: Iterable[Field], above: tuple[str, ...], wanted: Secrecy) -> bool:
    for field in fields:
        path = (*above, field.json_name)
        if secrecy(message, path) is wanted or _any_field(message, field.fields, path, wanted):
            return True
    return False
