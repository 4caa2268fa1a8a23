"""GrpcClient with grpcio's own server."""

import asyncio
import threading
from pathlib import Path

import grpc
import pytest

from kproxy.filters.otlp_endpoint import OtlpEndpoint
from kproxy.proxy.otlp.transport import Delivered, Outcome, Refused, Unavailable, transport_to
from tests.support.certificates import certificates
from tests.support.loops import LOOPS, run
from tests.support.otlp import grpc_collector
from tests.support.ports import free_ports


async def sent(endpoint: OtlpEndpoint) -> Outcome:
    transport = transport_to(endpoint, "traces")
    try:
        return await transport.send(b"")
    finally:
        transport.close()


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
        assert isinstance(run("asyncio", sent(to(collector.address))), kind)


@pytest.mark.parametrize("loop", LOOPS)
def test_who_hangs_is_given_up_and_who_is_not_there_too(loop: str) -> None:
    with grpc_collector() as collector:
        collector.hang = threading.Event()
        assert run(loop, sent(to(collector.address, 0.3))) == Unavailable("gRPC DEADLINE_EXCEEDED")
    assert isinstance(run(loop, sent(to(f"http://127.0.0.1:{free_ports()}", 5))), Unavailable)


def test_the_loop_goes_on_meanwhile_and_a_call_can_be_cancelled() -> None:
    async def main(address: str) -> None:
        sending = asyncio.ensure_future(sent(to(address)))
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


def test_tls_is_verified() -> None:
    made = certificates()
    pair = Path(made.server.key).read_bytes(), Path(made.server.certificate).read_bytes()
    with grpc_collector(grpc.ssl_server_credentials([pair])) as collector:
        assert run("asyncio", sent(to(collector.address, ca=made.ca))) == Delivered()
        assert isinstance(run("asyncio", sent(to(collector.address, 5, made.other_ca))), Unavailable)
