"""PROXY protocol against the specification's own examples, the package proxy-protocol, and haproxy itself."""

import contextlib
import socket
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from proxyprotocol.v1 import ProxyProtocolV1
from proxyprotocol.v2 import ProxyProtocolV2

from kproxy.errors import ProxyProtocolError
from kproxy.protocol.addresses import join_address
from kproxy.proxy.network.proxy_protocol import V1_OWN, V2_OWN, Header, read_header, write_v1, write_v2
from tests.conftest import Require
from tests.support.haproxy import PROGRAM, haproxy
from tests.support.ports import free_ports

SIGNATURE = bytes.fromhex("0d0a0d0a000d0a515549540a")  # section 2.2 of the specification
V4_BLOCK = bytes([192, 168, 0, 1, 192, 168, 0, 11]) + (56324).to_bytes(2) + (443).to_bytes(2)
V6_BLOCK = bytes(15) + b"\x01" + bytes(15) + b"\x02" + (1).to_bytes(2) + (65535).to_bytes(2)
LONGEST = b"PROXY UNKNOWN " + b" ".join([b"ffff:f...f:ffff".ljust(39, b"f")] * 2 + [b"65535"] * 2) + b"\r\n"

ports = st.integers(0, 65535)
v4 = st.tuples(st.ip_addresses(v=4).map(str), ports)
v6 = st.tuples(st.ip_addresses(v=6).filter(lambda ip: ip.ipv4_mapped is None).map(str), ports)
pairs = st.tuples(v4, v4) | st.tuples(v6, v6)


def v2(command: int, kind: int, block: bytes, length: int | None = None) -> bytes:
    return SIGNATURE + bytes([command, kind]) + (len(block) if length is None else length).to_bytes(2) + block


GOOD = [
    # Section 2.1's example, its longest line, and what it says of UNKNOWN.
    (b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\n", "192.168.0.1:56324", "192.168.0.11:443"),
    (b"PROXY TCP6 ::1 2001:db8::2 0 65535\r\n", "[::1]:0", "[2001:db8::2]:65535"),
    (
        b"PROXY TCP6 " + b" ".join([b"ffff:" * 7 + b"ffff"] * 2) + b" 65535 65535\r\n",
        *[f"[{'ffff:' * 7}ffff]:65535"] * 2,
    ),
    (b"PROXY UNKNOWN\r\n", None, None),
    (LONGEST, None, None),
    # Section 2.2: families, LOCAL, UNIX, datagrams, TLVs.
    (v2(0x21, 0x11, V4_BLOCK), "192.168.0.1:56324", "192.168.0.11:443"),
    (v2(0x21, 0x21, V6_BLOCK), "[::1]:1", "[::2]:65535"),
    (v2(0x21, 0x11, V4_BLOCK + b"\x03\x00\x04abcd\x04\x00\x00"), "192.168.0.1:56324", "192.168.0.11:443"),
    (v2(0x21, 0x21, V6_BLOCK + bytes(4_060)), "[::1]:1", "[::2]:65535"),
    (v2(0x20, 0x00, b""), None, None),
    (v2(0x20, 0x11, V4_BLOCK), None, None),
    (v2(0x20, 0xFF, b"ignored"), None, None),
    (v2(0x21, 0x00, b""), None, None),
    (v2(0x21, 0x12, V4_BLOCK), None, None),
    (v2(0x21, 0x31, bytes(216)), None, None),
]


@pytest.mark.parametrize(("data", "source", "destination"), GOOD, ids=lambda value: str(value)[:40])
def test_headers_are_read_whole_byte_by_byte_and_with_what_follows(
    data: bytes, source: str | None, destination: str | None
) -> None:
    expected = Header(1 if data.startswith(b"PROXY") else 2, len(data), source, destination)
    assert read_header(data) == expected
    assert read_header(data + b"\x00\x00\x00\x10\r\n") == expected
    assert [read_header(data[:cut]) for cut in range(len(data))] == [None] * len(data)


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00\x00\x23\x00\x12\x00\x03",  # a client that came without a balancer
        b"\x16\x03\x01\x02\x00\x01",
        b"GET / HTTP/1.1\r\n",
        b"proxy TCP4",
        b"PROXYTCP4",
        b"PROXY\r\n",
        b"PROXY \r\n",
        b"PROXY TCP5 1.2.3.4 1.2.3.4 1 1\r\n",
        b"PROXY TCP4\r\n",
        b"PROXY TCP4  1.2.3.4 1.2.3.4 1 1\r\n",
        b"PROXY TCP4 ::1 ::1 1 1\r\n",
        b"PROXY TCP6 1.2.3.4 1.2.3.4 1 1\r\n",
        b"PROXY TCP4 1.2.3.04 1.2.3.4 1 1\r\n",
        b"PROXY TCP6 fe80::1%eth0 ::1 1 1\r\n",
        b"PROXY TCP4 1.2.3.\xff 1.2.3.4 1 1\r\n",
        *(
            b"PROXY TCP4 1.2.3.4 1.2.3.4 " + ports + b"\r\n"
            for ports in (b"1", b"1 1 1", b"65536 1", b"01 1", b"-1 1", b"+1 1", b"1_0 1", b"\xb2 1")
        ),
        b"PROXY UNKNOWN" + b"x" * 94,  # 107 bytes, no end
        LONGEST[:-2] + b"x\r\n",  # 108
        SIGNATURE[:-1] + b"!",
        b"\r\nQUIT",
        v2(0x11, 0x11, V4_BLOCK),  # version 1 in version 2's clothes
        v2(0x22, 0x11, V4_BLOCK),
        v2(0x21, 0x41, V4_BLOCK),
        v2(0x21, 0x13, V4_BLOCK),
        v2(0x21, 0x11, V4_BLOCK[:-1]),
        v2(0x21, 0x21, V4_BLOCK),
        v2(0x21, 0x31, bytes(215)),
        v2(0x21, 0x11, b"", 4_097),  # refused before it came
        v2(0x20, 0x00, b"", 65_535),
    ],
    ids=lambda data: repr(data[:40]),
)
def test_what_is_no_header_is_refused(data: bytes) -> None:
    with pytest.raises(ProxyProtocolError, match="PROXY"):
        read_header(data)


