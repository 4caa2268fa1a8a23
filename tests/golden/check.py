#!/usr/bin/env python3
"""Runs the golden files beside this script (or --data DIR) against a decoder.

    python check.py --adapter tests/golden/adapter.py [--data DIR] [--only messages,frames,...] [--cuts N] [--show N]

The adapter is a Python file of the project's, a few lines a function, that joins this script to the public API:

    DecodeError                                   the one exception that bad bytes may raise
    to_json(message, version, data) -> str|bytes  JSON as Kafka's own JsonConverter writes it (README.md says how), with
                                                  "_unknownTaggedFields": [{"tag": int, "data": base64}, ...] in every struct that has any
    reencode(message, version, data) -> bytes     decode to an object, encode the object
    from_json(message, version, text) -> bytes    Kafka's JSON to an object, encode the object
    walk(message, version, data) -> int           bytes consumed
    request_frame(frame) -> dict                  {"header": {...}, "body": {...}} of a whole frame, size included, as JSON-like values
    response_frame(frame, api_key, api_version) -> dict
    records(data) -> list[dict]                   batches as in records.jsonl.gz
    embedded(line) -> object                      what a line of embedded.jsonl.gz means, from its "hex" and the fields that say what it is (never from its
                                                  "json"): the value under "json", or for a carrier the list under "embedded" (path, kind, json).
                                                  Secrets (SECRETS below) are left out or null: their values must not occur anywhere

`message` is Kafka's name ("FetchRequest", "OffsetCommitValue"). A function that is not there yet is reported as missing, and
counts as failed. Prints a line a file and a closing line; exit status 0 only when everything holds.
"""

import argparse
import base64
import collections
import gzip
import importlib.util
import json
import pathlib
import random
import sys

RECORD_KEYS = ("offset", "timestamp", "keyHex", "valueHex", "headers")
# The only (message, version) pairs with two layouts in history: some cut of one may be a whole of the other.
TWO_LAYOUTS = {
    ("ReadShareGroupStateSummaryResponse", 0),
    ("ShareGroupMetadataValue", 0),
    ("ConsumerGroupHeartbeatRequest", 0),
    ("ConsumerGroupHeartbeatResponse", 0),
    ("ConsumerGroupDescribeResponse", 0),
    ("EndQuorumEpochRequest", 0),
}
SECRETS = {"password", "saltHex", "proofHex", "serverSignatureHex", "token", "nonce"}
BATCH_KEYS = (
    "baseOffset",
    "lastOffset",
    "sizeInBytes",
    "magic",
    "crcValid",
    "crc",
    "compression",
    "timestampType",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "isTransactional",
    "isControl",
    "partitionLeaderEpoch",
    "maxTimestamp",
    "deleteHorizon",
)


def lines(path):
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            if line.strip():
                yield json.loads(line)


def split_unknown(value, path="", found=None):
    """The value without its _unknownTaggedFields, which go to found[path]."""
    found = {} if found is None else found
    if isinstance(value, dict):
        out = {}
        for key, item in value.items():
            if key == "_unknownTaggedFields":
                if item:
                    found[path] = sorted((t["tag"], base64.b64decode(t["data"]).hex()) for t in item)
            else:
                out[key] = split_unknown(item, f"{path}.{key}" if path else key, found)[0]
        return out, found
    if isinstance(value, list):
        return [split_unknown(item, f"{path}[{i}]", found)[0] for i, item in enumerate(value)], found
    return value, found


def wanted_unknown(line):
    return {
        ("" if path in ("", "$", ".") else path): sorted((t["tag"], t["hex"]) for t in tags)
        for path, tags in line.get("unknownTags", {}).items()
        if tags
    }


