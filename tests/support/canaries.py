"""Canaries: texts that stand for credentials, wherever Kafka carries some, and the search for them in any spelling.

Each scene is a connection. Each place in it has a canary of its own, so that what is found says where it was planted.
"""

import base64
import contextlib
import gzip
import random
import re
import zlib
from collections.abc import Callable, Iterable, Iterator
from struct import pack
from typing import Any, NamedTuple

from kproxy.protocol import Direction, known_message, message
from kproxy.protocol.constants import METADATA_TOPIC, METADATA_TOPIC_ID
from tests.support.frames import (
    batch,
    frame,
    heartbeat,
    heartbeat_answer,
    record,
    sasl_handshake,
    sasl_handshake_answer,
)
from tests.support.messages import make, request_frame, response_frame

Segment = tuple[bool, bytes]  # from the client?
SETTINGS = (
    "sasl.jaas.config",
    "ssl.keystore.password",
    "ssl.key.password",
    "ssl.keystore.key",
    "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config",
    "listener.name.external.ssl.truststore.password",
    "LISTENER.NAME.X.SSL.KEYSTORE.PASSWORD",
    "ssl.keystore.password\0",
    "a.plugin.of.ours",
    "",
)


class Scene(NamedTuple):
    """One connection, from its first byte to its end."""

    name: str
    segments: list[Segment]


class Canaries:
    """Makes canaries from a seed, and finds them again."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self.planted: dict[str, str] = {}  # canary -> where

    def __call__(self, where: str) -> str:
        """A new canary: letters and digits that no other text has by accident."""
        text = BEGINNING + "".join(self._random.choices("bcdfghjklmnpqrstvwxz0123456789BCDFGHJKLMNPQRSTVWXZ", k=12))
        self.planted[text] = where
        return text

    def found_in(self, outputs: dict[str, bytes]) -> set[tuple[str, str, str]]:
        """Output, where the canary was planted, how it is spelled: of each that is in an output."""
        known = {
            how: {spelling: where for text, where in self.planted.items() if (spelling := spell(text))}
            for how, spell in FORMS.items()
        }
        found = set()
        for how, spell in FORMS.items():
            size = len(next(iter(known[how])))
            start = spell(BEGINNING)
            for name, data in outputs.items():
                at = data.find(start)
                while at >= 0:
                    found.add((name, known[how].get(data[at : at + size], "some of one"), how))
                    at = data.find(start, at + 1)
        return found


BEGINNING = "kpCANARY9"  # nine bytes: three whole groups of base64


def _base64(shift: int) -> Callable[[str], bytes]:
    """As in the middle of base64, *shift* bytes behind the beginning of a group; without what depends on its neighbours."""

    def spell(text: str) -> bytes:
        data = bytes(shift) + text.encode()
        whole = base64.b64encode(data[: len(data) // 3 * 3])
        return whole[4:] if shift else whole

    return spell


FORMS: dict[str, Callable[[str], bytes]] = {
    "raw": str.encode,
    "hex": lambda text: text.encode().hex().encode(),
    "HEX": lambda text: text.encode().hex().upper().encode(),
    "hex, spaced": lambda text: text.encode().hex(" ").encode(),
    "percent": lambda text: b"".join(b"%%%02x" % byte for byte in text.encode()),
    "PERCENT": lambda text: b"".join(b"%%%02X" % byte for byte in text.encode()),
    "\\x": lambda text: b"".join(b"\\x%02x" % byte for byte in text.encode()),
    "\\u": lambda text: b"".join(b"\\u%04x" % byte for byte in text.encode()),
    "entities": lambda text: b"".join(b"&#%d;" % byte for byte in text.encode()),
    "UTF-16LE": lambda text: text.encode("utf-16-le"),
    "UTF-16BE": lambda text: text.encode("utf-16-be"),
    "reversed": lambda text: text.encode()[::-1],
    "base64 0": _base64(0),
    "base64 1": _base64(1),
    "base64 2": _base64(2),
    "base64 of base64": lambda text: base64.b64encode(base64.b64encode(text.encode()[: len(text) // 9 * 9])),
}


def unpacked(data: bytes) -> bytes:
    """The data, and what is inside: gzip, zlib and base64 in a page, as far as they are found."""
    parts = [data]
    for found in re.findall(rb"base64,([A-Za-z0-9+/=]{40,})", data):
        parts.append(base64.b64decode(found + b"=="))
    for part_ in list(parts):
        for opening in (gzip.decompress, zlib.decompress):
            with contextlib.suppress(OSError, EOFError, zlib.error):
                parts.append(opening(part_))
    return b"\n".join(parts)


def exchange(name: str, version: int, request: Any, response: Any, correlation_id: int = 7) -> list[Segment]:
    """A request and its response, by Kafka's names without Request and Response."""
    asked = message(f"{name}Request")
    assert asked.api_key is not None
    answer = known_message(Direction.RESPONSE, asked.api_key)
    body = answer.encode(version, response)
    return [
        (True, request_frame(f"{name}Request", version, request, correlation_id)),
        (False, response_frame(asked.api_key, version, body, correlation_id)),
    ]


