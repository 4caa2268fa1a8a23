"""kproxy.read: events of files in a few words, and errors that say which file and where."""

import gzip
import json
import os
import pickle
import re
import subprocess
import sys
import tracemalloc
import warnings
from io import BytesIO
from pathlib import Path
from struct import pack

import pytest
import zstandard

import kproxy
from kproxy.capture import Capture, open_capture, read_flows
from kproxy.errors import CaptureError
from kproxy.output.jsonl import event_line
from kproxy.pipeline.decoded_log import LONGEST_LINE, MOST_NAMED, READ, DecodedLog, open_input
from kproxy.pipeline.reading import decode_flows, decode_packets
from kproxy.pipeline.run import Options
from tests.cli.conftest import Kproxy
from tests.support.built_captures import Conversation, pcap
from tests.support.corpus import CAPTURES, payloads
from tests.support.frames import array, request, response, string
from tests.support.sampled import sampled
from tests.support.secrets_block import without_secrets

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


def test_captures_are_read_before_logs_and_a_file_given_twice_counts_once_unless_kept_apart(tmp_path: Path) -> None:
    log = decoded_log(tmp_path / "a.jsonl", FIRST)
    clients = [event.connection.client for event in kproxy.read(FIRST)]
    assert [event.connection.client for event in kproxy.read(log, FIRST, FIRST)] == 2 * clients
    assert [event.connection.client for event in kproxy.read(log, FIRST, FIRST, separate=True)] == 3 * clients


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
    reader = kproxy.read(cut, ADMIN, strict=False)
    assert len(list(kproxy.read(ADMIN))) < len(list(reader))
    assert len(reader.damages) == 1 and "cut.pcap: byte " in reader.damages[0]


