"""One capture in many files: cut at random, overlapping, copied, missing, damaged, from both sides; and captures kept apart."""

import gzip
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kproxy.replay.recording import read_recording
from tests.bench.traffic import write_capture
from tests.cli.conftest import Kproxy
from tests.support.corpus import CAPTURES
from tests.support.rotated import SEEDS, Packets, cut, packets_of
from tests.support.sampled import sampled

# without the one whose clock was set back: only names with numbers tell the order of its files
BACK = "truth/capture-clock-set.pcapng.gz"
NAMES = sorted({str(path.relative_to(CAPTURES)) for path in CAPTURES.rglob("*.pcap*")} - {BACK})
GROUP, TLS = "03-classic-rebalance-range.pcap", "07-tls13-dsb.pcapng"
CASES = [(name, SEEDS[number % len(SEEDS)]) for number, name in enumerate(NAMES)]


def whole(name: str, folder: Path) -> Path:
    """A copy of a capture that is not compressed."""
    path = folder / Path(name).name.removesuffix(".gz")
    packets = packets_of(name)
    path.write_bytes(packets.file(0, len(packets.packets)))
    return path


@pytest.mark.parametrize(("name", "seed"), sampled(CASES, [case for case in CASES if case[0] in (GROUP, TLS)]))
def test_files_cut_at_random_give_what_the_whole_gives(kproxy: Kproxy, name: str, seed: int, tmp_path: Path) -> None:
    cut(packets_of(name), tmp_path / "parts", seed)
    for form in (("--format", "jsonl"), ("-v",)):
        assert kproxy("decode", *form, tmp_path / "parts") == kproxy("decode", *form, whole(name, tmp_path))


@pytest.mark.parametrize(
    ("name", "file", "first"),
    [
        (BACK, "x_{:05}_20261127225536.pcapng", 0),
        (BACK, "x.{:06}.pcapng", 1),
        (BACK, "x.pcap{}.gz", 8),
        (GROUP, "x.pcap{}", 4),  # tcpdump -W: the first file is the fifth of a ring
        (GROUP, "x_{:05}_20261121093000.pcap", 5),  # what is left of two runs of dumpcap
    ],
)
def test_the_order_of_rotated_files_whose_clock_was_set_back_is_that_of_their_names(
    kproxy: Kproxy, name: str, file: str, first: int, tmp_path: Path
) -> None:
    packets, parts = packets_of(name), tmp_path / "parts"
    parts.mkdir()
    step = (
        11 if (name, first) == (BACK, 0) else len(packets.packets) // 9
    )  # with 11, a file ends where the clock was set
    for number, start in enumerate(range(0, len(packets.packets), step)):
        content = packets.file(start, start + step)
        (parts / file.format((number + first) % (10 if name == GROUP else 1_000))).write_bytes(
            gzip.compress(content) if file.endswith("gz") else content
        )
    expected = kproxy("decode", "--format", "jsonl", whole(name, tmp_path))
    assert kproxy("decode", "--format", "jsonl", parts) == expected


@pytest.mark.parametrize("name", sampled(NAMES, [GROUP]))
def test_files_that_overlap_count_their_packets_once(kproxy: Kproxy, name: str, tmp_path: Path) -> None:
    cut(packets_of(name), tmp_path / "parts", 4, overlap=9)
    code, out, err = kproxy("decode", "--format", "jsonl", whole(name, tmp_path))
    found = kproxy("decode", "--format", "jsonl", tmp_path / "parts")
    assert (found[:2], found[2].startswith(err)) == ((code, out), True)


@pytest.mark.parametrize("name", sampled([name for name in NAMES if name.endswith("p")], [GROUP]))
@pytest.mark.parametrize("ahead", [0, 3, 600])
def test_what_two_hosts_captured_counts_once(kproxy: Kproxy, name: str, ahead: int, tmp_path: Path) -> None:
    """The other host's clock is ahead; it saw nothing of the first five packets. The order of connections may differ."""
    packets = packets_of(name)
    expected = kproxy("decode", "--format", "jsonl", whole(name, tmp_path))
    (other := tmp_path / f"{name}1").write_bytes(packets.later(ahead).file(5, len(packets.packets)))
    code, out, err = kproxy("decode", "--format", "jsonl", tmp_path)
    said = "" if ahead else f"kproxy: all packets of {other} are in other files, too: they count once\n"
    assert (code, sorted(out.splitlines()), err) == (0, sorted(expected[1].splitlines()), expected[2] + said)