def all_versions(name: str) -> list[int]:
    return list(message(f"{name}Request").versions)


def authenticated(version: int, token: bytes, answer: bytes = b"", error: int = 0, **more: Any) -> list[Segment]:
    """SaslAuthenticate."""
    request = make("SaslAuthenticateRequest", auth_bytes=token)
    return exchange(
        "SaslAuthenticate",
        version,
        request,
        make("SaslAuthenticateResponse", auth_bytes=answer, error_code=error, **more),
    )


def handshake(version: int, mechanism: str) -> list[Segment]:
    return [(True, sasl_handshake(1, version, mechanism)), (False, sasl_handshake_answer(1))]


def tokens(canary: Canaries) -> Iterator[tuple[str, str, list[tuple[bytes, bytes]]]]:
    """Name, mechanism, and the tokens of client and broker."""

    def secret(where: str) -> bytes:
        return canary(where).encode()

    def b64(where: str) -> bytes:
        return base64.b64encode(canary(where).encode())

    def bearer(where: str) -> bytes:
        claims = base64.urlsafe_b64encode(b'{"sub":"alice","x":"' + secret(f"{where} claims") + b'"}').rstrip(b"=")
        return b"eyJhbGciOiJub25lIn0." + claims + b"." + secret(f"{where} signature")

    yield "PLAIN", "PLAIN", [(b"\0alice\0" + secret("PLAIN"), b"")]
    yield "PLAIN for another", "PLAIN", [(b"admin\0alice\0" + secret("PLAIN for another"), b"")]
    for where, token in (
        ("PLAIN without the first part", b"alice\0%b"),
        ("PLAIN with a fourth part", b"\0alice\0%b\0more"),
        ("PLAIN without NUL", b"%b"),
        ("PLAIN that is no UTF-8", b"\0ali\xff\0%b"),
        ("PLAIN password with NUL at its end", b"\0alice\0%b\0"),
    ):
        yield where, "PLAIN", [(token % secret(where), b"")]
    for kind in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        nonce = secret(f"{kind} nonce")
        yield (
            kind,
            kind,
            [
                (b"n,,n=alice,r=" + nonce, b"r=" + nonce + b"more,s=" + b64(f"{kind} salt") + b",i=4096"),
                (b"c=biws,r=" + nonce + b"more,p=" + b64(f"{kind} proof"), b"v=" + b64(f"{kind} signature")),
            ],
        )
    first = b"n,a=alice,\x01host=k\x01auth=Bearer "
    yield (
        "OAUTHBEARER",
        "OAUTHBEARER",
        [(first + bearer("OAUTHBEARER") + b"\x01password=" + secret("OAUTHBEARER extension") + b"\x01\x01", b"")],
    )
    yield (
        "OAUTHBEARER refused",
        "OAUTHBEARER",
        [
            (
                first + bearer("OAUTHBEARER refused") + b"\x01\x01",
                b'{"status":"invalid_token","token":"' + secret("OAUTHBEARER answer") + b'"}',
            ),
            (b"\x01", b""),
        ],
    )
    yield "OAUTHBEARER without GS2", "OAUTHBEARER", [(b"auth=Bearer " + bearer("OAUTHBEARER without GS2"), b"")]
    blob = b"\x60\x82\x02\x76\x06\x09\x2a\x86\x48\x86\xf7\x12\x01\x02\x02"
    yield "GSSAPI", "GSSAPI", [(blob + secret("GSSAPI"), blob + secret("GSSAPI answer"))]
    yield (
        "AWS_MSK_IAM",
        "AWS_MSK_IAM",
        [(b'{"user-agent":"x","x-amz-signature":"' + secret("AWS_MSK_IAM") + b'"}', b'{"version":"1"}')],
    )


