"""What a connection says carries its direction and time."""

from kproxy.capture.tls import Lost, Plain, TlsItem, TlsProblem
from tests.support.tls import REQUEST, RESPONSE, Pair, listen


def test_the_time_of_data_is_that_of_the_chunk_which_completed_its_record() -> None:
    pair = Pair().handshake()
    pair.send(REQUEST, b"hello")
    direction, data = pair.chunks.pop()
    at = len(pair.chunks)
    heard = listen([*pair.chunks, (direction, data[:7]), (direction, data[7:])], pair.keylog)
    (plain,) = [item for item in heard.items if isinstance(item, Plain)]
    assert (plain.direction, plain.at, plain.data) == (REQUEST, at + 1, b"hello")


def test_all_of_them_are_items() -> None:
    for item in (Lost(REQUEST, 1), Plain(RESPONSE, 1, b""), TlsProblem(REQUEST, 1, "why")):
        assert isinstance(item, TlsItem)
        assert item.at == 1
