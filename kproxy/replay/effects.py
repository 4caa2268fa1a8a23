"""Effects: what requests would create, write, change and delete on a cluster, by Kafka's names.

protocol/api_judgements.txt says which APIs change something; EFFECTS says what each of them changes. A test compares the two, and
compares both with Kafka: with what brokers forward to the controller (ApiKeys.forwardable), and with the operation that each API
needs ("Operations and resources on protocols" in the chapter on security of Kafka's documentation): an API that needs another
one than Describe or Read changes something. Requests that the new cluster will refuse are counted too: which these are is not
known before, and the recorded answers are not looked at.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from kproxy.protocol import ApiKey
from kproxy.protocol.constants import ZERO_UUID
from kproxy.protocol.records import count_records
from kproxy.protocol.values import describe
from kproxy.replay.recording import Recorded

MOST_SUBJECTS = 10_000  # counted by name; further ones are counted together as "others"
OTHERS = "others, too many to list"
_OFFSETS = "offsets of group {body.group_id}"


class Verb(StrEnum):
    """What a request does to something."""

    CREATE = "create"
    WRITE = "write"
    CHANGE = "change"
    DELETE = "delete"
    TAKE_PART = "join"  # a group, whose present members rebalance; a transactional id, whose present producer is fenced


@dataclass
class Effects:
    """What requests would do: counts for each verb and subject."""

    names: Mapping[str, str] = field(default_factory=dict)  # topic id -> topic
    found: dict[tuple[Verb, str], Counter[str]] = field(default_factory=dict)
    reads: Counter[str] = field(default_factory=Counter)  # API -> requests without an effect

    def add(self, recorded: Recorded, body: Any) -> None:
        """Add what a decoded request would do."""
        effect = EFFECTS.get(recorded.api_key)
        if effect is None:
            self.reads[recorded.api_name] += 1
        else:
            effect(self, body)

    def note(self, verb: Verb, subject: str, **counts: int) -> None:
        """Add counts for a subject."""
        key = (verb, subject)
        if key not in self.found and len(self.found) >= MOST_SUBJECTS:
            key = (verb, OTHERS)
        self.found.setdefault(key, Counter()).update(counts)

    def topic(self, entry: Any) -> str:
        """Return the topic in a struct as "topic NAME", by its name or its id."""
        by_attribute = entry.by_attribute
        name = next((getattr(entry, a) for a in ("name", "topic", "topic_name") if a in by_attribute), None)
        topic_id = getattr(entry, "topic_id", ZERO_UUID) if "topic_id" in by_attribute else ZERO_UUID
        return f"topic {name or self.names.get(topic_id) or f'of id {topic_id}'}"


def _produce(effects: Effects, body: Any) -> None:
    for topic in body.topic_data:
        for partition in topic.partition_data:
            records = partition.records or b""
            counts = {"records": count_records(records), "bytes": len(records)}
            if body.transactional_id:
                counts["records in transactions"] = counts["records"]
            effects.note(Verb.WRITE, effects.topic(topic), **counts)


def _create_topics(effects: Effects, body: Any) -> None:
    for topic in () if body.validate_only else body.topics:
        partitions = len(topic.assignments) or max(topic.num_partitions, 0)
        effects.note(Verb.CREATE, effects.topic(topic), partitions=partitions, settings=len(topic.configs))


def _delete_topics(effects: Effects, body: Any) -> None:
    for topic in body.topics:
        effects.note(Verb.DELETE, effects.topic(topic), topics=1)
    for name in body.topic_names:
        effects.note(Verb.DELETE, f"topic {name}", topics=1)


def _leave(effects: Effects, body: Any) -> None:
    leaving = len(body.members) or 1  # versions before 3 name one (KIP-345)
    effects.note(Verb.TAKE_PART, f"group {body.group_id}", **{"members leaving": leaving})


def _init_producer(effects: Effects, body: Any) -> None:
    if body.transactional_id:
        what = f"transactional id {body.transactional_id}"
        effects.note(Verb.TAKE_PART, what, **{"new epochs, fencing its present producer": 1})
    else:
        effects.note(Verb.CREATE, "producer ids", ids=1)


def _add_partitions(effects: Effects, body: Any) -> None:
    added = sum(len(topic.partitions) for topic in body.v3_and_below_topics)
    effects.note(Verb.WRITE, f"transactions of {body.v3_and_below_transactional_id}", **{"partitions added": added})


def _end_transaction(effects: Effects, body: Any) -> None:
    what = f"transactions of {body.transactional_id}"
    effects.note(Verb.WRITE, what, **{"commits" if body.committed else "aborts": 1})


def _alter_configs(effects: Effects, body: Any, subject: str = "{}") -> None:
    for resource in () if body.validate_only else body.resources:
        kind = describe("AlterConfigsRequest", "resourceType", resource.resource_type) or resource.resource_type
        settings = f"settings of {str(kind).lower()} {resource.resource_name}"
        effects.note(Verb.CHANGE, subject.format(settings), settings=len(resource.configs))


def _replace_configs(effects: Effects, body: Any) -> None:
    """Note that AlterConfigs replaces all settings of a resource (KIP-133); IncrementalAlterConfigs does not (KIP-339)."""
    _alter_configs(effects, body, "all {}: those that are not named go back to their defaults")


def _alter_quotas(effects: Effects, body: Any) -> None:
    for entry in () if body.validate_only else body.entries:
        entity = ", ".join(f"{one.entity_type} {one.entity_name or 'by default'}" for one in entry.entity)
        effects.note(Verb.CHANGE, f"quotas of {entity}", quotas=len(entry.ops))


def _delete_acls(effects: Effects, body: Any) -> None:
    for one in body.filters:
        effects.note(Verb.DELETE, f"ACLs of {one.principal_filter or 'anyone'}", filters=1)


def _alter_scram(effects: Effects, body: Any) -> None:
    _each(Verb.CHANGE, "SCRAM credentials of {one.name}", "upsertions", "credentials")(effects, body)
    _each(Verb.DELETE, "SCRAM credentials of {one.name}", "deletions", "credentials")(effects, body)


def _elect_leaders(effects: Effects, body: Any) -> None:
    if body.topic_partitions is None:
        effects.note(Verb.CHANGE, "leaders of all partitions", requests=1)
    else:
        _each(Verb.CHANGE, "leaders of {topic}", "topic_partitions", "partitions", of="partitions")(effects, body)


def _alter_log_dirs(effects: Effects, body: Any) -> None:
    for one in body.dirs:
        _each(Verb.CHANGE, "log directories of {topic}", "topics", "partitions", of="partitions")(effects, one)


Effect = Callable[[Effects, Any], None]


def _once(verb: Verb, subject: str, unit: str = "requests", *, of: str = "") -> Effect:
    """Make the effect of a request on one subject, which may name fields of its body.

    It counts the elements of the array *of* in *unit*, or 1."""

    def effect(effects: Effects, body: Any) -> None:
        if not getattr(body, "validate_only", False):
            effects.note(verb, subject.format(body=body), **{unit: len(getattr(body, of)) if of else 1})

    return effect


def _each(verb: Verb, subject: str, elements: str, unit: str, *, of: str = "") -> Effect:
    """Make the effect of a request on each of its *elements*: *subject* may name fields of the body, of *one*, and its *topic*.

    It counts in *unit* the elements of the array *of* in each, or 1."""

    def effect(effects: Effects, body: Any) -> None:
        for one in () if getattr(body, "validate_only", False) else getattr(body, elements):
            topic = effects.topic(one) if "{topic}" in subject else ""
            what = subject.format(body=body, one=one, topic=topic)
            effects.note(verb, what, **{unit: len(getattr(one, of)) if of else 1})

    return effect


_IN_GROUP = _once(Verb.TAKE_PART, "group {body.group_id}")
_SHARE = _once(Verb.TAKE_PART, "group {body.group_id}", "requests for records, or acknowledging them")
EFFECTS: dict[int, Effect] = {  # for each API that changes something
    ApiKey.PRODUCE: _produce,
    ApiKey.CREATE_TOPICS: _create_topics,
    ApiKey.CREATE_PARTITIONS: _each(Verb.CHANGE, "{topic}, to {one.count} partitions", "topics", "requests"),
    ApiKey.DELETE_TOPICS: _delete_topics,
    ApiKey.DELETE_RECORDS: _each(Verb.DELETE, "records of {topic}", "topics", "partitions", of="partitions"),
    ApiKey.OFFSET_COMMIT: _each(Verb.WRITE, _OFFSETS, "topics", "partitions", of="partitions"),
    ApiKey.TXN_OFFSET_COMMIT: _each(Verb.WRITE, _OFFSETS, "topics", "partitions", of="partitions"),
    ApiKey.OFFSET_DELETE: _once(Verb.DELETE, _OFFSETS, "topics", of="topics"),
    ApiKey.ALTER_SHARE_GROUP_OFFSETS: _once(Verb.CHANGE, _OFFSETS, "topics", of="topics"),
    ApiKey.DELETE_SHARE_GROUP_OFFSETS: _once(Verb.DELETE, _OFFSETS, "topics", of="topics"),
    ApiKey.DELETE_GROUPS: _each(Verb.DELETE, "group {one}", "groups_names", "groups"),
    ApiKey.JOIN_GROUP: _IN_GROUP,
    ApiKey.SYNC_GROUP: _IN_GROUP,
    ApiKey.HEARTBEAT: _IN_GROUP,
    ApiKey.LEAVE_GROUP: _leave,
    ApiKey.CONSUMER_GROUP_HEARTBEAT: _IN_GROUP,
    ApiKey.SHARE_GROUP_HEARTBEAT: _IN_GROUP,
    ApiKey.STREAMS_GROUP_HEARTBEAT: _IN_GROUP,
    ApiKey.SHARE_FETCH: _SHARE,
    ApiKey.SHARE_ACKNOWLEDGE: _SHARE,
    ApiKey.INIT_PRODUCER_ID: _init_producer,
    ApiKey.ADD_PARTITIONS_TO_TXN: _add_partitions,
    ApiKey.ADD_OFFSETS_TO_TXN: _once(Verb.WRITE, "transactions of {body.transactional_id}", "groups added"),
    ApiKey.END_TXN: _end_transaction,
    ApiKey.ALTER_CONFIGS: _replace_configs,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: _alter_configs,
    ApiKey.CREATE_ACLS: _each(Verb.CREATE, "ACLs of {one.principal}", "creations", "ACLs"),
    ApiKey.DELETE_ACLS: _delete_acls,
    ApiKey.ALTER_CLIENT_QUOTAS: _alter_quotas,
    ApiKey.ALTER_USER_SCRAM_CREDENTIALS: _alter_scram,
    ApiKey.ALTER_PARTITION_REASSIGNMENTS: _each(
        Verb.CHANGE, "replicas of {topic}", "topics", "partitions", of="partitions"
    ),
    ApiKey.ELECT_LEADERS: _elect_leaders,
    ApiKey.ALTER_REPLICA_LOG_DIRS: _alter_log_dirs,
    ApiKey.CREATE_DELEGATION_TOKEN: _once(Verb.CREATE, "delegation tokens"),
    ApiKey.RENEW_DELEGATION_TOKEN: _once(Verb.CHANGE, "delegation tokens"),
    ApiKey.EXPIRE_DELEGATION_TOKEN: _once(Verb.DELETE, "delegation tokens"),
    ApiKey.UPDATE_FEATURES: _once(Verb.CHANGE, "finalized features of the cluster"),
    ApiKey.UNREGISTER_BROKER: _once(Verb.DELETE, "a broker's registration"),
    ApiKey.ADD_RAFT_VOTER: _once(Verb.CHANGE, "voters of the controllers' quorum"),
    ApiKey.REMOVE_RAFT_VOTER: _once(Verb.CHANGE, "voters of the controllers' quorum"),
    ApiKey.PUSH_TELEMETRY: _once(Verb.WRITE, "metrics of clients (telemetry)"),
}