@pytest.mark.parametrize("ahead", [-2, 0, 2])
def test_clocks_that_differ_are_named_where_each_side_has_its_own_file(
    kproxy: Kproxy, ahead: int, tmp_path: Path
) -> None:
    clients, broker = packets_of(GROUP).sides()
    for name, side in (("clients", clients), ("broker", broker.later(ahead))):
        (tmp_path / f"{name}.pcap").write_bytes(side.file(0, len(side.packets)))
    code, _, err = kproxy("report", "-q", "--only", "latency", tmp_path)
    assert (code, "the clocks that it was captured with differ by 2.00 s or more" in " ".join(err.split())) == (
        (3, True) if ahead else (0, False)
    )


def test_processes_of_jobs_share_many_files(kproxy: Kproxy, tmp_path: Path) -> None:
    cut(packets_of(GROUP), tmp_path / "parts", 5)
    expected = kproxy("decode", "-v", whole(GROUP, tmp_path))
    assert kproxy("decode", "-v", "--jobs", 2, tmp_path / "parts") == expected


@pytest.mark.parametrize("holder", [0, -1])
def test_the_secrets_of_one_file_decrypt_all(kproxy: Kproxy, holder: int, tmp_path: Path) -> None:
    """dumpcap writes them into the file that is open when they arrive."""
    packets = packets_of(TLS)
    bare = [
        packet[packet.index(b"\x06\0\0\0") :] if packet[:4] != b"\x06\0\0\0" else packet for packet in packets.packets
    ]
    secrets = b"".join(full[: len(full) - len(rest)] for full, rest in zip(packets.packets, bare, strict=True))
    assert b"CLIENT_TRAFFIC_SECRET_0" in secrets
    packets.packets = bare
    parts = [packets.file(first, first + 20) for first in range(0, len(bare), 20)]
    parts[holder] = packets.head + secrets + parts[holder].removeprefix(packets.head)
    for number, part in enumerate(parts):
        (tmp_path / f"{number}.pcapng").write_bytes(part)
    code, out, _ = kproxy("decode", "--format", "jsonl", tmp_path)
    assert (code, out) == kproxy("decode", "--format", "jsonl", CAPTURES / TLS)[:2]
    assert out.count('"event":"exchange"') == 24


def test_a_missing_file_is_a_gap_of_the_connections_that_it_cuts(kproxy: Kproxy, tmp_path: Path) -> None:
    """The same as a capture without those packets has."""
    packets = packets_of(GROUP)
    (tmp_path / "parts").mkdir()
    for number, (first, stop) in enumerate([(0, 150), (190, len(packets.packets))]):
        (tmp_path / "parts" / f"{number}.pcap").write_bytes(packets.file(first, stop))
    del packets.packets[150:190]
    (tmp_path / "lossy.pcap").write_bytes(packets.file(0, len(packets.packets)))
    expected = kproxy("decode", "--format", "jsonl", tmp_path / "lossy.pcap")
    assert kproxy("decode", "--format", "jsonl", tmp_path / "parts") == expected
    gaps = {row["connection"] for row in map(json.loads, expected[1].splitlines()) if row["event"] == "gap"}
    others = {row["connection"] for row in map(json.loads, expected[1].splitlines())} - gaps
    assert gaps and others
    assert "gap" in expected[2] and "no gaps" not in expected[2]


def test_a_copy_counts_once_and_is_said(kproxy: Kproxy, tmp_path: Path) -> None:
    files = cut(packets_of(GROUP), tmp_path / "parts", 6)
    expected = kproxy("decode", "--format", "jsonl", tmp_path / "parts")
    shutil.copy(files[0], tmp_path / "parts" / "zz-copy.pcap")
    code, out, err = kproxy("decode", "--format", "jsonl", tmp_path / "parts")
    assert (code, out) == expected[:2]
    assert f"zz-copy.pcap has the same content as {files[0]}: it counts once" in err
    assert "was given twice" in kproxy("decode", files[0], files[0])[2]
    (tmp_path / "parts" / "zz-copy.pcap").write_bytes(gzip.compress(packets_of(GROUP).file(0, 99_999)))
    for words in (("decode", "--jobs", 2), ("report", "--only", "map")):
        said = " ".join(kproxy(*words, tmp_path / "parts")[2].split())
        assert "more are in other files, too: they count once" in said


def test_a_folder_of_tables_is_no_capture_and_is_said_to_be_what_it_is(kproxy: Kproxy, tmp_path: Path) -> None:
    assert kproxy("decode", "-q", "--format", "parquet", "-o", tmp_path / "tables", CAPTURES / GROUP)[0] == 0
    said = f"kproxy: {tmp_path}/tables has tables: kproxy report, sql and open read them\n"
    code, _, err = kproxy("decode", tmp_path / "tables")
    assert (code, " ".join(err.split())) == (2, said.strip())