class Checker:
    def __init__(self, adapter, cuts, show):
        self.adapter, self.cuts, self.show = adapter, cuts, show
        self.passed, self.failed = collections.Counter(), collections.Counter()
        self.random = random.Random(7)
        self.missing = set()

    def ok(self, what, good, detail):
        self.passed[what] += bool(good)
        if not good:
            self.failed[what] += 1
            if self.failed[what] <= self.show:
                print(f"  {what}: {detail()}"[:700])

    def call(self, what, name, *args):
        function = getattr(self.adapter, name, None)
        if function is None:
            self.missing.add(name)
            self.failed[what] += 1
            return None
        try:
            return (function(*args),)
        except Exception as error:  # noqa: BLE001 - any exception is a failed check, and is shown
            self.ok(
                what,
                False,
                lambda: (
                    f"{name}{tuple(a if len(repr(a)) < 80 else '...' for a in args)} raised {type(error).__name__}: {error}"
                ),
            )
            return None

    def one_message(self, group, line):
        name, version, data = line["message"], line["version"], bytes.fromhex(line["hex"])
        label = f"{name} v{version} {line['kind']}"
        got = self.call(f"{group} json", "to_json", name, version, data)
        if got:
            value, unknown = split_unknown(json.loads(got[0]))
            self.ok(f"{group} json", value == line["json"], lambda: f"{label}: {first_difference(value, line['json'])}")
            self.ok(
                f"{group} unknown tags",
                unknown == wanted_unknown(line),
                lambda: f"{label}: {unknown} != {wanted_unknown(line)}",
            )
        got = self.call(f"{group} reencode", "reencode", name, version, data)
        if got:
            self.ok(
                f"{group} reencode", got[0] == data, lambda: f"{label}: {got[0].hex()[:160]} != {line['hex'][:160]}"
            )
        if not line.get("records") and not line.get("unknownTags") and group != "conflicts":
            got = self.call(f"{group} from_json", "from_json", name, version, json.dumps(line["json"]))
            if got:
                self.ok(
                    f"{group} from_json",
                    got[0] == data,
                    lambda: f"{label}: {got[0].hex()[:160]} != {line['hex'][:160]}",
                )
        got = self.call(f"{group} walk", "walk", name, version, data)
        if got:
            self.ok(f"{group} walk", got[0] == len(data), lambda: f"{label}: {got[0]} != {len(data)}")
        if (name, version) in TWO_LAYOUTS:
            return
        self.bad_bytes(f"{group} bad bytes", "to_json", label, name, version, data)
        self.bad_bytes(f"{group} bad bytes", "reencode", label, name, version, data)

    def bad_bytes(self, what, function, label, name, version, data):
        """Every strict prefix, and one byte too many, must be refused, and with DecodeError."""
        call = getattr(self.adapter, function, None)
        if call is None:
            return
        cuts = range(len(data)) if len(data) <= self.cuts else sorted(self.random.sample(range(len(data)), self.cuts))
        for cut in [*cuts, None]:
            bad = data + b"\0" if cut is None else data[:cut]
            try:
                result = call(name, version, bad)
            except self.adapter.DecodeError:
                self.passed[what] += 1
            except Exception as error:  # noqa: BLE001
                self.ok(what, False, lambda: f"{label} cut at {cut} of {len(data)}: {type(error).__name__}: {error}")
            else:
                self.ok(what, False, lambda: f"{label} cut at {cut} of {len(data)}: accepted as {str(result)[:120]}")

    def one_frame(self, line):
        frame, version = bytes.fromhex(line["frameHex"]), line["version"]
        label = f"{line['message']} v{version} {line['kind']}"
        if line["direction"] == "request":
            got = self.call("frames", "request_frame", frame)
        else:
            got = self.call("frames", "response_frame", frame, line["apiKey"], version)
        if got:
            header, header_unknown = split_unknown(got[0]["header"])
            body, unknown = split_unknown(got[0]["body"])
            self.ok(
                "frames",
                header == line["header"],
                lambda: f"{label}: header {first_difference(header, line['header'])}",
            )
            self.ok("frames", body == line["json"], lambda: f"{label}: {first_difference(body, line['json'])}")
            expected = sorted((t["tag"], t["hex"]) for t in line.get("headerUnknownTags", []))
            self.ok(
                "frames",
                header_unknown.get("", []) == expected,
                lambda: f"{label}: header tags {header_unknown} != {expected}",
            )
            self.ok("frames", unknown == wanted_unknown(line), lambda: f"{label}: {unknown} != {wanted_unknown(line)}")

    def one_records(self, line):
        got = self.call("records", "records", bytes.fromhex(line["hex"]))
        if not got:
            return
        batches = got[0]
        self.ok(
            "records",
            len(batches) == len(line["batches"]),
            lambda: f"{line['kind']}: {len(batches)} batches, not {len(line['batches'])}",
        )
        for mine, theirs in zip(batches, line["batches"]):
            for key in BATCH_KEYS:
                if key in theirs:
                    self.ok(
                        "records",
                        mine.get(key) == theirs[key],
                        lambda: f"{line['kind']}: {key} {mine.get(key)!r} != {theirs[key]!r}",
                    )
            if theirs.get("records") is not None and theirs.get("crcValid", True):
                want = [{k: r.get(k) for k in RECORD_KEYS} for r in theirs["records"]]
                have = [{k: r.get(k) for k in RECORD_KEYS} for r in mine.get("records") or []]
                self.ok("records", have == want, lambda: f"{line['kind']}: {first_difference(have, want)}")

    def one_embedded(self, line):
        shown = {
            key: value
            for key, value in line.items()
            if key not in ("json", "embedded", "text", "plainHex", "userData", "userDataHex")
        }
        got = self.call("embedded", "embedded", shown)
        if got:
            want = line["embedded"] if line["kind"] == "carrier" else line["json"]
            secrets = secret_values(want) if "sasl" in json.dumps(line).lower() else set()
            value = without_secrets(split_unknown(got[0])[0]) if secrets else split_unknown(got[0])[0]
            want = without_secrets(want) if secrets else want
            self.ok(
                "embedded",
                value == want,
                lambda: f"{line['kind']} {line.get('message', '')}: {first_difference(value, want)}",
            )
            text = json.dumps(got[0], ensure_ascii=False)
            self.ok(
                "embedded secrets", not any(s in text for s in secrets), lambda: f"{line['kind']}: a secret is shown"
            )

    def one_variant(self, line):
        """Another legal spelling is read as Kafka reads it; damage that Kafka refuses is refused, with DecodeError."""
        name, version, data = line["message"], line["version"], bytes.fromhex(line["hex"])
        label, call = f"{name} v{version} {line['kind']}", getattr(self.adapter, "to_json", None)
        if call is None:
            return
        try:
            value, unknown = split_unknown(
                json.loads(call(name, version, data[: len(data) - line.get("bytesLeft", 0)]))
            )
        except self.adapter.DecodeError as error:
            self.ok(
                "variants",
                not line["accepted"] or line["kind"] in ("byte-flip", "huge-length"),
                lambda: f"{label}: refused: {error}",
            )
        except Exception as error:  # noqa: BLE001
            self.ok("variants", False, lambda: f"{label}: {type(error).__name__}: {error}")
        else:
            if line["accepted"]:
                self.ok("variants", value == line["json"], lambda: f"{label}: {first_difference(value, line['json'])}")
            else:
                self.ok("variants", False, lambda: f"{label}: accepted, but Kafka says {line['error']}")


