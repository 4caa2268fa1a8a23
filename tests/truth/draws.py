"""What a seed decides where a workload leaves it open: libraries, releases, rates, sizes, partitions, how long it waits.

What a workload names stays as it is, and so does what its truth rests on: a library is drawn only among those that have all of
the client's options and settings; members of a group have the same one; waits only become longer.
"""

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import TYPE_CHECKING, Any

from tests.support.kafka.jars import NEWEST

if TYPE_CHECKING:
    from tests.truth.lab import Workload

OLD, LAST_OF_THREE = "2.8.2", "3.9.2"
OLDEST = "0.11.0.3"  # no client of Java 4 speaks with it
JAVA_RELEASES = (OLD, LAST_OF_THREE, "4.1.2", NEWEST)
OLD_ENOUGH = (LAST_OF_THREE, OLD)  # Java's clients for the oldest broker
FEW_RECORDS = 10  # of a poll, where each takes long: librdkafka hands out one at a time
SMALL = 20_000  # bytes of a record; larger ones are there for their size
NAMED = re.compile(r"library (==|!=|in \{)|isinstance|partitioner=")  # what is true depends on the library
MODERN = re.compile(  # what old brokers do not have
    r"group_protocol|\"share\"|\"transfer\"|_streams|_worker|connect|mirror|\.tools\.|lab\.tool|incremental|zstd|cluster\.topic"
)
COUNTED = re.compile(r"assign=|idle|% \d|crc32|partition=|uneven|cluster\.topic|skew|count")  # partitions matter
TRANSACTS = re.compile(r"transact|\"paid\"")
_SAME = re.findall(
    r"\w+",
    "acks linger_ms session_timeout_ms max_poll_interval_ms heartbeat_interval_ms group_instance_id isolation_level "
    "auto_offset_reset fetch_min_bytes max_partition_fetch_bytes auto_commit_interval_ms enable_idempotence batch_size",
)
_RENAMED = {"fetch_wait_max_ms": "fetch_max_wait_ms", **{name: name for name in _SAME}}
_OF_RECORDS = {"topic", "rate", "count", "size", "keys"}
_ACCEPTED = {  # a library's role: the options (see job.py) and settings that mean the same as with librdkafka
    ("java", "produce"): _OF_RECORDS,
    ("java", "transact"): _OF_RECORDS | {"batch", "hold", "abort", "transactional_id", "transaction_timeout_ms"},
    ("java", "consume"): {"topic", "group", "pause", "commit", "poison", "assign"},
    ("kafka-python", "produce"): _OF_RECORDS | {"hot", "noise", "shift"},
    ("kafka-python", "consume"): {"topic", "group", "pause", "commit", "assign"},
    ("aiokafka", "produce"): _OF_RECORDS | {"hot", "noise"},
    ("aiokafka", "consume"): {"topic", "group", "pause"},
    ("franz-go", "produce"): {"topic", "rate"},
    ("franz-go", "consume"): {"topic", "group"},
    ("sarama", "produce"): {"topic", "rate"},
    ("sarama", "consume"): {"topic", "group"},
}
_OFTEN = {"java": 4, "kafka-python": 2, "aiokafka": 2, "franz-go": 1, "sarama": 1, "librdkafka": 1}
_GO = ("franz-go", "sarama")


