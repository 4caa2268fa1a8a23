"""What the clients of all libraries share: their job, when to end, what they count.

A job has library, role (produce, consume, transact, admin), topic, settings in the library's own names (with underscores), and:

    produce, transact   rate (records a second; 0: at once), count (0: until SIGTERM), size (bytes), keys (so many different
                        ones; 0: none), partition, flush (after each record); batch (records of a transaction), hold (seconds
                        that it stays open), abort (each second one)
                        hot (percent of the records that have the first key)
                        schema_id (of an Avro schema of one long: values are in Confluent's framing, but those numbered in bad
                        have two bytes more),
                        noise (values that compress slowly)
                        shift (seconds between the records' times and now), renew (a client of its own for each record)
    consume             group, pause (seconds after each record), commit (records after which it commits; 0: by itself; -1:
                        never), poison (the record at which it fails and goes back, over and over, or
                        ``retries`` times), daily (seconds after
                        which it begins from the beginning), assign (these partitions, not what the group gives it),
                        ends (records after which it asks where their partition ends),
                        rest (seconds after each 50 records for which it pauses its partitions and polls on)
    transfer            Java's: consume, and produce each record to the topic ``to`` in a transaction
    share               Java's: consume as a member of a share group; answer (RELEASE or REJECT, for each tenth record)
    admin               do: a list of operations, each a list of words
"""

import json
import time
from collections import Counter
from collections.abc import Iterator
from random import Random
from struct import pack
from typing import Any

Job = dict[str, Any]
seen: Counter[str] = Counter()
_asked_to_end = False


def end(*_: object) -> None:
    """Handle SIGTERM."""
    global _asked_to_end  # noqa: PLW0603 - a signal has no other place
    _asked_to_end = True


def ended() -> bool:
    """Whether the client is to end: flush, leave, close, as its documentation tells to."""
    return _asked_to_end


def say(event: str, **more: Any) -> None:
    """Write an event."""
    print(json.dumps({"at": time.time(), "event": event, **more}), flush=True)


def count_error(name: str) -> None:
    """Count an error, and write the first of each name."""
    seen[f"error {name}"] += 1
    if seen[f"error {name}"] == 1:
        say("error", name=name)


def paced(job: Job) -> Iterator[int]:
    """Numbers of records, each when its time has come."""
    rate, count = job.get("rate", 5), job.get("count", 0)
    began = time.monotonic()
    number = 0
    while not ended() and (not count or number < count):
        yield number
        number += 1
        while rate and not ended() and (left := began + number / rate - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))


def record(job: Job, number: int) -> tuple[bytes | None, bytes]:
    """Key and value of a record."""
    keys, hot = job.get("keys", 0), job.get("hot", 0)
    key = b"key-%d" % (0 if number % 100 < hot else number % keys) if keys else None
    if "schema_id" in job:
        return key, pack(">bi", 0, job["schema_id"]) + _avro(number) + b"\1\2" * (number in job.get("bad", ()))
    text = f"{number} " + "INFO request served in 12 ms, status 200, path /orders " * 40
    size = job.get("size", 100)
    if job.get("noise"):
        return key, Random(number).randbytes(size // 2).hex().encode()
    return key, (text * (size // len(text) + 1))[:size].encode()


def _avro(number: int) -> bytes:
    """A long of Avro that is not negative."""
    left, text = number << 1, bytearray()
    while left > 127:
        text.append(left & 127 | 128)
        left >>= 7
    return bytes([*text, left])


def nap(seconds: float) -> None:
    """Sleep, but not longer than until SIGTERM."""
    until = time.monotonic() + seconds
    while not ended() and (left := until - time.monotonic()) > 0:
        time.sleep(min(left, 0.1))