@pytest.mark.parametrize(
    ("path", "words"), [("none.pcap", "none.pcap"), (".ci", "no file of"), (__file__, "neither pcap nor pcapng")]
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


ADMIN = CAPTURES / "05-admin.pcap"
KRAFT = CAPTURES / "10-kraft-interbroker.pcap"
NAMES = sorted(path.name for path in CAPTURES.glob("*.pcap*"))


class Logging(Kproxy):
    """Runs commands, and writes logs into a folder."""

    def __init__(self, capture: pytest.CaptureFixture[bytes], folder: Path) -> None:
        super().__init__(capture)
        self._folder = folder

    def log(self, capture: Path, name: str = "kafka.jsonl") -> Path:
        """The decoded log of a capture."""
        path = self._folder / name
        assert self("decode", "-q", "--format", "jsonl", "-o", path, capture)[0] == 0
        return path


HERE = re.compile(r", [\d,]+ of [\d,]+ bytes are here")  # of a cut body, which a log does not have


@pytest.fixture
def command(capsysbinary: pytest.CaptureFixture[bytes], tmp_path: Path) -> Logging:
    return Logging(capsysbinary, tmp_path)


@pytest.mark.parametrize("name", sampled(NAMES, NAMES[::4]))
def test_a_log_is_shown_as_the_capture_it_was_made_of(command: Logging, name: str) -> None:
    log = command.log(CAPTURES / name)

    def shown(*words: str, path: Path) -> tuple[int, str, str]:
        answer = command("decode", *words, path)
        return answer[0], HERE.sub("", answer[1]), answer[2]

    assert shown(path=log) == shown(path=CAPTURES / name)
    lines, expected = (shown("-q", "-v", path=path)[1].splitlines() for path in (log, CAPTURES / name))
    assert len(lines) == len(expected)
    odd = [line for line in zip(lines, expected, strict=True) if line[0] != line[1]]
    # topicNames has the ids of the bodies, not those of records of internal topics
    assert len(odd) == (1 if name == KRAFT.name else 0)
    assert all("topicId: " in line[0] for line in odd)


def test_jsonl_of_a_log_is_its_lines(command: Logging) -> None:
    log = command.log(ADMIN)
    assert command("decode", "--format", "jsonl", log)[1] == log.read_text(encoding="utf-8")


def test_conditions_choose_lines(command: Logging) -> None:
    log = command.log(ADMIN)
    for condition in ("size(errors) > 0", "apiKey == 3 && latencyMs > 1.0", "has(request.groups)", "event == 'gap'"):
        for output_format in ("text", "jsonl"):
            words = ("decode", "--where", condition, "--format", output_format)
            assert command(*words, log) == command(*words, ADMIN)
    assert 0 < len(command("decode", "-q", "--where", "size(errors) > 0", log)[1].splitlines()) < 150


def test_compressed_logs_parts_and_captures_go_in_one_command(command: Logging, tmp_path: Path) -> None:
    lines = command.log(FIRST).read_bytes().splitlines(keepends=True)
    parts = [tmp_path / name for name in ("kafka.000001.jsonl.gz", "kafka.000002.jsonl.zst", "kafka.000003.jsonl")]
    parts[0].write_bytes(gzip.compress(b"".join(lines[:9])))
    parts[1].write_bytes(zstandard.compress(b"".join(lines[9:17])))
    parts[2].write_bytes(b"".join(lines[17:]).rstrip(b"\n"))  # somebody's editor took the last newline
    expected, admin = (command("decode", "-q", path)[1] for path in (FIRST, ADMIN))
    assert command("decode", "-q", *parts) == (0, expected, "")
    assert command("decode", "-q", parts[0], parts[1], parts[2], ADMIN)[1] == admin + expected
    _, again, _ = command("decode", "-q", "--format", "jsonl", *parts)
    assert again.encode() == b"".join(lines)


def test_a_part_just_begun_is_an_empty_log(command: Logging, tmp_path: Path) -> None:
    empty = tmp_path / "kafka.jsonl"
    empty.touch()
    code, out, err = command("decode", empty)
    assert (code, out) == (0, "")
    assert "0 frames" in err


def test_standard_input_is_shown_as_it_comes(tmp_path: Path, command: Logging) -> None:
    first, second = command.log(FIRST).read_bytes().splitlines(keepends=True)[:2]
    reading, writing = os.pipe()
    os.write(writing, first)  # and no more: neither telling what it is nor giving the line may wait for the next
    with open_input(Path(f"/dev/fd/{reading}")) as log:
        assert isinstance(log, DecodedLog)
        lines = iter(log)
        assert next(lines) == first
        os.write(writing, second[:20])
        os.write(writing, second[20:])
        assert next(lines) == second
        os.close(writing)
        assert list(lines) == []
    os.close(reading)


def test_a_cut_line_at_the_end_is_told_and_the_rest_shown(command: Logging) -> None:
    log = command.log(FIRST)
    data = log.read_bytes()
    last = len(data.splitlines()[-1])
    log.write_bytes(data[: len(data) - last // 2])
    code, out, err = command("decode", log)
    assert code == 3
    assert out.splitlines() == command("decode", "-q", FIRST)[1].splitlines()[:-1]
    assert err.splitlines()[-1] == f"kproxy: {log}: line 23: the file ends within this line"


def test_a_log_cut_in_its_first_line_is_still_a_log(command: Logging) -> None:
    log = command.log(FIRST)
    log.write_bytes(log.read_bytes()[:40])
    code, out, err = command("decode", "-q", log)
    assert (code, out, err) == (3, "", f"kproxy: {log}: line 1: the file ends within this line\n")


def test_a_line_of_garbage_is_named_and_passed_over(command: Logging) -> None:
    log = command.log(FIRST)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:4], b"\0" * 30 + b"\n", b"\n", *lines[4:]]))
    code, out, err = command("decode", "-q", log)
    assert code == 3
    assert out == command("decode", "-q", FIRST)[1]
    assert err.startswith(f"kproxy: {log}: line 5: no event of a decoded log (") and err.endswith("), passed over\n")
    assert err.count("\n") == 1


