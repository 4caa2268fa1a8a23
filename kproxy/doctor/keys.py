"""The filter encrypt: does its key service make and unwrap data keys by the keys of the rules, and are there such topics?"""

import asyncio
import stat
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import closing, suppress
from fnmatch import filter as named_so
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from kproxy.config.structs import Cluster
from kproxy.doctor.broker import Broker, NoTls, ask_topics
from kproxy.doctor.findings import Finding, good, note, problem, warning
from kproxy.encryption.services import KeyServiceAway, key_service
from kproxy.encryption.services.contract import try_key
from kproxy.encryption.services.settings import FILE
from kproxy.errors import KproxyError, UsageError, close_names
from kproxy.filters.matching import rule_of
from kproxy.login.client_settings import Credentials
from kproxy.options import quoted, read_options

if TYPE_CHECKING:
    from kproxy.filters.encrypt import EncryptOptions

ADVICE = "produce requests are refused until it does; kproxy keys FILE --check KEY tries it alone"
MADE = "a data key was made and unwrapped"
MOST_BY_TOPIC = 20
SECRET_FILES = ("key_file", "key")  # options that are names of files with secrets
BY_TOPIC = "kproxy keys FILE --check KEY tries the key of one topic"


async def examine_keys(cluster: Cluster, topics: Sequence[str] = ()) -> AsyncIterator[Finding]:
    """Ask for one data key by each key that a rule of encrypt writes with, and have it unwrapped; so also those of record keys.

    Of keys whose name depends on the topic, the first MOST_BY_TOPIC are tried. After a KeyServiceAway the key service is not
    asked again.

    Args:
        cluster: its configuration.
        topics: all that are known.
    """
    from kproxy.filters.encrypt import Tried  # noqa: PLC0415 - few configurations encrypt

    for _, options in _encrypting(cluster):
        try:
            opened = key_service(options.keys)
        except UsageError as error:
            yield problem(f"{cluster.name}: key service {options.keys.use}", str(error), ADVICE)
            continue
        for finding in _readable_by_all(cluster, options):
            yield finding
        names = _names_by_topic(options, cluster.name, topics)
        for template in options.names_by_topic() if len(names) > MOST_BY_TOPIC or not names else ():
            what = f"only {MOST_BY_TOPIC} of {len(names)} are tried" if names else "not tried"
            subject = f"{cluster.name}: key {template} of {options.keys.use}"
            yield note(subject, f"{what}, as its name depends on the topic", BY_TOPIC)
        with closing(opened) as service:
            of_topics = (
                Tried.asking(partial(try_key, service, name), "", name, MADE) for name in names[:MOST_BY_TOPIC]
            )
            tried = chain(options.try_keys(service, cluster.name), of_topics)
            while (one := await asyncio.to_thread(next, tried, None)) is not None:
                subject = f"{cluster.name}: key {one.key_name} of {options.keys.use}"
                yield good(subject, one.done) if one.error is None else problem(subject, str(one.error), ADVICE)
                if isinstance(one.error, KeyServiceAway):
                    break


def _names_by_topic(options: "EncryptOptions", cluster: str, topics: Sequence[str]) -> list[str]:
    """Return the keys that topics are written with and that depend on their names, each once."""
    templates = set(options.names_by_topic())
    names: dict[str, None] = {}
    for topic in topics:
        rule = rule_of(options.rules, topic)
        if rule is not None and rule.writes == "encrypted" and rule.key in templates:
            names[rule.key.format(topic=topic, cluster=cluster)] = None
    return list(names)


def _readable_by_all(cluster: Cluster, options: "EncryptOptions") -> Iterator[Finding]:
    """Warn of files with secrets of the key service that every user of this machine can read."""
    service = options.keys.options()
    values = {name: str(getattr(service, name)) for name in service.__struct_fields__}
    for name, value in values.items():
        file = Path(value.removeprefix(FILE))
        with suppress(OSError, ValueError):  # said where it is read
            if (value.startswith(FILE) or name in SECRET_FILES) and file.stat().st_mode & stat.S_IROTH:
                advice = "chmod 600, for the user that kproxy runs as (in Kubernetes: defaultMode of the volume)"
                yield warning(f"{cluster.name}: {file}", "every user of this machine can read this secret", advice)


async def examine_rules(
    cluster: Cluster, broker: Broker, patience: float, login: Credentials | None, known: list[str]
) -> AsyncIterator[Finding]:
    """Name the topics and patterns of rules of encrypt that no topic has: those who misspelt one write it plain.

    *known*: gets the topics of the cluster, if there are such rules.
    """
    for place, options in _encrypting(cluster):
        subject = f"{cluster.name}: topics of {place}"
        if not known:
            try:
                if broker.wants_login and not broker.logged_in:
                    raise KproxyError("brokers tell them only after a login")
                known += await ask_topics(cluster, broker, patience, login)
            except (KproxyError, NoTls, OSError, EOFError) as error:
                why = str(error) or "no answer in time"
                yield note(subject, f"not compared with those of the cluster: {why}")
                return
        without = [
            (f"rules[{number}]", topic)
            for number, rule in enumerate(options.rules)
            for topic in rule.topics
            if not named_so(known, topic)
        ]
        for rule, topic in without:
            close = " or ".join(map(quoted, close_names(topic, known)))
            meant = f"did you mean {close}?" if close else "if it is misspelt, correct it."
            advice = f"{meant} Values of topics that no rule names are written plain"
            yield warning(f"{subject}, {rule}", f"the broker tells of no topic {quoted(topic)}", advice)
        if not without:
            yield good(subject, "the cluster has them")


def _encrypting(cluster: Cluster) -> "Iterator[tuple[str, EncryptOptions]]":
    """Yield the place and the options of each filter encrypt."""
    from kproxy.filters.encrypt import Encrypt, EncryptOptions  # noqa: PLC0415 - few configurations encrypt
    from kproxy.filters.loading import filter_class  # noqa: PLC0415

    for number, use in enumerate(cluster.filters):
        if issubclass(filter_class(use.use), Encrypt):
            yield f"filters[{number}]", read_options(EncryptOptions, use.with_)