@pytest.mark.slow
def test_a_report_of_files_says_what_that_of_the_whole_says(kproxy: Kproxy, tmp_path: Path) -> None:
    """What a client is, is put together from all connections of its capture."""
    before, after = "08-old-broker-0.9-format0.pcap", "09-old-broker-0.10-format1.pcap"
    for name in (before, after, GROUP):
        cut(packets_of(name), tmp_path / name, 11)
    for words in (("--only", "diff", before, after), (GROUP,)):
        options, names = words[:-2] if len(words) > 1 else (), [word for word in words if word.endswith("pcap")]
        found, expected = (
            json.loads(kproxy("report", "-q", "--format", "json", *options, *(folder / name for name in names))[1])
            for folder in (tmp_path, CAPTURES)
        )
        assert found["analyses"] == expected["analyses"]


def test_requests_to_replay_are_those_of_the_whole(tmp_path: Path) -> None:
    cut(packets_of(GROUP), tmp_path / "parts", 10)
    found, expected = (read_recording([path]) for path in (tmp_path / "parts", CAPTURES / GROUP))
    assert [(each.sent_at, each.request.data) for each in found.requests] == [
        (each.sent_at, each.request.data) for each in expected.requests
    ]
    assert len({each.connection for each in found.requests}) == len({each.connection for each in expected.requests}) > 5


