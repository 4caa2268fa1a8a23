"""A producer that speaks the protocol by hand, with two faults: it never asks anew who leads; it may spoil checksums."""

from struct import pack, unpack_from

from tests.support.frames import array, batch, frame, record, request, string
from tests.support.sockets import Wire, metadata
from tests.truth.job import Job, count_error, paced, seen

PRODUCE, VERSION, OK = 0, 3, 0


def produce(job: Job) -> None:
    known = metadata(job["bootstrap"].split(",")[0], [job["topic"]])
    leader = known.brokers[known.leaders[job["topic"], 0]]
    with Wire(leader) as wire:
        for number in paced(job):
            records = bytearray(batch(record(None, b"by hand"), 1))
            if job.get("corrupt") and number % 2:
                records[-2] ^= 1
            body = string(None) + pack(">hi", 1, 5000)
            body += array(string(job["topic"]) + array(pack(">i", 0) + frame(bytes(records))))
            wire.send(request(PRODUCE, VERSION, number, body, client_id=job["client_id"]))
            answer = wire.frame()
            (error,) = unpack_from(">h", answer, 8 + 4 + 2 + len(job["topic"]) + 4 + 4)
            seen["sent"] += 1
            if error == OK:
                seen["acknowledged"] += 1
            else:
                count_error(str(error))


ROLES = {"produce": produce}
