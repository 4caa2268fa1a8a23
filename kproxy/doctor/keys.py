"""Does the key service of the filter encrypt make and unwrap data keys by the keys that the rules name? It is asked for one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import closing

from kproxy.config.structs import Cluster
from kproxy.doctor.findings import Finding, good, note, problem
from kproxy.encryption.services import key_service
from kproxy.errors import UsageError
from kproxy.options import read_options

ADVICE = "produce requests are refused until it does; kproxy keys FILE --check KEY tries it alone"
BY_TOPIC = "kproxy keys FILE --check KEY tries the key of one topic"


async def examine_keys(cluster: Cluster) -> AsyncIterator[Finding]:
    """Ask for one data key by each key that a rule of encrypt writes with, and have it unwrapped; so also those of record keys.

    Keys whose name depends on the topic are not tried. After a KeyServiceAway the key service is not asked again.
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
        for name in options.names_by_topic():
            subject = f"{cluster.name}: key {name} of {options.keys.use}"
            yield note(subject, "not tried, as its name depends on the topic", BY_TOPIC)
        with closing(opened) as service:
            tried = options.try_keys(service, cluster.name)
            while (one := await asyncio.to_thread(next, tried, None)) is not None:
                subject = f"{cluster.name}: key {one.key_name} of {options.keys.use}"
                yield good(subject, one.done) if one.error is None else problem(subject, str(one.error), ADVICE)
