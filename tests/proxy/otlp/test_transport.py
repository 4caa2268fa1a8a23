"""transport_to: the transport that an endpoint asks for, with a collector that decodes what it gets."""

import asyncio
import socket
import ssl
import threading
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTracePartialSuccess,
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from kproxy.errors import UsageError
from kproxy.options import OtlpEndpoint
from kproxy.proxy.otlp.http_client import HttpClient
from kproxy.proxy.otlp.transport import (
    Delivered,
    Outcome,
    Refused,
    Signal,
    Unavailable,
    outcome_of_answer,
    transport_to,
)
from tests.support.backend import Serve, listening
from tests.support.certificates import certificates
from tests.support.loops import LOOPS, run
from tests.support.otlp import Answer, Collector, grpc_collector, http_collector
from tests.support.ports import free_ports

ENDPOINTS = {"http/protobuf": http_collector, "grpc": grpc_collector}


async def sent(endpoint: OtlpEndpoint, *bodies: bytes, signal: Signal = "traces") -> list[Outcome]:
    transport = transport_to(endpoint, signal)
    try:
        return [await transport.send(body) for body in bodies]
    finally:
        transport.close()


@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("protocol", ENDPOINTS)
@pytest.mark.parametrize("signal", ["traces", "metrics"])
def test_each_protocol_carries_each_signal(loop: str, protocol: str, signal: Signal) -> None:
    with ENDPOINTS[protocol]() as collector:
        endpoint = OtlpEndpoint(otlp=collector.address, protocol=protocol, headers={"Authorization": "Bearer x"})  # type: ignore[arg-type]
        assert run(loop, sent(endpoint, b"", b"", signal=signal)) == [Delivered(), Delivered()]
        assert [type(each).__name__ for each in collector.requests] == [
            f"Export{signal.title()[:-1] if signal == 'traces' else 'Metrics'}ServiceRequest"
        ] * 2
        assert [headers["authorization"] for headers in collector.headers] == ["Bearer x"] * 2


def test_a_path_stays_before_that_of_otlp() -> None:
    with http_collector() as collector:
        outcome = run("asyncio", sent(OtlpEndpoint(otlp=f"{collector.address}/tenant"), b""))
    assert outcome == [Refused("HTTP 404")]  # this collector has no /tenant/v1/traces