def secret_values(value):
    if isinstance(value, dict):
        return {v for k, v in value.items() if k in SECRETS and isinstance(v, str) and len(v) > 3} | {
            s for v in value.values() for s in secret_values(v)
        }
    return {s for v in value for s in secret_values(v)} if isinstance(value, list) else set()


def without_secrets(value):
    if isinstance(value, dict):
        return {k: without_secrets(v) for k, v in value.items() if k not in SECRETS}
    return [without_secrets(v) for v in value] if isinstance(value, list) else value


def first_difference(a, b, path="$"):
    if type(a) is not type(b) and not (isinstance(a, (int, float)) and isinstance(b, (int, float))):
        return f"{path}: {a!r} is not {b!r}"
    if isinstance(a, dict):
        for key in [*b, *a]:
            if key not in a or key not in b:
                return f"{path}.{key} is only in {'Kafka' if key in b else 'ours'}"
            if a[key] != b[key]:
                return first_difference(a[key], b[key], f"{path}.{key}")
    if isinstance(a, list):
        if len(a) != len(b):
            return f"{path}: {len(a)} items, not {len(b)}"
        for i, (x, y) in enumerate(zip(a, b)):
            if x != y:
                return first_difference(x, y, f"{path}[{i}]")
    return f"{path}: {a!r} is not {b!r}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--adapter", required=True)
    parser.add_argument("--data", default=str(pathlib.Path(__file__).parent))
    parser.add_argument("--only", default="messages,structs,conflicts,frames,variants,records,embedded")
    parser.add_argument(
        "--cuts", type=int, default=24, help="how many truncations of each message to try (all where it is shorter)"
    )
    parser.add_argument("--show", type=int, default=3, help="how many failures of each kind to print")
    parser.add_argument("--every", type=int, default=1, help="take every n-th line only")
    args = parser.parse_args()
    spec = importlib.util.spec_from_file_location("golden_adapter", args.adapter)
    adapter = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(adapter)
    checker = Checker(adapter, args.cuts, args.show)
    for group in args.only.split(","):
        before = sum(checker.passed.values()), sum(checker.failed.values())
        count = 0
        for number, line in enumerate(lines(pathlib.Path(args.data) / f"{group}.jsonl.gz")):
            if number % args.every:
                continue
            count += 1
            if group in ("messages", "structs", "conflicts"):
                checker.one_message(group, line)
            elif group == "frames":
                checker.one_frame(line)
            elif group == "variants":
                checker.one_variant(line)
            elif group == "records":
                checker.one_records(line)
            else:
                checker.one_embedded(line)
        print(
            f"{group}: {count} lines, {sum(checker.passed.values()) - before[0]} checks hold, {sum(checker.failed.values()) - before[1]} do not"
        )
    for what in sorted(checker.failed):
        if checker.failed[what]:
            print(f"  {what}: {checker.failed[what]} of {checker.failed[what] + checker.passed[what]} fail")
    if checker.missing:
        print("  missing in the adapter:", ", ".join(sorted(checker.missing)))
    print(f"{sum(checker.passed.values())} passed, {sum(checker.failed.values())} failed")
    sys.exit(1 if sum(checker.failed.values()) else 0)


if __name__ == "__main__":
    main()
