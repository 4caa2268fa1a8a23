"""Ids in Kafka's text form and as bytes are the same."""

import base64

from kproxy.protocol import ids


def text_of(uuid: bytes) -> str:
    return base64.urlsafe_b64encode(uuid).decode().rstrip("=")


def test_the_text_of_an_id_is_that_of_its_bytes() -> None:
    assert text_of(bytes(16)) == ids.ZERO_UUID
    assert text_of(ids.METADATA_TOPIC_ID_BYTES) == ids.METADATA_TOPIC_ID
