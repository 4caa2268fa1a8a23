"""Credentials are in no answer of the page; hostile names come out as valid JSON in which what is unseen is escaped."""

import base64
import contextlib
import io
import json
import re
import subprocess
import sys
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyarrow import parquet

from kproxy.page.detail import detail_of
from kproxy.page.exporting import FORMATS
from kproxy.page.recorded import Recorded
from kproxy.pipeline.run import Options
from kproxy.protocol.embedded.payload import to_json
from kproxy.protocol.vocabulary import VOCABULARY
from tests.page.asking import let_in, opened
from tests.support.canaries import Canaries, capture, record_scenes, scenes, unpacked
from tests.support.hostile_names import hostile_names, scenes_of
from tests.support.sampled import sampled

SEED = 20_261_122
UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
ANALYSES = ("inventory", "map", "authentication_failed", "plaintext_credentials")
ASKED = (
    "source",
    "exchanges?limit=500",
    "exchanges?limit=500&columns=clientId,groups,topics,transactionalId,memberId,undecoded,unanswered",
    "exchanges?limit=5&filter=size(embedded)%20%3E%200",
    *(f"activity?by={by}" for by in ("client", "topic", "error")),
    "complete?text=clientId%20%3D%3D%20&cursor=12",
    "compare?a=1&b=2",
    *(f"analyses/{name}" for name in ANALYSES),
)


def answers(store: Recorded) -> Iterator[tuple[str, bytes]]:
    """What the page tells of a store, by what was asked."""
    browser = let_in(store)
    for path in ASKED:
        answer = browser.get(f"/page/api/{path}")
        assert answer.status_code == 200, (path, answer.text[:500])
        yield path, answer.content
    yield "export", browser.get("/page/api/export?format=jsonl").content
    for number in range(store.first, store.last + 1):
        yield f"exchange {number}", to_json(detail_of(store, number))


def whole_answers(store: Recorded) -> Iterator[tuple[str, bytes]]:
    """What every other URL tells, with all that can be asked for; files are opened."""
    browser = let_in(store)
    columns = [one["name"] for one in browser.get("/page/api/source").json()["columns"]]
    asked = [f"exchanges?limit=500&offset={at}&columns={','.join(columns)}" for at in range(0, store.exchanges, 500)]
    asked += [f"exchanges?limit=500&sort={sign}{name}&columns={name}" for name in columns for sign in ("", "-")]
    asked += [
        f"complete?text={name}%20%3D%3D%20&of={of}" for name in VOCABULARY for of in ("filter", "request", "response")
    ]
    asked += [f"analyses/{one['id']}" for one in browser.get("/page/api/analyses").json()]
    asked += [f"compare?a={at}&b={at + by}" for at in range(store.first, store.last - 20) for by in (1, 2, 20)]
    asked += [f"command?format={form}&filter=apiKey%20%3D%3D%2036" for form in FORMATS]
    asked += ["heatmap", "activity?by=api&buckets=500", "analyses", "position?number=1", "exchanges?filter=%22"]
    for path in asked:
        yield path, browser.get(f"/page/api/{path}").content
    for form in ("pcapng", "pcapng-anonymized", "parquet"):
        answer = browser.get("/page/api/export", params={"format": form})
        assert answer.status_code == 200, answer.text
        yield f"export {form}", answer.content
        for name, data in unzipped(answer.content):
            yield f"export {form}, {name}", data
            yield f"export {form}, {name}, opened", repr(parquet.read_table(io.BytesIO(data)).to_pylist()).encode()


def unzipped(data: bytes) -> Iterator[tuple[str, bytes]]:
    if zipfile.is_zipfile(io.BytesIO(data)):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            for name in archive.namelist():
                if name.endswith(".parquet"):
                    yield name, archive.read(name)


def frames_in(answer: bytes) -> Iterator[bytes]:
    """The bytes of frames in an answer."""
    detail = json.loads(answer)
    for side in ("request", "response"):
        if detail[side] is not None and detail[side]["bytes"] is not None:
            yield base64.b64decode(detail[side]["bytes"])