def test_a_line_that_cannot_be_shown_is_named(command: Logging) -> None:
    log = command.log(FIRST)
    lines = log.read_text(encoding="utf-8").splitlines()
    row = next(json.loads(line) for line in lines if '"Produce"' in line)
    row["embedded"] = [{"path": "x", "in": "request", "kind": "records", "json": 3}]
    log.write_text("\n".join([json.dumps(row), *lines]) + "\n", encoding="utf-8")
    code, out, err = command("decode", "-q", log)
    assert (code, out) == (3, command("decode", "-q", FIRST)[1])
    assert "line 1: cannot be shown (" in err


def test_many_bad_lines_are_counted(command: Logging) -> None:
    log = command.log(FIRST)
    log.write_bytes(log.read_bytes() + b"{}\n" * (MOST_NAMED + 7))
    _, _, err = command("decode", "-q", log)
    assert len(err.splitlines()) == MOST_NAMED + 1
    assert err.endswith(f"{log}: and 7 more lines\n")


def test_damage_of_the_compression_is_told_after_the_lines_before_it(command: Logging, tmp_path: Path) -> None:
    whole = gzip.compress(command.log(ADMIN).read_bytes())
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(whole[: len(whole) // 2])
    code, out, err = command("decode", "-q", cut)
    assert code == 3
    assert out and command("decode", "-q", ADMIN)[1].startswith(out)
    assert "the gzip data ends too early" in err
    assert err.count("\n") == 1


class Endless:
    """A log whose second line is as long as it is told, in pieces."""

    def __init__(self, first: bytes, size: int) -> None:
        self.pieces = [first, *([b"x" * READ] * (size // READ)), b"\n" + first]

    def readinto(self, buffer: memoryview) -> int:
        piece = self.pieces.pop(0) if self.pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        pass


def test_a_line_beyond_the_cap_is_not_held() -> None:
    first = b'{"event":"gap"}\n'
    log = DecodedLog(Endless(first, 3 * LONGEST_LINE), "x")
    tracemalloc.start()
    assert list(log) == [first, first]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.1 * LONGEST_LINE
    assert log.damages == ["x: line 2: has 201.3 MB; lines longer than 67.1 MB are not read, passed over"]
    held = DecodedLog(Endless(first, LONGEST_LINE - READ), "x")
    assert [len(line) for line in held] == [len(first), LONGEST_LINE - READ + 1, len(first)]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--format", "pcapng"), "--format pcapng"),
        (("--format", "parquet", "--records"), "--records"),
        (("-v", "--records"), "--records"),
    ],
)
def test_what_needs_bytes_says_so_before_it_writes(
    command: Logging, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    log, output = command.log(FIRST), tmp_path / "output"
    code, out, err = command("decode", *words, "-o", output, FIRST, log)
    assert (code, out) == (2, "")
    assert err == f"kproxy: {log} is a decoded log, which has no bytes of frames and records: {said} needs captures\n"
    assert not output.exists()


def test_other_json_is_neither(command: Logging, tmp_path: Path) -> None:
    other = tmp_path / "package.json"
    other.write_text('{\n  "name": "kafka"\n}\n', encoding="utf-8")
    code, _, err = command("decode", other)
    assert code == 2
    assert 'neither a capture nor a line of a decoded log, an object with "event"' in err
    with pytest.raises(CaptureError, match="neither"):
        open_input(other)


def test_what_a_file_is_is_told_by_its_content(tmp_path: Path) -> None:
    renamed = tmp_path / "capture.jsonl"
    renamed.write_bytes(FIRST.read_bytes())
    with open_input(renamed) as capture:
        assert isinstance(capture, Capture)
    ordered = tmp_path / "log.pcap"
    ordered.write_text('{"client": "a:1", "event": "gap"}\n', encoding="utf-8")
    with open_input(ordered) as log:
        assert isinstance(log, DecodedLog)


def test_stopped_it_ends_as_if_the_file_did() -> None:
    line = b'{"event":"gap"}\n'
    whole = line * (2 * READ // len(line))
    log = DecodedLog(BytesIO(whole), "x")
    lines = []
    for each in log:
        lines.append(each)
        log.stop()
    assert log.damages == []
    assert 0 < log.position < len(whole)
    assert b"".join(lines) == whole[: log.position]
