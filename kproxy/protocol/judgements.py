"""Judgements: what kproxy has decided about each API, beyond Kafka's facts. They are in api_judgements.txt.

A new API of Kafka needs its place there: kproxy.extract refuses to write facts for an API without one, and a test compares both.
"""

import functools
from collections.abc import Iterable
from typing import Literal, NamedTuple, cast, get_args

from kproxy.protocol.facts import facts, read_data_file

Replay = Literal["changes", "reads", "login", "internal"]
Tenant = Literal["renamed", "untouched", "administration", "refused"]


class Judgement(NamedTuple):
    """The decisions about one API; the head of api_judgements.txt explains the words."""

    replay: Replay
    tenant: Tenant


@functools.cache
def judgements() -> dict[str, Judgement]:
    """Return the judgement of each API, by its name."""
    lines = (line.split(": ") for line in read_data_file("api_judgements.txt").splitlines() if not line.startswith("#"))
    return {name: _judgement(*words.split()) for words, names in lines for name in names.split()}


def _judgement(replay: str, tenant: str) -> Judgement:
    if replay not in get_args(Replay) or tenant not in get_args(Tenant):
        raise ValueError(f"api_judgements.txt has an unknown word: {replay} {tenant}")
    return Judgement(cast("Replay", replay), cast("Tenant", tenant))


def unjudged(names: Iterable[str]) -> list[str]:
    return [name for name in names if name not in judgements()]


@functools.cache
def apis_for_replay(*words: Replay) -> frozenset[int]:
    """Return the keys of the APIs of the facts that have one of these words as replay."""
    return frozenset(key for key, api in facts().apis.items() if judgements()[api.name].replay in words)


@functools.cache
def apis_for_tenants(*words: Tenant) -> frozenset[int]:
    """Return the keys of the APIs of the facts that have one of these words as tenant."""
    return frozenset(key for key, api in facts().apis.items() if judgements()[api.name].tenant in words)
