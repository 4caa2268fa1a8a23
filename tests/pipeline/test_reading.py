"""kproxy.read: events of files in a few words, and errors that say which file and where."""

import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from struct import pack

import pytest

import kproxy
from kproxy.capture import open_capture, read_flows
from kproxy.output.jsonl import event_line
from kproxy.pipeline.reading import decode_flows, decode_packets
from kproxy.pipeline.run import Options
from tests.support.built_captures import Conversation, pcap
from tests.support.corpus import payloads
from tests.support.frames import array, request, response, string
from tests.support.secrets_block import without_secrets
from tests.support.traffic import CAPTURES

FIRST = CAPTURES / "01-java-produce-consume-group.pcap"
TLS = CAPTURES / "07-tls13-dsb.pcapng"
COUNT = 23  # exchanges in FIRST


def decoded_log(path: Path, capture: Path) -> Path:
    reader = kproxy.read(capture)
    lines = [
        event_line(event, reader.bodies(event) if isinstance(event, kproxy.Exchange) else None) for event in reader
    ]
    path.write_bytes(b"".join(lines))
    return path


def test_events_of_a_capture() -> None:
    events = list(kproxy.read(str(FIRST)))
    assert len(events) == COUNT
    assert all(isinstance(event, kproxy.Exchange) for event in events)


def test_several_files_of_both_kinds_are_read_one_after_the_other(tmp_path: Path) -> None:
    log = decoded_log(tmp_path / "a.jsonl", FIRST)
    events = list(kproxy.read(FIRST, log, FIRST))
    assert len(events) == 3 * COUNT
    assert [event.connection.client for event in events[:COUNT]] == [
        e.connection.client for e in events[COUNT:][:COUNT]
    ]


def test_where_chooses() -> None:
    events = kproxy.read(FIRST, where='apiName == "Metadata"')
    assert {event.api_key for event in events if isinstance(event, kproxy.Exchange)} == {3}
    assert "  3 shown" in events.summary


def test_a_key_log_opens_tls(tmp_path: Path) -> None:
    capture, keys = without_secrets(TLS.read_bytes())
    (tmp_path / "bare.pcapng").write_bytes(capture)
    (tmp_path / "keys.log").write_bytes(keys)
    assert {type(event) for event in kproxy.read(tmp_path / "bare.pcapng")} == {kproxy.NotKafka}
    opened = kproxy.read(tmp_path / "bare.pcapng", keylog=tmp_path / "keys.log")
    assert sum(isinstance(event, kproxy.Exchange) for event in opened) == 24


@pytest.mark.parametrize("where", [None, "size(embedded) >= 0"])
def test_bodies_are_the_jsons_of_the_decoded_log(where: str | None) -> None:
    reader = kproxy.read(CAPTURES / "06-sasl-scram.pcap", where=where)
    seen = 0
    for event in reader:
        if isinstance(event, kproxy.Exchange) and event.api_key == 36:
            bodies = reader.bodies(event)
            assert bodies.request is not None
            assert json.loads(bodies.request) == {"authBytes": "(withheld)"}
            seen += 1
    assert seen > 0


def test_bodies_are_those_of_the_exchange_that_is_asked_for() -> None:
    reader = kproxy.read(FIRST, where="size(errors) >= 0")
    events = [event for event in reader if isinstance(event, kproxy.Exchange)]
    assert len({reader.bodies(event).request for event in events}) > 10


def connect_group() -> bytes:
    """A capture of a Connect worker: JoinGroup v0, then SyncGroup v0, which does not name the group's protocol type."""
    metadata, assignment = (
        pack(">i", len(data)) + data
        for data in (bytes.fromhex(payloads(kind)[0]["hex"]) for kind in ("connect-metadata", "connect-assignment"))
    )
    joining = string("g") + pack(">i", 9) + string("") + string("connect") + array(string("sessioned") + metadata)
    joined = pack(">hi", 0, 1) + string("sessioned") + string("a") + string("a") + array()
    syncing = string("g") + pack(">i", 1) + string("a") + array(string("a") + assignment)
    conversation = Conversation().handshake()
    conversation.send(0, request(11, 0, 1, joining)).send(1, response(1, joined))
    conversation.send(0, request(14, 0, 2, syncing)).send(1, response(2, pack(">h", 0) + assignment))
    return pcap(conversation.finish().packets)


@pytest.mark.parametrize("where", [None, 'apiName == "SyncGroup"', 'apiName == "SyncGroup" && size(embedded) > 0'])
def test_bodies_are_opened_with_what_exchanges_show_that_the_condition_leaves_out(
    tmp_path: Path, where: str | None
) -> None:
    capture = tmp_path / "connect.pcap"
    capture.write_bytes(connect_group())
    reader = kproxy.read(capture, where=where)
    kinds = [
        [one.kind for one in reader.bodies(event).embedded]
        for event in reader
        if isinstance(event, kproxy.Exchange) and event.api_name == "SyncGroup"
    ]
    assert kinds == [["connect-assignment"] * 2]