@pytest.mark.parametrize(
    ("step", "cuts"),
    [
        (12, {}),
        pytest.param(1, {}, marks=pytest.mark.long),
        pytest.param(1, {"snaplen": 200, "without": 5}, marks=pytest.mark.long),
    ],
    ids=["some", "all", "half of all"],
)
def test_credentials_are_in_no_answer(tmp_path: Path, step: int, cuts: dict[str, int]) -> None:
    canary = Canaries(SEED)
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(scenes(canary)[::step], **cuts))
    assert canary.planted
    with opened(file) as store:
        found: dict[str, bytes] = {}
        for name, answer in answers(store):
            found[name] = answer
            if name.startswith("exchange "):
                found[f"{name}, bytes"] = b"\n".join(frames_in(answer))
        if step == 1:
            found |= {name: unpacked(answer) for name, answer in whole_answers(store)}
    assert len(found) > 20
    assert canary.found_in(found) == set()


@pytest.mark.slow
@pytest.mark.parametrize("codec", sampled([0, 1], [1]), ids=["plain", "gzip"])
def test_contents_of_records_are_in_no_answer_unless_they_are_asked_for(tmp_path: Path, codec: int) -> None:
    canary = Canaries(SEED)
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(record_scenes(canary, codec)))
    with opened(file) as store:
        found = frames_and_files(store) | {name: unpacked(answer) for name, answer in whole_answers(store)}
        found["read again"] = read_again(found["export pcapng"], tmp_path)
    assert found["read again"].count(b"value") > 1
    assert canary.found_in(found) == set()
    with opened(file, options=Options(records=True)) as store:
        shown = frames_and_files(store)
        shown["read again"] = read_again(shown["export pcapng"], tmp_path)
    places = {name: {where for _, where, _ in canary.found_in({name: data})} for name, data in shown.items()}
    assert all(
        f"{side} value" in set().union(*places.values()) | places["read again"] for side in ("produced", "fetched")
    )


def frames_and_files(store: Recorded) -> dict[str, bytes]:
    """The answers that may hold frames: details, both sides as bytes, and exports. What gzip has compressed is opened."""
    browser = let_in(store)
    found = {}
    for name, answer in answers(store):
        frames = b"\n".join(map(opened_batches, frames_in(answer))) if name.startswith("exchange ") else b""
        found[name] = unpacked(answer) + frames
    for number in range(store.first, store.last + 1):
        for side in ("request", "response"):
            answer = browser.get(f"/page/api/exchanges/{number}/{side}").content
            found[f"{side} {number}"] = opened_batches(answer)
    for form in ("pcapng", "pcapng-anonymized"):
        found[f"export {form}"] = browser.get("/page/api/export", params={"format": form}).content
    return found


def opened_batches(frame: bytes) -> bytes:
    """A frame, and what gzip has compressed in it."""
    parts = [frame]
    for found in re.finditer(rb"\x1f\x8b\x08", frame):
        with contextlib.suppress(zlib.error):
            parts.append(zlib.decompressobj(31).decompress(frame[found.start() :]))
    return b"\n".join(parts)


def read_again(packets: bytes, folder: Path) -> bytes:
    """What kproxy decode finds in exported packets."""
    file = folder / "again.pcapng"
    file.write_bytes(packets)
    return subprocess.check_output([sys.executable, "-m", "kproxy", "decode", "-qv", "--records", str(file)])


def test_hostile_names_are_escaped(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(scenes_of(hostile_names(SEED, 16))))
    with opened(file) as store:
        for name, answer in answers(store):
            text = answer.decode("utf-8")
            for line in text.rstrip("\n").split("\n"):
                json.loads(line)
            assert name == "export" or not UNSEEN.search(text), name


def test_clicks_on_hostile_names_make_filters_that_find_them(tmp_path: Path) -> None:
    file = tmp_path / "a.pcap"
    file.write_bytes(capture(scenes_of(hostile_names(SEED, 16))))
    with opened(file) as store:
        browser = let_in(store)
        found: Any = browser.get("/page/api/complete", params={"text": "clientId == ", "cursor": 12}).json()["choices"]
        assert len(found) > 5
        for choice in found:
            condition = f"clientId == {choice['text']}"
            if len(condition) < 4_000:
                selected = browser.get(
                    "/page/api/exchanges", params={"filter": condition, "columns": "clientId"}
                ).json()
                assert selected["total"] == int(choice["meaning"].split()[0].replace(",", "")), condition[:200]