@dataclass
class Draws:
    """The draws of one run; without a seed nothing is drawn."""

    seed: int | None
    work: "Workload"
    made: list[str] = field(default_factory=list)  # in words, for the manifest
    _libraries: dict[str, tuple[str, str]] = field(default_factory=dict)  # and releases, by group

    def __post_init__(self) -> None:
        self._random = Random(f"{self.seed} {self.work.name}")
        self._source = inspect.getsource(self.work.run.func) if hasattr(self.work.run, "func") else ""
        words = getattr(self.work.run, "keywords", {})
        self._source += " ".join(f"{key}={value}" for key, value in words.items())
        if self.seed is not None and self._any_broker():
            old = [OLDEST] if not re.search(r"java|sarama|admin|transact|instance_id", self._source) else []
            release = self._random.choice([OLD, OLD, LAST_OF_THREE, LAST_OF_THREE, NEWEST, *old])
            self.work = replace(self.work, release=release)
            self.made.append(f"brokers: {release}")

    def _any_broker(self) -> bool:
        work = self.work
        new = any(name.startswith(("group.consumer", "share", "group.share")) for name in work.settings)
        return work.release == NEWEST and not (work.secure or new or MODERN.search(self._source))

    def of(self, before: float, least: float, most: float, what: str) -> float:
        """Return *before* times a factor."""
        if self.seed is None or not before:
            return before
        drawn = round(before * self._random.uniform(least, most), 2)
        self.made.append(f"{what}: {before:g} becomes {drawn:g}")
        return drawn

    def wait(self, seconds: float) -> float:
        """Return how long to wait: as long, or longer."""
        return self.of(seconds, 1, 1.4, "wait")

    def partitions(self, topic: str, count: int) -> int:
        if self.seed is None or count < 2 or COUNTED.search(self._source):
            return count
        drawn = count + self._random.randrange(4)
        self.made.append(f"partitions of {topic}: {drawn}")
        return drawn

    def pause(self) -> float:
        """Seconds until the next client starts."""
        return 0 if self.seed is None else self._random.uniform(0, 0.7)

    def client(self, client_id: str, role: str, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of ``Lab.client`` with what was drawn."""
        words = dict(options)
        if self.seed is None or role not in {"produce", "transact", "consume"} or self.work.release < "0.11":
            return words
        if "rate" in words:
            words["rate"] = self.of(words["rate"], 0.8, 1.3, f"rate of {client_id}")
        if 0 < words.get("size", 0) <= SMALL:
            words["size"] = int(self.of(words["size"], 0.7, 1.5, f"size of {client_id}"))
        if words.get("release", NEWEST) != NEWEST or words.keys() & {
            "speaks",
            "password",
            "group_protocol",
            "bootstrap",
        }:
            return words
        named = words.pop("library", "librdkafka")
        key = words.get("group") or client_id
        if named == "librdkafka" and not (named in client_id or named in self.work.name or NAMED.search(self._source)):
            library, release = self._libraries.get(key) or self._library(role, words)
        else:
            library, release = self._libraries.get(key) or (named, self._release())
            if library != named:
                library, release = named, NEWEST
        self._libraries[key] = library, release
        if library == "java":
            words["release"] = release
        self.made.append(f"{client_id}: {library} {release if library == 'java' else ''}".rstrip())
        return {**(words if library == named else self._as_of(library, role, words)), "library": library}

    def _release(self) -> str:
        """Return a release of Java's clients."""
        return self._random.choice(JAVA_RELEASES if self.work.release >= OLD else OLD_ENOUGH)

    def _library(self, role: str, words: Mapping[str, Any]) -> tuple[str, str]:
        can = [name for name in _OFTEN if name == "librdkafka" or self._can(name, role, words)]
        return self._random.choices(can, [_OFTEN[name] for name in can])[0], self._release()

    def _can(self, library: str, role: str, words: Mapping[str, Any]) -> bool:
        accepted = _ACCEPTED.get((library, role))
        if accepted is None:
            return False
        more = {"host", "listener", "mechanism", "user", "release", *_RENAMED}
        if library in _GO:
            committed = role == "consume" and TRANSACTS.search(self._source)
            if committed or re.search(r"[,^]", words["topic"]) or (library == "sarama" and self.work.release < OLD):
                return False
            more = {"host", "release"}
        one_at_a_time = library == "java" or "poison" not in words
        return words.keys() <= accepted | more and one_at_a_time

    def _as_of(self, library: str, role: str, words: Mapping[str, Any]) -> dict[str, Any]:
        """The settings of librdkafka under the names, and with the defaults where they matter, of another library."""
        renamed = _RENAMED | ({"batch_size": "max_batch_size"} if library == "aiokafka" else {})
        drawn = {renamed.get(name, name): value for name, value in words.items()}
        if library in _GO:
            return drawn
        if role == "consume" and TRANSACTS.search(self._source):
            drawn.setdefault("isolation_level", "read_committed")
        if role == "consume" and drawn.get("pause") and not drawn.get("commit"):
            drawn["max_poll_records"] = FEW_RECORDS
        if library != "java":
            if str(drawn.get("acks", "all")) in {"0", "1", "-1"}:
                drawn["acks"] = int(drawn["acks"])
            if "enable_idempotence" in drawn:
                drawn["enable_idempotence"] = str(drawn["enable_idempotence"]).lower() == "true"
        return drawn