@pytest.mark.parametrize("from_log", [False, True])
def test_a_body_is_an_object_in_one_step(tmp_path: Path, from_log: bool) -> None:
    admin = CAPTURES / "05-admin.pcap"
    reader = kproxy.read(
        decoded_log(tmp_path / "a.jsonl", admin) if from_log else admin, where='apiName == "CreateTopics"'
    )
    answered = [event.response_body().topics for event in reader if isinstance(event, kproxy.Exchange)]
    assert [(topic.name, topic.error_code) for topics in answered for topic in topics] == [
        ("adm-a", 0),
        ("adm-b", 0),
        ("adm-a", 36),
        ("adm-v", 0),
        ("adm-rf", 38),
    ]


def test_records_are_opened_on_demand() -> None:
    def values(reader: kproxy.Reader) -> int:
        return sum(
            len(one.json.get("records", ()))
            for event in reader
            if isinstance(event, kproxy.Exchange)
            for one in reader.bodies(event).embedded
            if one.kind == "records"
        )

    assert values(kproxy.read(FIRST, where="apiKey == 0")) == 0
    assert values(kproxy.read(FIRST, where="apiKey == 0", records=True)) == 200


def test_a_damaged_file_is_an_error_after_its_last_event(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(FIRST.read_bytes()[:49_990])
    seen = []
    with pytest.raises(kproxy.CaptureError, match=r"cut\.pcap: byte \d+: the file ends within a packet"):
        for event in kproxy.read(cut, FIRST):
            seen.append(event)
    assert 0 < len(seen) <= COUNT


def test_damage_is_listed_where_it_is_not_to_stop_the_others(tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(FIRST.read_bytes()[:49_990])
    reader = kproxy.read(cut, FIRST, strict=False)
    assert COUNT < len(list(reader)) <= 2 * COUNT
    assert len(reader.damages) == 1 and "cut.pcap: byte " in reader.damages[0]


@pytest.mark.parametrize(
    ("path", "words"),
    [("none.pcap", "none.pcap"), (".", "directory"), (__file__, "neither pcap nor pcapng")],
)
def test_a_file_that_cannot_be_read_is_an_error_before_the_first_event(path: str, words: str) -> None:
    with pytest.raises(kproxy.CaptureError, match=words):
        kproxy.read(FIRST, path)


def test_a_condition_that_is_none_is_an_error() -> None:
    with pytest.raises(kproxy.UsageError, match="did you mean apiKey"):
        kproxy.read(FIRST, where="apikey == 3")


def test_without_a_path_there_is_nothing_to_read() -> None:
    with pytest.raises(kproxy.UsageError, match="no file to read: give at least one path"):
        kproxy.read()


@pytest.mark.parametrize("paths", [["a.pcap", "b.pcap"], b"a.pcap", 3])
def test_what_is_no_path_is_an_error_that_says_how_to_give_paths(paths: object) -> None:
    with pytest.raises(TypeError, match=f"not {type(paths).__name__}; pass several paths as arguments"):
        kproxy.read(paths)  # type: ignore[arg-type]


@pytest.mark.parametrize("closes", [True, False])
def test_a_reader_that_is_not_read_closes_its_key_log(tmp_path: Path, closes: bool) -> None:
    keys = tmp_path / "keys.log"
    keys.write_bytes(b"")
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        reader = kproxy.read(FIRST, keylog=keys)
        file = reader._run.secrets._file
        assert file is not None and not file._file.closed
        if closes:
            reader.close()
            reader.close()
            assert list(reader) == []
        del reader
    assert file._file.closed


def test_leaving_the_block_closes_the_file() -> None:
    with kproxy.read(FIRST) as events:
        next(events)
    assert list(events) == []


def test_standard_input() -> None:
    program = "import kproxy; print(sum(1 for _ in kproxy.read('-')))"
    done = subprocess.run([sys.executable, "-c", program], input=FIRST.read_bytes(), capture_output=True, check=True)
    assert done.stdout == b"%d\n" % COUNT


def test_importing_the_package_loads_nothing_else() -> None:
    program = (
        "import sys, kproxy; print(sorted(name for name in sys.modules if name.startswith('kproxy'))); "
        "kproxy.read; assert 'kproxy.pipeline.reading' in sys.modules; assert 'read' in dir(kproxy)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "['kproxy']\n"


def test_every_public_name_is_there_and_no_other() -> None:
    assert [name for name in kproxy.__all__ if not hasattr(kproxy, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        kproxy.nothing  # type: ignore[attr-defined] # noqa: B018


def test_a_task_decodes_packets_of_its_own() -> None:
    """What a Spark partition does: packets in, events out, nothing shared."""
    options = pickle.loads(pickle.dumps(Options(contain=(Exception,))))
    with open_capture(FIRST) as capture:
        packets = pickle.loads(pickle.dumps(list(capture)))
    expected = [event_line(event) for event in kproxy.read(FIRST)]
    assert [event_line(event) for event in decode_packets(packets, options)] == expected
    with open_capture(FIRST) as capture:
        assert [event_line(event) for event in decode_flows(read_flows(capture), options)] == expected