def logins(canary: Canaries) -> Iterator[Scene]:
    """Logins of each kind: SaslAuthenticate of each version, tokens without headers, and what comes at a wrong place."""
    end = [(True, heartbeat(9)), (False, heartbeat_answer(9))]
    for version in all_versions("SaslAuthenticate"):
        for name, mechanism, pairs in tokens(canary):
            steps = [step for token, answer in pairs for step in authenticated(version, token, answer)]
            yield Scene(f"{name} v{version}", handshake(1, mechanism) + steps + end)
            if version == 2:
                yield Scene(f"{name}, twice", handshake(1, mechanism) + steps + end + handshake(1, mechanism) + steps)
                yield Scene(f"{name}, without handshake", steps + end)
                other = "PLAIN" if mechanism != "PLAIN" else "SCRAM-SHA-256"
                yield Scene(f"{name}, in the name of {other}", handshake(1, other) + steps + end)
                refused = authenticated(2, pairs[0][0], b"", 58, error_message="Authentication failed")
                yield Scene(f"{name}, refused", handshake(1, mechanism) + refused)
                unknown = bytearray(steps[0][1])
                unknown[6:8] = pack(">h", 99)
                yield Scene(f"{name}, of an unknown version", [*handshake(1, mechanism), (True, bytes(unknown))])
                cut = bytearray(steps[0][1])
                cut[-9:] = b"\xff" * 9  # tags that do not end
                yield Scene(f"{name}, not decodable", [*handshake(1, mechanism), (True, bytes(cut)), *end])
                longer = steps[0][1][4:] + b"more"
                yield Scene(f"{name}, with bytes behind", [*handshake(1, mechanism), (True, frame(longer)), *end])
    long = b"\0alice\0" + canary("PLAIN that is too long").encode() + b"x" * 600_000
    yield Scene("PLAIN that is too long", handshake(1, "PLAIN") + authenticated(2, long))
    for name, mechanism, pairs in tokens(canary):
        raw = [step for token, answer in pairs for step in ((True, frame(token)), (False, frame(answer)))]
        yield Scene(f"{name}, raw", handshake(0, mechanism) + raw + end)
        yield Scene(f"{name}, raw, twice", handshake(0, mechanism) + raw + raw + end)
        yield Scene(f"{name}, raw after a handshake v1", handshake(1, mechanism) + raw)
        if mechanism == "GSSAPI":
            yield Scene(f"{name}, raw without handshake", raw + end)


def tokens_of_delegation(canary: Canaries) -> Iterator[Scene]:
    for version in all_versions("CreateDelegationToken"):
        created = make("CreateDelegationTokenResponse", token_id="t", hmac=canary(f"hmac created v{version}").encode())
        asked = make("CreateDelegationTokenRequest", renewers=[])
        yield Scene(f"CreateDelegationToken v{version}", exchange("CreateDelegationToken", version, asked, created))
    for name in ("RenewDelegationToken", "ExpireDelegationToken"):
        for version in all_versions(name):
            asked = make(f"{name}Request", hmac=canary(f"{name} v{version}").encode())
            yield Scene(f"{name} v{version}", exchange(name, version, asked, make(f"{name}Response")))
    for version in all_versions("DescribeDelegationToken"):
        hmac = canary(f"hmac described v{version}").encode()
        row = {"token_id": "t", "hmac": hmac, "renewers": []}
        described = make("DescribeDelegationTokenResponse", tokens=[row])
        asked = make("DescribeDelegationTokenRequest", owners=None)
        yield Scene(
            f"DescribeDelegationToken v{version}", exchange("DescribeDelegationToken", version, asked, described)
        )
    upsertion = {
        "name": "alice",
        "mechanism": 1,
        "iterations": 4096,
        "salt": canary("SCRAM salt stored").encode(),
        "salted_password": canary("salted password").encode(),
    }
    asked = make("AlterUserScramCredentialsRequest", deletions=[], upsertions=[upsertion])
    answer = make("AlterUserScramCredentialsResponse", results=[])
    yield Scene("AlterUserScramCredentials", exchange("AlterUserScramCredentials", 0, asked, answer))


