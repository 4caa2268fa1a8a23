"""What a real broker stores when clients write through the filter validate."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, Message, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.clients import consumed
from tests.interop.conftest import Behind
from tests.support.kafka.jars import NEWEST

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("single", [NEWEST], indirect=True)]


@pytest.mark.parametrize("settings", [{}, {"enable.idempotence": True}, {"transactional.id": "validated"}], ids=str)
def test_dead_letters_of_a_real_broker(
    behind: Behind, topic_name: str, tmp_path: Path, settings: dict[str, object]
) -> None:
    """What is valid is in the topic, what is not in the other one, whether the client numbers its batches or not."""
    (tmp_path / "7.avsc").write_text(json.dumps("string"))
    topic = topic_name.replace(".", "-")
    admin = AdminClient({"bootstrap.servers": behind.broker.open})
    for made in admin.create_topics([NewTopic(topic, 3), NewTopic(f"{topic}-dead-letters", 2)]).values():
        made.result(30)
    rule = {"topics": [topic], "values": "payload", "then": "dead_letter"}
    entrance = behind({"use": "validate", "with": {"rules": [rule]}}, schemas={"folders": [str(tmp_path)]})
    producer, refused = Producer({"bootstrap.servers": entrance.bootstrap, "linger.ms": 0, **settings}), list[bytes]()
    is_transaction = "transactional.id" in settings
    if is_transaction:
        producer.init_transactions(30)
        producer.begin_transaction()

    def report(value: bytes) -> Callable[[KafkaError | None, Message], None]:
        return lambda error, message: None if error is None else refused.append(value)

    values = [b"\0\0\0\0\7\x04" + f"{number:02}".encode() for number in range(30)]
    bad = [b"no schema %d" % number for number in range(6)]
    for at, value in enumerate(values[: 1 if is_transaction else None]):
        for one in (value, *(bad[at // 5 : at // 5 + 1] if at % 5 == 0 else ())):
            producer.produce(topic, one, partition=at % 3, on_delivery=report(one))
            producer.flush(30)
    if is_transaction:
        producer.abort_transaction(30)  # as a client has to after a record that was refused
        values, bad = [], bad[:1]
    assert refused == bad
    committed = {"isolation.level": "read_committed"}
    assert sorted(value or b"" for *_, value in consumed(behind.broker, f"{topic}-dead-letters", **committed)) == bad
    assert sorted(value or b"" for *_, value in consumed(behind.broker, topic, **committed)) == values
