"""OTLP/gRPC by grpcio: unary calls with messages that are encoded and decoded elsewhere.

grpcio works in threads of its own; its answers are passed to the event loop.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import grpc

from kproxy.proxy.otlp.transport import LARGEST_ANSWER, Outcome, Refused, Signal, Unavailable, outcome_of_answer

SERVICES: dict[Signal, str] = {
    "traces": "/opentelemetry.proto.collector.trace.v1.TraceService/Export",
    "metrics": "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export",
}
RETRIED = (
    grpc.StatusCode.CANCELLED,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.ABORTED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.DATA_LOSS,
)
OPTIONS = (("grpc.max_receive_message_length", LARGEST_ANSWER), ("grpc.enable_http_proxy", 0))


class GrpcClient:
    """Makes calls, one at a time. See Transport.

    Args:
        target: "host:port".
        signal: decides the service.
        headers: of each call (metadata), with names in small letters.
        tls: whether the connection is TLS; authorities: the CAs in PEM, None: those of grpcio.
        timeout: seconds for one call, connecting included.
    """

    def __init__(
        self,
        target: str,
        signal: Signal,
        headers: Mapping[str, str],
        *,
        tls: bool = False,
        authorities: bytes | None = None,
        timeout: float = 10.0,
    ) -> None:
        if tls:
            self._channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(authorities), options=OPTIONS)
        else:
            self._channel = grpc.insecure_channel(target, options=OPTIONS)
        self._call = self._channel.unary_unary(SERVICES[signal])
        self._headers = tuple(headers.items())
        self._timeout = timeout

    async def send(self, body: bytes) -> Outcome:
        loop = asyncio.get_running_loop()
        done = asyncio.Event()

        def finished(_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(done.set)

        call = self._call.future(body, timeout=self._timeout, metadata=self._headers)
        call.add_done_callback(finished)
        try:
            await done.wait()
        except asyncio.CancelledError:
            call.cancel()
            raise
        code = call.code()
        if code is grpc.StatusCode.OK:
            return outcome_of_answer(call.result())
        return Unavailable(f"gRPC {code.name}") if code in RETRIED else Refused(f"gRPC {code.name}")

    def close(self) -> None:
        self._channel.close()