def settings(canary: Canaries) -> Iterator[Scene]:
    """Values of settings."""
    for version in all_versions("AlterConfigs"):
        yield Scene(f"AlterConfigs v{version}", altered(canary, "AlterConfigs", version, "AlterableConfig"))
    for version in all_versions("IncrementalAlterConfigs"):
        yield Scene(
            f"IncrementalAlterConfigs v{version}",
            altered(canary, "IncrementalAlterConfigs", version, "AlterableConfig", config_operation=0),
        )
    for version in all_versions("CreateTopics"):
        where = f"CreateTopics v{version}"
        row = [{"name": name, "value": canary(f"{where} {name!r}")} for name in SETTINGS]
        topic = {"name": "orders", "assignments": [], "configs": row}
        results = []
        if version >= 5:
            told = [
                {"name": name, "value": canary(f"{where} told {name!r}")}
                for name in SETTINGS[:-2]  # others are open, unless a broker says that they are not
            ]
            results = [{"name": "orders", "configs": told}]
        yield Scene(
            where,
            exchange(
                "CreateTopics",
                version,
                make("CreateTopicsRequest", topics=[topic]),
                make("CreateTopicsResponse", topics=results),
            ),
        )
    for version in all_versions("DescribeConfigs"):
        yield Scene(f"DescribeConfigs v{version}", described(canary, version))


def altered(canary: Canaries, name: str, version: int, kind: str, **more: Any) -> list[Segment]:
    configs = [{"name": setting, "value": canary(f"{name} v{version} {setting!r}"), **more} for setting in SETTINGS]
    resource = {"resource_type": 4, "resource_name": "1", "configs": configs}
    return exchange(name, version, make(f"{name}Request", resources=[resource]), make(f"{name}Response", responses=[]))


def described(canary: Canaries, version: int) -> list[Segment]:
    rows = []
    for name in [name for name in SETTINGS if name]:  # others are open unless a broker says that they are not
        where = f"DescribeConfigs v{version} {name!r}"
        synonyms = [{"name": name, "value": canary(f"{where} synonym"), "source": 1}]
        rows.append(
            {
                "name": name,
                "value": canary(where),
                "is_sensitive": name == "a.plugin.of.ours",
                "synonyms": synonyms if version >= 1 else [],
            }
        )
    result = {"resource_type": 4, "resource_name": "1", "configs": rows}
    asked = make("DescribeConfigsRequest", resources=[])
    return exchange("DescribeConfigs", version, asked, make("DescribeConfigsResponse", results=[result]))


def nested(canary: Canaries) -> Iterator[Scene]:
    """Forwarded by a broker to the controller (KIP-590)."""
    inner = request_frame(
        "AlterUserScramCredentialsRequest",
        0,
        deletions=[],
        upsertions=[
            {
                "name": "bob",
                "mechanism": 1,
                "iterations": 4096,
                "salt": canary("Envelope salt").encode(),
                "salted_password": canary("Envelope salted password").encode(),
            }
        ],
    )[4:]
    for where, data in (
        ("Envelope", inner),
        ("Envelope that is cut", inner[:-5] + canary("Envelope cut").encode()),
        ("Envelope of noise", canary("Envelope noise").encode() * 3),
    ):
        asked = make("EnvelopeRequest", request_data=data, request_principal=b"", client_host_address=b"\x7f\0\0\1")
        answer = make("EnvelopeResponse", response_data=canary(f"{where} answer").encode())
        yield Scene(where, exchange("Envelope", 0, asked, answer))


