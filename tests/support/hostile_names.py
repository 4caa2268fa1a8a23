"""Names that would break lines, terminals, pages, tables and queries, from a seed; and exchanges that carry them everywhere."""

import random
from struct import pack

from tests.support.canaries import Scene, Segment
from tests.support.frames import (
    array,
    batch,
    frame,
    record,
    sasl_authenticate,
    sasl_authenticate_answer,
    sasl_handshake,
    sasl_handshake_answer,
    sized,
)

PIECES = [
    *(b"\n", b"\r", b"\r\n", b"\0", b"\t", b"\x0b", b"\x0c", b"\x1c", b"\x85", b"\x7f", b"\x08", b" ", b"."),
    *(char.encode() for char in "\u0085\u2028\u2029\u202e\u2066\u200b\ufeff\u00ad\ue000\U000e0041\U0001f600é漢"),
    "orders\u0430".encode(),  # Cyrillic
    *(b"\x1b[2J", b"\x1b]0;title\x07", b"\x1b]8;;http://evil\x1b\\", b"\x9b31m", b"\x1bP+q\x1b\\"),
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xc0\x80"),
    *(b'{"event":"exchange"}', b'","x":"', b"\\", b'\\"', b"\\u0000", b"'", b'"', b"`", b"${x}", b"{{ 7*7 }}"),
    *(
        b"<script>alert(1)</script>",
        b"</script><img src=x onerror=alert(1)>",
        b"<!--",
        b"]]>",
        b"&lt;",
        b"javascript:alert(1)",
    ),
    *(b"| a | b |", b"|---|", b"[x](javascript:alert(1))", b"![x](http://evil)", b"# h", b"```"),
    *(b"=cmd|' /C calc'!A0", b"@SUM(1)", b"+1", b"-1", b",", b";", b'"",""'),
    *(b"'; DROP TABLE exchanges; --", b"%s%n", b"../../x", b"%00"),
    *(b'"} 1\n', b"# HELP x", b"__other__", b"__name__", b'le="+Inf"', b"orders", b"app"),
]
WHOLE = (b"", b"__other__", b"null", b"\xff" * 300, b"x" * 32_000, b"\n" * 20_000, "\u202e".encode() * 5_000)
NAMES_A_SCENE = 10


def hostile_names(seed: int, count: int) -> list[bytes]:
    """*count* names, the worst whole ones first; some are no UTF-8."""
    numbers = random.Random(seed)
    made = [b"".join(numbers.choices(PIECES, k=numbers.randint(1, 6))) for _ in range(count)]
    return [*WHOLE, *made][:count]


def string(name: bytes) -> bytes:
    return pack(">h", len(name)) + name


def compact(name: bytes) -> bytes:
    size, out = len(name) + 1, bytearray()
    while size > 0x7F:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*out, size]) + name


def asked(api_key: int, version: int, client: bytes, body: bytes, *, flexible: bool = False) -> tuple[bool, bytes]:
    return True, frame(pack(">hhi", api_key, version, 7) + string(client) + b"\0" * flexible + body)


def answered(body: bytes) -> tuple[bool, bytes]:
    return False, frame(pack(">i", 7) + body)


def exchanges_of(name: bytes) -> list[Segment]:
    """Seven exchanges that carry a name: client id, group, member, topics, settings, messages of errors, hosts, transactions."""
    topic = pack(">h", 3) + string(name) + b"\0" + array()
    setting = array(string(name) + string(name))
    creation = string(name) + pack(">ih", 1, 1) + array() + setting
    return [
        asked(12, 0, name, string(name) + pack(">i", 1) + string(name)),
        answered(pack(">h", 0)),
        asked(3, 1, name, array(string(name))),
        answered(array(pack(">i", 1) + string(name) + pack(">ih", 9092, -1)) + pack(">i", 1) + array(topic)),
        asked(22, 0, name, string(name) + pack(">i", 1_000)),
        answered(pack(">ihqh", 0, 0, 5, 0)),
        asked(19, 1, name, array(creation) + pack(">ib", 1_000, 0)),
        answered(array(string(name) + pack(">h", 36) + string(name))),
        asked(10, 1, name, string(name) + b"\0"),
        answered(pack(">ih", 0, 15) + string(name) + pack(">i", 1) + string(name) + pack(">i", 9092)),
        asked(18, 3, name, compact(name[:200]) + compact(name[:200]) + b"\0", flexible=True),
        answered(pack(">h", 0) + b"\1" + pack(">i", 0) + b"\0"),
        asked(
            11,
            2,
            name,
            string(name)
            + pack(">ii", 1_000, 1_000)
            + string(name)
            + string(name)
            + array(string(name) + pack(">i", 0)),
        ),
        answered(pack(">ihi", 0, 0, 1) + string(name) + string(name) + string(name) + array()),
    ]


def produced(name: bytes) -> list[Segment]:
    """A record with that key, value and header, to a topic of that name, which the broker refuses with a message of that text."""
    header = b"\x02" + sized(name) + sized(name)
    records = batch(record(name, name, headers=header), 1)
    partition = array(pack(">i", 0) + pack(">i", len(records)) + records)
    refused = array(
        pack(">ihqqq", 0, 87, -1, -1, -1) + array(pack(">i", 0) + string(name)) + string(name)
    )  # INVALID_RECORD
    return [
        asked(0, 8, name, pack(">hhi", -1, 1, 1_000) + array(string(name) + partition)),
        answered(array(string(name) + refused) + pack(">i", 0)),
    ]


EXCHANGES = 7  # of a name


def login(name: bytes) -> list[Segment]:
    """By SASL/PLAIN, as a user of that name."""
    token = b"\0" + name.replace(b"\0", b"") + b"\0secret"
    return [
        (True, sasl_handshake(1, 1)),
        (False, sasl_handshake_answer(1)),
        (True, sasl_authenticate(2, token)),
        (False, sasl_authenticate_answer(2)),
    ]


def scenes_of(names: list[bytes]) -> list[Scene]:
    """Connections of NAMES_A_SCENE names each; the user has the first of them."""
    made = []
    for start in range(0, len(names), NAMES_A_SCENE):
        some = names[start : start + NAMES_A_SCENE]
        steps = [step for name in some for step in exchanges_of(name)]
        made.append(Scene(f"scene {start}", login(some[0]) + steps))
    return made
