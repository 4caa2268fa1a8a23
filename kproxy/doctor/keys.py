"""Does the key service of the filter encrypt make and unwrap data keys by the keys that the rules name? It is asked for one."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from functools import partial
from typing import Any

from kproxy.config import Cluster
from kproxy.doctor.findings import Finding, good, problem
from kproxy.encryption.services import KeyService, KeyServiceAway, KeyServiceError, key_service
from kproxy.errors import UsageError
from kproxy.options import read_options

MADE = "a data key was made and unwrapped"
ADVICE = "produce requests are refused until it does; kproxy keys FILE --check KEY tries it alone"


async def examine_keys(cluster: Cluster) -> AsyncIterator[Finding]:
    """Ask for one data key by each key that a rule of encrypt writes with, and have it unwrapped; so also those of record keys.

    Keys whose name depends on the topic are left out. After a KeyServiceAway the key service is not asked again.
    """
    from kproxy.filters.encrypt import Encrypt, EncryptOptions  # noqa: PLC0415 - few configurations encrypt
    from kproxy.filters.loading import filter_class  # noqa: PLC0415

    for use in cluster.filters:
        if not issubclass(filter_class(use.use), Encrypt):
            continue
        options = read_options(EncryptOptions, use.with_)
        try:
            opened = key_service(options.keys)
        except UsageError as error:
            yield problem(f"{cluster.name}: key service {options.keys.use}", str(error), ADVICE)
            continue
        with closing(opened) as service:
            tries: list[tuple[str, Callable[[], Any], str]] = [
                (name, partial(_try_key, service, name), MADE) for name in options.names_of_keys(cluster.name)
            ]
            for name, wrapped in options.data_keys_of_record_keys():
                tries.append(
                    (name, partial(service.unwrap, name, wrapped), "the data key of record keys was unwrapped")
                )
            for name, try_it, done in tries:
                subject = f"{cluster.name}: key {name} of {options.keys.use}"
                try:
                    await asyncio.to_thread(try_it)
                except KeyServiceError as error:
                    yield problem(subject, str(error), ADVICE)
                    if isinstance(error, KeyServiceAway):
                        break
                else:
                    yield good(subject, done)


def _try_key(service: KeyService, name: str) -> None:
    """Raises KeyServiceError."""
    made = service.new_data_key(name)
    if service.unwrap(name, made.wrapped) != made.plain:
        raise KeyServiceError("the data key that was unwrapped is not the one that was made")