def kept_by_controllers(canary: Canaries) -> Iterator[Scene]:
    """What KRaft keeps of credentials: records of __cluster_metadata, fetched by brokers, and its snapshots."""
    for version in (12, 16):
        for how, change in DAMAGED.items():
            where = f"Fetch v{version} of metadata{how}"
            rows = {"partition_index": 0, "records": metadata(canary, where, how == ", packed")}
            named = {"topic": METADATA_TOPIC} if version == 12 else {"topic_id": METADATA_TOPIC_ID}
            topic = {**named, "partitions": [rows]}
            asked = make("FetchRequest", max_wait_ms=1, min_bytes=1, topics=[], forgotten_topics_data=[])
            request, answer = exchange("Fetch", version, asked, make("FetchResponse", responses=[topic]))
            yield Scene(
                where, [request, (False, change(answer[1])), (True, heartbeat(9)), (False, heartbeat_answer(9))]
            )
    for how, change in DAMAGED.items():
        where = f"FetchSnapshot{how}"
        kind = "FetchSnapshotResponse"
        rows = {"index": 0, "unaligned_records": metadata(canary, where, how == ", packed")}
        topic = {"name": METADATA_TOPIC, "partitions": [rows]}
        request, answer = exchange(
            "FetchSnapshot", 0, make("FetchSnapshotRequest", topics=[]), make(kind, topics=[topic])
        )
        yield Scene(where, [request, (False, change(answer[1])), (True, heartbeat(9)), (False, heartbeat_answer(9))])


DAMAGED: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ", packed": bytes,
    ", not decodable": lambda data: frame(data[4:-4] + b"\xff" * 4),
    ", with bytes behind": lambda data: frame(data[4:] + data[-60:]),
    ", cut off inside": lambda data: frame(data[4:-30]),
}


def metadata(canary: Canaries, where: str, packed: bool = False) -> bytes:
    """A batch of records of the controllers' log, in Kafka's framing of them (AbstractApiMessageSerde); packed by gzip."""
    scram = make(
        "UserScramCredentialRecord",
        name="alice",
        mechanism=1,
        iterations=4096,
        salt=canary(f"{where}, salt").encode(),
        stored_key=canary(f"{where}, stored key").encode(),
        server_key=canary(f"{where}, server key").encode(),
    )
    token = make("DelegationTokenRecord", owner="alice", renewers=[], token_id=canary(f"{where}, token"))
    values = [(11, "UserScramCredentialRecord", scram), (10, "DelegationTokenRecord", token)]
    for name in SETTINGS:
        setting = make("ConfigRecord", resource_type=4, resource_name="1", name=name, value=canary(f"{where} {name!r}"))
        values.append((4, "ConfigRecord", setting))
    written = [bytes([1, kind, 0]) + message(of).encode(0, value) for kind, of, value in values]
    records = b"".join(record(None, value, delta) for delta, value in enumerate(written))
    return batch(gzip.compress(records) if packed else records, len(written), attributes=int(packed))


def at_wrong_places(canary: Canaries) -> Iterator[Scene]:
    """Secrets in frames that cannot be decoded whole, in versions that do not exist, behind messages."""
    for scene in [*tokens_of_delegation(canary), *settings(canary)]:
        if not scene.name.endswith(("v0", "v1", "v2", "Credentials")):
            continue
        for from_client, data in scene.segments:
            if not from_client:
                continue
            broken = data[4:-3] + b"\xff\xff\xff"
            yield Scene(f"{scene.name}, not decodable", [(True, frame(broken)), (True, heartbeat(9))])
            unknown = bytearray(data)
            unknown[6:8] = pack(">h", 99)
            yield Scene(f"{scene.name}, of an unknown version", [(True, bytes(unknown)), (True, heartbeat(9))])
        asked, answer = scene.segments
        broken = answer[1][4:-4] + b"\xff\xff\xff\xff"
        yield Scene(f"{scene.name}, response not decodable", [asked, (False, frame(broken))])
        yield Scene(f"{scene.name}, cut by the end", [asked, (False, answer[1][:-3])])


