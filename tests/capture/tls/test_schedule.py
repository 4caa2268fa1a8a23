"""Keys from secrets, against RFC 8448's traces and the vector for TLS 1.2's PRF that its implementers share."""

import pytest

from kproxy.capture.tls.schedule import expand_label, keys_12, keys_13, next_secret, prf_12
from kproxy.capture.tls.suites import SUITES

# RFC 8448 section 3, "Simple 1-RTT Handshake", TLS_AES_128_GCM_SHA256: handshake secrets with their keys and IVs.
TRACES = [
    (
        "b3eddb126e067f35a780b3abf45e2d8f3b1a950738f52e9600746a0e27a55a21",
        "dbfaa693d1762c5b666af5d950258d01",
        "5bd3c71b836e0b76bb73265f",
    ),
    (
        "b67b7d690cc16c4e75e54213cb2d37b4e9c912bcded9105d42befd59d391ad38",
        "3fce516009c21727d0f2e4e86ee403bc",
        "5d313eb2671276ee13000b30",
    ),
]


@pytest.mark.parametrize(("secret", "key", "iv"), TRACES)
def test_traffic_keys_of_rfc_8448(secret: str, key: str, iv: str) -> None:
    keys = keys_13(bytes.fromhex(secret), SUITES[0x1301])
    assert (keys.key.hex(), keys.iv.hex()) == (key, iv)


def test_prf_of_tls12() -> None:
    out = prf_12(
        bytes.fromhex("9bbe436ba940f017b17652849a71db35"),
        b"test label",
        bytes.fromhex("a0ba9f936cda311827a6f796ffd5198c"),
        100,
        "sha256",
    )
    assert out.hex() == (
        "e3f229ba727be17b8d122620557cd453c2aab21d07c3d495329b52d4e61edb5a6b301791e90d35c9c9a46b4e14baf9af0fa022f7"
        "077def17abfd3797c0564bab4fbc91666e9def9b97fce34f796789baa48082d122ee42c5a72e5a5110fff70187347b66"
    )


def test_an_updated_secret_has_the_size_of_the_hash() -> None:
    for number, size in ((0x1301, 32), (0x1302, 48), (0x1303, 32)):
        assert len(next_secret(bytes(size), SUITES[number])) == size


def test_the_key_block_is_cut_in_the_order_of_rfc_5246() -> None:
    suite = SUITES[0xC028]  # AES-256 and HMAC-SHA384: 48 + 48 + 32 + 32 bytes
    client, broker = keys_12(bytes(48), bytes(32), bytes(range(32)), suite)
    block = prf_12(bytes(48), b"key expansion", bytes(range(32)) + bytes(32), 160, "sha384")
    assert client.mac + broker.mac + client.key + broker.key == block


def test_more_than_a_hash_can_be_expanded() -> None:
    assert expand_label(bytes(32), b"x", 100, "sha256")[:32] != expand_label(bytes(32), b"x", 32, "sha256")


def test_keys_do_not_show() -> None:
    assert TRACES[0][1] not in repr(keys_13(bytes.fromhex(TRACES[0][0]), SUITES[0x1301]))
    assert "key=" not in repr(keys_13(bytes(32), SUITES[0x1301]))