def test_a_file_with_authorities_that_is_missing_or_none_is_named(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("no certificate")
    for file, words in ((tmp_path / "missing", "No such file"), (other, "does not contain a certificate")):
        with pytest.raises(UsageError, match=words):
            transport_to(OtlpEndpoint(otlp="https://c:1", ca=str(file)), "traces")


def test_what_is_sent_is_what_was_given() -> None:
    body = ExportTraceServiceRequest()
    body.resource_spans.add().scope_spans.add().spans.add(name="x" * 100_000)
    for protocol, collector_of in ENDPOINTS.items():
        with collector_of() as collector:
            endpoint = OtlpEndpoint(otlp=collector.address, protocol=protocol)  # type: ignore[arg-type]
            assert run("uvloop", sent(endpoint, body.SerializeToString())) == [Delivered()]
            assert collector.requests == [body]


def test_the_number_rejected_is_read_and_rubbish_is_refused() -> None:
    partial = ExportTraceServiceResponse(
        partial_success=ExportTracePartialSuccess(rejected_spans=3, error_message="no")
    )
    assert outcome_of_answer(partial.SerializeToString()) == Delivered(3)
    assert outcome_of_answer(ExportMetricsServiceResponse().SerializeToString()) == Delivered(0)
    for rubbish in (b"<html>welcome</html>", b"\x0a\xff", b"{}", b"\x00"):
        assert isinstance(outcome_of_answer(rubbish), Refused)


def client(
    port: int, *, host: str = "127.0.0.1", timeout: float = 30, context: ssl.SSLContext | None = None
) -> HttpClient:
    return HttpClient(host, port, "/v1/traces", {}, timeout=timeout, context=context)


async def posted(to: HttpClient, count: int = 1) -> list[Outcome]:
    try:
        return [await to.send(b"") for _ in range(count)]
    finally:
        to.close()


def port_of(collector: Collector) -> int:
    return int(collector.address.rpartition(":")[2])


async def scripted(serve: Serve, count: int = 1, timeout: float = 30) -> list[Outcome]:
    """What becomes of requests to a server that does with each connection what *serve* does."""
    async with listening(serve) as port:
        return await posted(client(port, timeout=timeout), count)


def answering(data: bytes) -> Serve:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        await writer.drain()

    return serve


@pytest.mark.parametrize(
    ("answer", "outcome"),
    [
        ((200, {}, b""), Delivered()),
        ((202, {}, b""), Delivered()),
        ((200, {}, b"<html>"), Refused("the answer is not that of a collector of OTLP")),
        ((200, {}, bytes(70_000)), Refused("the answer has more than 65,536 bytes")),
        ((400, {}, b"secret"), Refused("HTTP 400")),
        ((401, {}, b""), Refused("HTTP 401")),
        ((307, {"Location": "http://elsewhere/"}, b""), Refused("HTTP 307")),
        ((500, {}, b""), Refused("HTTP 500")),
        ((429, {"Retry-After": "7"}, b""), Unavailable("HTTP 429", 7.0)),
        ((503, {"Retry-After": "99999"}, b""), Unavailable("HTTP 503", 60.0)),
        ((503, {"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, b""), Unavailable("HTTP 503")),
        ((502, {}, b""), Unavailable("HTTP 502")),
        ((504, {}, b""), Unavailable("HTTP 504")),
    ],
)
def test_answers(answer: Answer, outcome: Outcome) -> None:
    with http_collector() as collector:
        collector.answer = lambda number: answer
        assert run("asyncio", posted(client(port_of(collector)), 2)) == [outcome, outcome]


@pytest.mark.parametrize("loop", LOOPS)
def test_a_connection_is_kept_and_made_anew_when_it_was_closed(loop: str) -> None:
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        for _ in range(2):  # then it is closed without a word, as servers do with idle connections
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")

    assert run(loop, scripted(serve, 6)) == [Delivered()] * 6
    assert connections == 3


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: y\r\n" * 20_000 + b"\r\n",
        bytes(100_000),
    ],
)
def test_what_is_no_http_is_refused(data: bytes) -> None:
    [outcome] = run("asyncio", scripted(answering(data)))
    assert isinstance(outcome, Refused)
    assert "not HTTP" in outcome.reason


@pytest.mark.parametrize("data", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc"])
def test_an_answer_that_ends_early_may_come_later(data: bytes) -> None:
    [outcome] = run("asyncio", scripted(answering(data)))
    assert isinstance(outcome, Unavailable | Refused)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_hangs_or_drips_is_given_up(loop: str) -> None:
    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n")
        while True:
            writer.write(b"x: y\r\n")
            await writer.drain()
            await asyncio.sleep(0.02)

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    for serve in (drip, hang):
        assert run(loop, scripted(serve, timeout=0.3)) == [Unavailable("no answer within 0.3 s")]


def test_no_one_there_and_no_such_name() -> None:
    assert run("asyncio", posted(client(free_ports()))) == [Unavailable("Connection refused")]
    [outcome] = run("asyncio", posted(client(1, host="no-such-host.invalid")))
    assert isinstance(outcome, Unavailable)
    assert "no-such-host.invalid" in outcome.reason


def test_a_name_that_hangs_holds_up_neither_the_request_nor_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    over = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [over.wait()][1:])
    to = HttpClient("c", 1, "/", {}, timeout=0.2)
    assert run("asyncio", posted(to)) == [Unavailable("no answer within 0.2 s")]
    assert all(thread.daemon for thread in threading.enumerate() if thread.name == "export")
    over.set()


def test_tls_is_verified() -> None:
    made = certificates()
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(made.server.certificate, made.server.key)
    with http_collector(server) as collector:
        trusted = ssl.create_default_context(cafile=made.ca)
        other = ssl.create_default_context(cafile=made.other_ca)
        assert run("uvloop", posted(client(port_of(collector), context=trusted))) == [Delivered()]
        [outcome] = run("uvloop", posted(client(port_of(collector), context=other)))
    assert isinstance(outcome, Unavailable)
    assert outcome.reason.startswith("TLS: ")


def to(address: str, timeout: float = 30, ca: str | None = None) -> OtlpEndpoint:
    return OtlpEndpoint(otlp=address, protocol="grpc", timeout=timeout, ca=ca)


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (grpc.StatusCode.OK, Delivered),
        (grpc.StatusCode.UNAVAILABLE, Unavailable),
        (grpc.StatusCode.ABORTED, Unavailable),
        (grpc.StatusCode.DATA_LOSS, Unavailable),
        (grpc.StatusCode.OUT_OF_RANGE, Unavailable),
        (grpc.StatusCode.INVALID_ARGUMENT, Refused),
        (grpc.StatusCode.UNAUTHENTICATED, Refused),
        (grpc.StatusCode.UNIMPLEMENTED, Refused),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Refused),  # only with RetryInfo may it be retried
    ],
)
def test_status_codes(status: grpc.StatusCode, kind: type[Outcome]) -> None:
    with grpc_collector() as collector:
        collector.status = lambda number: status
        [outcome] = run("asyncio", sent(to(collector.address), b""))
        assert isinstance(outcome, kind)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_hangs_is_given_up_and_who_is_not_there_too(loop: str) -> None:
    with grpc_collector() as collector:
        collector.hang = threading.Event()
        assert run(loop, sent(to(collector.address, 0.3), b"")) == [Unavailable("gRPC DEADLINE_EXCEEDED")]
    [outcome] = run(loop, sent(to(f"http://127.0.0.1:{free_ports()}", 5), b""))
    assert isinstance(outcome, Unavailable)


def test_the_loop_goes_on_meanwhile_and_a_call_can_be_cancelled() -> None:
    async def main(address: str) -> None:
        sending = asyncio.ensure_future(sent(to(address), b""))
        while not started.is_set():
            await asyncio.sleep(0.01)
        sending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await sending

    started = threading.Event()
    with grpc_collector() as collector:
        collector.hang = threading.Event()

        def status(number: int) -> grpc.StatusCode:
            started.set()
            return grpc.StatusCode.OK

        collector.status = status
        run("asyncio", main(collector.address))


def test_tls_of_grpc_is_verified() -> None:
    made = certificates()
    pair = Path(made.server.key).read_bytes(), Path(made.server.certificate).read_bytes()
    with grpc_collector(grpc.ssl_server_credentials([pair])) as collector:
        assert run("asyncio", sent(to(collector.address, ca=made.ca), b"")) == [Delivered()]
        [outcome] = run("asyncio", sent(to(collector.address, 5, made.other_ca), b""))
        assert isinstance(outcome, Unavailable)