def scenes(canary: Canaries) -> list[Scene]:
    """All of them."""
    made = [logins, tokens_of_delegation, settings, nested, kept_by_controllers, at_wrong_places]
    found = [scene for each in made for scene in each(canary)]
    return [Scene(scene.name, named(scene, number)) for number, scene in enumerate(found)]


def named(scene: Scene, number: int) -> list[Segment]:
    """The segments, preceded by an exchange of its own, by which a broker knows the scene."""
    return [(True, heartbeat(0, f"scene-{number}")), (False, heartbeat_answer(0)), *scene.segments]


def record_scenes(canary: Canaries, codec: int = 0) -> list[Scene]:
    """Keys, values and headers of records, produced and fetched; *codec*: 0 for none, 1 for gzip.

    The values are texts of Avro, and their schema is in the traffic.
    """

    def records(where: str) -> bytes:
        header = b"\2" + b"\2h" + bytes([42]) + canary(f"{where} header").encode()
        value = canary(f"{where} value").encode()
        framed = b"\0\0\0\0\7" + bytes([2 * len(value)]) + value
        held = record(canary(f"{where} key").encode(), framed, 0, header)
        return batch(gzip.compress(held) if codec else held, 1, attributes=codec)

    def topic(name: str, records: bytes) -> Any:
        return {"name": name, "partition_data": [{"index": 0, "records": records}]}

    stored = batch(record(b"{}", b'{"subject": "orders-value", "version": 1, "id": 7, "schema": "\\"string\\""}'), 1)
    topics = [topic("_schemas", stored), topic("orders", records("produced"))]
    produced = exchange(
        "Produce",
        7,
        make("ProduceRequest", acks=1, timeout_ms=1, topic_data=topics),
        make("ProduceResponse", responses=[]),
    )
    rows = {"partition_index": 0, "high_watermark": 1, "records": records("fetched")}
    fetched = {"topic": "orders", "partitions": [rows]}
    asked = make("FetchRequest", max_wait_ms=1, min_bytes=1, topics=[], forgotten_topics_data=[])
    answered = exchange("Fetch", 11, asked, make("FetchResponse", responses=[fetched]), 8)
    return [Scene("records", named(Scene("records", produced + answered), 1_000_000))]


RAW_IP = 101
SEGMENT = 60_000


def capture(shown: Iterable[Scene], *, snaplen: int = 262_144, without: int = 0) -> bytes:
    """A pcap of the scenes, each from a port of its own.

    Args:
        shown: the scenes.
        snaplen: bytes of each packet that are in it.
        without: packets that it lacks at the beginning of each connection: 3 is all before the first byte.
    """
    data = bytearray(pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, snaplen, RAW_IP))
    at = 1_700_000_000_000_000
    for number, scene in enumerate(shown):
        for packet in list(packets(20_000 + number, scene.segments))[without:]:
            at += 1_000
            data += pack("<IIII", at // 1_000_000, at % 1_000_000, min(len(packet), snaplen), len(packet))
            data += packet[:snaplen]
    return bytes(data)


def packets(port: int, segments: list[Segment]) -> Iterator[bytes]:
    """IPv4 packets of one connection to port 9092, checksums left out as offloading does."""
    positions = {True: 1_000, False: 5_000}

    def packet(from_client: bool, flags: int, data: bytes = b"") -> bytes:
        addresses, ports = [b"\x0a\0\0\5", b"\x0a\0\0\x09"], [port, 9092]
        if not from_client:
            addresses.reverse()
            ports.reverse()
        tcp = pack(">HHIIBBHHH", *ports, positions[from_client], positions[not from_client], 0x50, flags, 65_535, 0, 0)
        positions[from_client] += len(data) + (flags & 3 != 0)
        return pack(">BBHHHBBH", 0x45, 0, 40 + len(data), 0, 0, 64, 6, 0) + b"".join(addresses) + tcp + data

    yield packet(True, 0x02)
    yield packet(False, 0x12)
    yield packet(True, 0x10)
    for from_client, data in segments:
        for start in range(0, len(data), SEGMENT):
            yield packet(from_client, 0x18, data[start : start + SEGMENT])
    yield packet(True, 0x11)
    yield packet(False, 0x11)
