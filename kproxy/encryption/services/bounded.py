"""Holds any key service within bounds: the time of a call, the number of calls without an answer, and the size of answers."""

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

from kproxy.encryption.services.contract import (
    DATA_KEY_SIZE,
    MOST_WRAPPED,
    DataKey,
    KeyService,
    KeyServiceAway,
    KeyServiceError,
)

MOST_CALLS = 16  # without an answer
T = TypeVar("T")


class Bounded:
    """A key service whose calls end within *timeout* seconds.

    A call that takes longer goes on in its thread, as no thread can be ended; while MOST_CALLS do, no other begins.
    """

    def __init__(self, service: KeyService, timeout: float) -> None:
        self._service = service
        self._timeout = timeout
        self._free = threading.Semaphore(MOST_CALLS)

    def new_data_key(self, key_name: str) -> DataKey:
        """Return a new data key."""

        def made() -> DataKey:
            made = self._service.new_data_key(key_name)
            if len(made.plain) != DATA_KEY_SIZE or not 0 < len(made.wrapped) <= MOST_WRAPPED:
                sizes = f"{len(made.plain)} bytes, wrapped {len(made.wrapped)}"
                raise KeyServiceAway(f"the key service made a data key of {sizes}")
            return made

        return self._call(made)

    def unwrap(self, key_name: str, wrapped: bytes) -> bytes:
        """Return the data key that *wrapped* holds."""
        if not 0 < len(wrapped) <= MOST_WRAPPED:
            raise KeyServiceError(f"a wrapped data key has 1 to {MOST_WRAPPED:,} bytes, this one has {len(wrapped):,}")

        def unwrapped() -> bytes:
            plain = self._service.unwrap(key_name, wrapped)
            if len(plain) != DATA_KEY_SIZE:
                raise KeyServiceError(f"a data key has {DATA_KEY_SIZE} bytes, the one in this record {len(plain)}")
            return plain

        return self._call(unwrapped)

    def close(self) -> None:
        """Close the service."""
        self._service.close()

    def _call(self, call: Callable[[], T]) -> T:
        if not self._free.acquire(blocking=False):
            raise KeyServiceAway(f"the key service has not answered {MOST_CALLS} earlier calls")
        running = _Running(call, self._free.release)
        threading.Thread(target=running.run, daemon=True).start()
        if not running.done.wait(self._timeout):
            raise KeyServiceAway(f"the key service did not answer within {self._timeout:g} s")
        return running.result()


class _Running(Generic[T]):
    """A call in a thread of its own."""

    def __init__(self, call: Callable[[], T], end: Callable[[], None]) -> None:
        self._call = call
        self._end = end
        self._answers: list[T] = []
        self._error: KeyServiceError | None = None
        self.done = threading.Event()

    def run(self) -> None:
        try:
            self._answers.append(self._call())
        except KeyServiceError as error:
            self._error = error
        except Exception as error:  # its text may have anything in it
            self._error = KeyServiceAway(f"the key service failed with {type(error).__name__}")
        finally:
            self._end()
            self.done.set()

    def result(self) -> T:
        if self._error is not None:
            raise self._error
        return self._answers[0]