@pytest.mark.parametrize("damaged", [b"no capture at all", b"", packets_of(GROUP).file(0, 0) + b"\xff" * 16])
def test_a_bad_file_among_others_is_named(kproxy: Kproxy, damaged: bytes, tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    cut(packets_of(GROUP), parts, 7)
    expected = kproxy("decode", "--format", "jsonl", parts)
    counted = "SELECT count(*), any_value(capture) FROM exchanges JOIN connections USING (connection_id)"
    _, rows, _ = kproxy("sql", "-q", "--format", "csv", parts, counted)
    (parts / "bad.pcap").write_bytes(damaged)
    (parts / "README.md").write_text("no capture, and its name says so", encoding="utf-8")
    code, out, err = kproxy("decode", "--format", "jsonl", parts)
    assert (code, out) == (3, expected[1])
    assert "bad.pcap: " in err and "README" not in err
    code, out, err = kproxy("sql", "-q", "--format", "csv", parts, counted)
    assert (code, out) == (3, rows)
    assert "bad.pcap: " in err
    code, _, err = kproxy("report", "-q", "--only", "map", parts)
    assert code == 3 and "bad.pcap: " in err


def test_clusters_with_equal_addresses_are_kept_apart_by_file_and_by_folder(kproxy: Kproxy, tmp_path: Path) -> None:
    """The other cluster's brokers and clients have the same addresses and ports; its first connections begin later."""
    packets = packets_of(GROUP)
    cut(packets, tmp_path / "east", 8)
    cut(packets.later(1), tmp_path / "west", 9)
    east, west = (kproxy("decode", "-q", "--format", "jsonl", tmp_path / side)[1] for side in ("east", "west"))
    _, out, _ = kproxy("decode", "-q", "--separate", "--format", "jsonl", tmp_path / "east", tmp_path / "west")
    assert out.startswith(east) and out.count("\n") == 2 * east.count("\n") == 2 * west.count("\n")
    counted = "SELECT count(*), count(DISTINCT connection_id) AS ids FROM connections"
    _, alone, _ = kproxy("sql", "-q", "--format", "csv", tmp_path / "east", counted)
    _, both, _ = kproxy("sql", "-q", "--separate", "--format", "csv", tmp_path / "east", tmp_path / "west", counted)
    assert [int(x) for x in both.splitlines()[1].split(",")] == [2 * int(x) for x in alone.splitlines()[1].split(",")]


@pytest.mark.parametrize("words", [("decode",), ("decode", "--jobs", 2), ("report", "--only", "map")])
@pytest.mark.parametrize("numbers", ["equal", "other"])
def test_clusters_with_equal_addresses_and_ports_that_are_read_as_one_are_named(
    kproxy: Kproxy, words: tuple[str, ...], numbers: str, tmp_path: Path
) -> None:
    """Their connections have other sequence numbers, or the same ones by chance."""
    packets = packets_of(GROUP)
    others = packets.others(1) if numbers == "other" else packets.later(1)
    others.packets = [packet.replace(b"member-", b"client-") for packet in others.packets]
    for side, some in zip(("east", "west"), (packets, others), strict=True):
        (tmp_path / f"{side}.pcap").write_bytes(some.file(0, len(some.packets)))
    code, _, err = kproxy(*words, tmp_path)
    assert code == 3 and "east.pcap: two different streams of bytes between the same addresses" in " ".join(err.split())


def test_logs_of_hosts_whose_connections_have_the_same_numbers_do_not_mix(kproxy: Kproxy, tmp_path: Path) -> None:
    """They overlap in time: their lines are read in turn."""
    packets = packets_of(GROUP)
    (tmp_path / "west.pcap").write_bytes(packets.file(0, len(packets.packets)))
    logs = [tmp_path / "east.jsonl", tmp_path / "west.jsonl"]
    kproxy("decode", "-q", "-o", logs[0], tmp_path / "west.pcap")
    text = logs[0].read_text(encoding="utf-8")
    logs[1].write_text(text.replace('"client":"127.0.0.1:', '"client":"10.0.0.7:'), encoding="utf-8")
    counted = "SELECT requests, responses, unanswered, errors FROM connections ORDER BY ALL"
    _, alone, _ = kproxy("sql", "-q", "--format", "csv", logs[0], counted)
    _, both, _ = kproxy("sql", "-q", "--format", "csv", *logs, counted)
    assert both.split()[1:] == sorted(2 * alone.split()[1:], key=lambda row: [int(x) for x in row.split(",")])
    cut_at = len(text) // 2 + text[len(text) // 2 :].index("\n") + 1
    (tmp_path / "rotated").mkdir()
    (tmp_path / "rotated" / "kafka.000001.jsonl").write_text(text[:cut_at], encoding="utf-8")
    (tmp_path / "rotated" / "kafka.jsonl").write_text(text[cut_at:], encoding="utf-8")
    assert kproxy("sql", "-q", "--format", "csv", tmp_path / "rotated", counted)[1] == alone


@pytest.mark.slow
@pytest.mark.parametrize("deal", ["rotated", "in turn"])
def test_a_thousand_files_need_few_descriptors_and_little_memory(deal: str, tmp_path: Path) -> None:
    """One is damaged, one missing, one there twice. *in turn*: each file has packets of all times, as a queue of a card has."""
    write_capture(tmp_path / "whole.pcap", 24 << 20, "mtu1500")
    packets = Packets((tmp_path / "whole.pcap").read_bytes())
    each = len(packets.packets) // 1000 + 1
    parts = tmp_path / "parts"
    parts.mkdir()
    kept = Packets(packets.head)
    for number in range(1000):
        chosen = packets.packets[number * each :][:each] if deal == "rotated" else packets.packets[number::1000]
        (parts / f"{number:04}.pcap").write_bytes(packets.head + b"".join(chosen))
    lost = range(300 * each, 302 * each) if deal == "rotated" else [*range(300, 10**6, 1000), *range(301, 10**6, 1000)]
    gone = set(lost)
    kept.packets = [packet for number, packet in enumerate(packets.packets) if number not in gone]
    (tmp_path / "kept.pcap").write_bytes(kept.file(0, len(kept.packets)))
    (parts / "0300.pcap").unlink()
    (parts / "0301.pcap").write_bytes(b"damaged")
    shutil.copy(parts / "0500.pcap", parts / "copy.pcap")
    expected = _decode(tmp_path / "kept.pcap", tmp_path / "kept.jsonl")
    found = _decode(parts, tmp_path / "parts.jsonl")
    assert (tmp_path / "parts.jsonl").read_bytes() == (tmp_path / "kept.jsonl").read_bytes()
    assert (expected[0], found[0]) == (0, 3)
    assert "0301.pcap: " in found[1] and "copy.pcap has the same content as" in found[1]
    assert found[2] < expected[2] + (100 << 10)


@pytest.mark.slow
def test_logs_of_many_hosts_need_few_descriptors(kproxy: Kproxy, tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    lines = kproxy("decode", "-q", "--format", "jsonl", CAPTURES / GROUP)[1]
    for number in range(60):
        text = lines.replace('"client":"127.0.0.1:', f'"client":"10.0.{number}.1:')
        (tmp_path / "logs" / f"{number}.jsonl").write_text(text, encoding="utf-8")
    status, said, _ = _decode(tmp_path / "logs", tmp_path / "all.jsonl")
    assert (status, (tmp_path / "all.jsonl").read_bytes().count(b"\n")) == (0, 60 * lines.count("\n"))
    assert f"{60 * 9} connections" in said


def _decode(path: Path, output: Path) -> tuple[int, str, int]:
    """Decode with at most 40 open files; the exit status, what it says, and the most memory it had (KiB)."""
    code = (
        "import resource, sys; from kproxy.cli import main\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (40, 40))\n"
        "try: main(sys.argv[1:])\n"
        "finally: print('memory', resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, "decode", "--jobs", "1", "-o", str(output), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, int(done.stderr.rsplit("memory ", 1)[1])