@given(
    st.binary(max_size=300)
    | st.binary(max_size=300).map(lambda b: b"PROXY TCP4 " + b)
    | st.binary().map(SIGNATURE.__add__)
)
def test_any_bytes_are_a_header_the_beginning_of_one_or_refused(data: bytes) -> None:
    with contextlib.suppress(ProxyProtocolError):
        header = read_header(data)
        assert header is None or header.size <= len(data)


@given(pairs)
def test_the_other_implementation_reads_what_we_write(pair: tuple[tuple[str, int], tuple[str, int]]) -> None:
    source, destination = (join_address(*end) for end in pair)
    for read in (
        ProxyProtocolV1().unpack(write_v1(source, destination)),
        ProxyProtocolV2().unpack(write_v2(source, destination)),
    ):
        assert (read.peername[:2], read.sockname[:2]) == pair


@given(pairs)
def test_we_read_what_the_other_implementation_writes(pair: tuple[tuple[str, int], tuple[str, int]]) -> None:
    source, destination = (join_address(*end) for end in pair)
    result = ProxyProtocolV2().unpack(write_v2(source, destination))
    for version, data in ((1, ProxyProtocolV1().pack(result)), (2, ProxyProtocolV2().pack(result))):
        assert read_header(data) == Header(version, len(data), source, destination)


def test_mixed_families_are_told_as_ipv6_and_mapped_ones_as_ipv4() -> None:
    mixed = ProxyProtocolV1().unpack(write_v1("10.0.0.1:5", "[2001:db8::1]:6"))
    assert (mixed.peername[0], mixed.sockname[0]) == ("::ffff:a00:1", "2001:db8::1")
    assert write_v1("[::ffff:10.0.0.1]:5", "[::ffff:10.0.0.2]:6") == b"PROXY TCP4 10.0.0.1 10.0.0.2 5 6\r\n"
    assert write_v1("[fe80::1%2]:5", "[::1]:6") == b"PROXY TCP6 fe80::1 ::1 5 6\r\n"


def test_what_is_our_own_names_nobody() -> None:
    for ours, theirs in ((V1_OWN, ProxyProtocolV1()), (V2_OWN, ProxyProtocolV2())):
        assert theirs.unpack(ours).source is None
        assert read_header(ours) == Header(1 if ours is V1_OWN else 2, len(ours))


def test_a_name_cannot_be_written() -> None:
    for write in (write_v1, write_v2):
        with pytest.raises(ProxyProtocolError, match="broker:9092"):
            write("10.0.0.1:1", "broker:9092")


@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
@pytest.mark.parametrize(("word", "version"), [("send-proxy", 1), ("send-proxy-v2", 2), ("send-proxy-v2 crc32c", 2)])
def test_we_read_what_haproxy_sends(require: Require, tmp_path: Path, host: str, word: str, version: int) -> None:
    require("haproxy", PROGRAM, "haproxy is not installed")
    word = word.replace(" crc32c", " proxy-v2-options crc32c")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    port = free_ports()
    with socket.create_server((host, 0), family=family) as server:
        server.settimeout(10)
        target = join_address(host, server.getsockname()[1])
        configuration = f"listen l\n mode tcp\n bind {join_address(host, port)}\n server s {target} {word}\n"
        with haproxy(tmp_path, configuration, port, host):
            server.accept()[0].close()  # the connection that found haproxy up
            with socket.create_connection((host, port)) as client:
                client.sendall(b"hello")
                received, header = b"", None
                with server.accept()[0] as accepted:
                    while header is None or len(received) < header.size + 5:
                        received += accepted.recv(1)
                        header = read_header(received)
                assert received[header.size :] == b"hello"
                assert header.version == version
                assert header.source == join_address(*client.getsockname()[:2])
                assert header.destination == join_address(host, port)


@pytest.mark.parametrize("ends", [("192.0.2.7:1234", "198.51.100.9:9092"), ("[2001:db8::7]:1", "[2001:db8::9]:65535")])
@pytest.mark.parametrize("write", [write_v1, write_v2])
def test_haproxy_reads_what_we_send(require: Require, tmp_path: Path, ends: tuple[str, str], write: type) -> None:
    require("haproxy", PROGRAM, "haproxy is not installed")
    port = free_ports()
    echo = 'http-request return status 200 content-type text/plain lf-string "%[src] %[src_port] %[dst] %[dst_port]"'
    configuration = f"frontend f\n mode http\n bind 127.0.0.1:{port} accept-proxy\n {echo}\n"
    with haproxy(tmp_path, configuration, port), socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(write(*ends) + b"GET / HTTP/1.0\r\n\r\n")
        answer = b"".join(iter(lambda: client.recv(4096), b"")).decode()
    source, source_port, destination, destination_port = answer.rpartition("\r\n")[2].split()
    assert (join_address(source, int(source_port)), join_address(destination, int(destination_port))) == ends
