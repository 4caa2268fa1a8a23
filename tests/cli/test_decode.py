"""kproxy decode: formats, the short options for conditions, and files that grow."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kproxy.cli import decode
from kproxy.cli.decode import GrowingFile
from kproxy.cli.formats import OUTPUTS, Format, OutputOptions
from kproxy.cli.options import condition_of
from kproxy.output.where import Where
from tests.cli.conftest import Kproxy
from tests.support.corpus import CAPTURES
from tests.support.secrets_block import without_secrets

FIRST = CAPTURES / "01-java-produce-consume-group.pcap"
ADMIN = CAPTURES / "05-admin.pcap"
TLS = CAPTURES / "07-tls13-dsb.pcapng"
MANIFEST = {
    entry["file"]: entry
    for entry in map(json.loads, (CAPTURES / "MANIFEST.jsonl").read_text(encoding="utf-8").splitlines())
}


def rows(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_text_is_one_line_per_exchange(kproxy: Kproxy) -> None:
    code, out, err = kproxy("decode", FIRST)
    assert code == 0
    assert len(out.splitlines()) == sum(MANIFEST[FIRST.name]["requests_by_api_and_version"].values())
    assert "46 frames in 23 exchanges on 5 connections; none undecoded, no gaps" in err
    assert sum("Produce v13" in line and "acks=all" in line for line in out.splitlines()) == 1
    assert all(line.isprintable() for line in out.splitlines())


def test_a_selection_of_nothing_says_where_the_names_are(kproxy: Kproxy) -> None:
    code, out, err = kproxy("decode", "--topic", "ordres", FIRST)
    assert (code, out) == (0, "")
    assert "--only map lists clients, topics and groups" in err
    assert "orders" in kproxy("report", "--only", "map", FIRST)[1]


def test_topic_ids_have_their_names(kproxy: Kproxy) -> None:
    _, out, _ = kproxy("decode", "--format", "jsonl", "--where", "apiKey == 0", FIRST)
    (row,) = rows(out)
    assert list(row["topicNames"].values()) == ["orders"]  # type: ignore[attr-defined]


def test_payloads_are_in_every_output(kproxy: Kproxy) -> None:
    lines = kproxy("decode", FIRST)[1].splitlines()
    joined = next(line for line in lines if "JoinGroup" in line and "generation 1" in line)
    assert "  range, cooperative-sticky  → generation 1, range, leader of 1" in joined
    assert next(line for line in lines if "SyncGroup" in line).endswith("→ orders-0,1,2")
    assert sum("57 records" in line for line in lines) == 0  # three partitions in one request
    assert sum("Produce v13" in line and "  200 records  " in line for line in lines) == 1
    tree = kproxy("decode", "-v", FIRST)[1]
    assert "│  └─ metadata: consumer-subscription" in tree
    assert "recordsSizeInBytes: 10,491 bytes, records" in tree
    log = rows(kproxy("decode", "--format", "jsonl", "--where", "embedded.exists(e, e.kind == 'records')", FIRST)[1])
    assert {row["apiName"] for row in log} == {"Produce", "Fetch"}


def test_records_are_shown_on_demand(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("decode", "--format", "jsonl", "--records", "--where", "apiKey == 0", FIRST)
    (row,) = rows(out)
    shown = [record for one in row["embedded"] for record in one["json"]["records"]]  # type: ignore[attr-defined]
    assert (code, len(shown)) == (0, 200)
    assert "trace-id" in kproxy("decode", "-v", "--records", FIRST)[1]
    assert "trace-id" not in kproxy("decode", "-v", FIRST)[1]


def test_a_condition_is_compiled_once(kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[str] = []
    compile_one = Where.__init__
    monkeypatch.setattr(Where, "__init__", lambda self, text: (compiled.append(text), compile_one(self, text))[1])
    assert kproxy("decode", "--where", "apiKey == 0", FIRST)[0] == 0
    assert compiled == ["apiKey == 0"]


def test_records_need_an_output_that_has_room_for_them(kproxy: Kproxy) -> None:
    code, out, err = kproxy("decode", "--records", FIRST)
    assert (code, out) == (2, "")
    assert "--records is for -v, jsonl or parquet" in err


def test_verbose_shows_fields_special_values_and_advice(kproxy: Kproxy) -> None:
    _, out, _ = kproxy("decode", "-v", FIRST)
    assert "acks: -1 (all in-sync replicas)" in out
    assert "timestamp -2 (earliest)" in out
    assert "isolationLevel: 0 (READ_UNCOMMITTED)" in out
    assert "MEMBER_ID_REQUIRED (79, no RetriableException) at errorCode" in out
    assert "Client: join again at once with the member id in this response." in out
    assert " (orders)" in out


def test_where_shows_some_and_counts_all(kproxy: Kproxy) -> None:
    code, out, err = kproxy("decode", "--where", 'apiName == "Metadata"', FIRST)
    assert code == 0
    assert len(out.splitlines()) == 3
    assert "in 23 exchanges" in err
    assert "3 shown" in err


def test_tls_with_the_keys_in_the_capture_is_read(kproxy: Kproxy) -> None:
    code, out, err = kproxy("decode", "--format", "jsonl", TLS)
    assert code == 0
    known = MANIFEST[TLS.name]
    requests = Counter(f"{row['apiKey']} v{row['apiVersion']}" for row in rows(out) if row["event"] == "exchange")
    assert requests == known["broker_log_requests_by_api_and_version"]
    told = [row["tls"] for row in rows(out) if row["event"] == "tls"]
    assert [tls["version"] for tls in told] == ["TLS 1.3"] * known["transport"]["connections"]
    assert f"{len(told)} TLS connections decrypted" in err


def test_tls_with_a_key_log_is_read(kproxy: Kproxy, tmp_path: Path) -> None:
    capture, keys = without_secrets(TLS.read_bytes())
    (tmp_path / "bare.pcapng").write_bytes(capture)
    (tmp_path / "keys.log").write_bytes(keys)
    code, out, _ = kproxy("decode", "--format", "jsonl", "--keylog", tmp_path / "keys.log", tmp_path / "bare.pcapng")
    assert code == 0
    requests = sum(MANIFEST[TLS.name]["broker_log_requests_by_api_and_version"].values())
    assert sum(row["event"] == "exchange" for row in rows(out)) == requests
    shown = out + kproxy("decode", "-v", "--keylog", tmp_path / "keys.log", tmp_path / "bare.pcapng")[1]
    secrets = {line.split()[2] for line in keys.decode().splitlines() if line and not line.startswith("#")}
    assert len(secrets) > 10
    assert [secret for secret in secrets if secret in shown] == []


def test_tls_without_keys_is_described(kproxy: Kproxy, tmp_path: Path) -> None:
    (tmp_path / "bare.pcapng").write_bytes(without_secrets(TLS.read_bytes())[0])
    code, out, err = kproxy("decode", "--format", "jsonl", tmp_path / "bare.pcapng")
    assert code == 0
    assert {row["event"] for row in rows(out)} == {"notKafka"}
    assert len(rows(out)) == MANIFEST[TLS.name]["transport"]["connections"]
    assert {row["tls"]["version"] for row in rows(out)} == {"TLS 1.3"}
    assert "not Kafka x" in err
    assert "to read TLS, give kproxy the session keys (--keylog FILE" in err


def test_an_empty_key_log_is_reported(kproxy: Kproxy, tmp_path: Path) -> None:
    (tmp_path / "bare.pcapng").write_bytes(without_secrets(TLS.read_bytes())[0])
    (tmp_path / "keys.log").write_text("these are\nno keys\n", encoding="ascii")
    _, _, err = kproxy("decode", "--keylog", tmp_path / "keys.log", tmp_path / "bare.pcapng")
    assert "the key log has 0 secrets, and 2 other lines" in err


def test_a_key_log_that_is_not_there(kproxy: Kproxy, tmp_path: Path) -> None:
    code, _, err = kproxy("decode", "--keylog", tmp_path / "keys.log", TLS)
    assert code == 2
    assert "keys.log: cannot be opened: No such file or directory" in err


def test_several_files_number_their_connections_on(kproxy: Kproxy) -> None:
    _, out, _ = kproxy("decode", "-q", "--separate", "--format", "jsonl", FIRST, FIRST)
    numbers = [row["connection"] for row in rows(out)]
    half = len(numbers) // 2
    assert set(numbers[:half]).isdisjoint(numbers[half:])
    assert min(numbers[half:]) > max(numbers[:half])  # type: ignore[type-var]


@pytest.mark.parametrize(
    ("name", "options", "beginning"),
    [
        ("log.jsonl", (), b'{"event":"exchange"'),
        ("CLEAR.PCAPNG", (), b"\x0a\x0d\x0d\x0a"),
        ("lines.txt", (), b"04:"),
        ("log", (), b"04:"),
        ("log.jsonl", ("--format", "text"), b"04:"),  # what was said wins
    ],
)
def test_the_format_comes_from_the_suffix_of_the_output(
    kproxy: Kproxy, tmp_path: Path, name: str, options: tuple[str, ...], beginning: bytes
) -> None:
    assert kproxy("decode", "-q", *options, "-o", tmp_path / name, FIRST) == (0, "", "")
    assert (tmp_path / name).read_bytes().startswith(beginning)


@pytest.mark.parametrize("output_format", Format)
def test_every_format_says_whether_it_can_use_a_decoded_log(output_format: Format, tmp_path: Path) -> None:
    with OUTPUTS[output_format](OutputOptions(output_format, tmp_path / "out", [ADMIN]))() as output:
        assert output.needs_frames is output_format.needs_frames


def test_output_goes_to_a_file(kproxy: Kproxy, tmp_path: Path) -> None:
    target = tmp_path / "log.jsonl"
    code, out, err = kproxy("decode", "-q", "--format", "jsonl", "-o", target, FIRST)
    assert (code, out, err) == (0, "", "")
    assert len(target.read_text(encoding="utf-8").splitlines()) == 23


def test_a_damaged_capture_is_decoded_up_to_the_damage(kproxy: Kproxy, tmp_path: Path) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes(FIRST.read_bytes()[:49_990])
    code, out, err = kproxy("decode", "--format", "jsonl", cut)
    assert code == 3
    assert 0 < len(rows(out)) <= 23
    assert "cut.pcap: byte " in err.splitlines()[-1]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("/nope.pcap",), "/nope.pcap: no such file"),
        ((str(CAPTURES / "README.md"),), "neither pcap nor pcapng"),
        ((str(CAPTURES.parent / ".ci"),), ".ci is a capture or a decoded log"),
        (("-", "-"), "standard input can be read only once"),
        (("--where", "", str(FIRST)), "--where is empty"),
        (("--where", "(((", str(FIRST)), "it ends too early"),
        (("/dev/null",), "the file is empty"),
        (("--where", "apikey == 3", str(FIRST)), "did you mean apiKey?"),
        (("--where", "apiKey ==", str(FIRST)), "is wrong at column 10"),
        (("--where", "apiKey", str(FIRST)), "apiKey is a number, not true or false; write apiKey > 0"),
        (("-o", "r.xyz", str(FIRST)), "-o r.xyz: no format has the suffix .xyz; use .txt, "),
        (("-o", "/nope/out", str(FIRST)), "its folder does not exist"),
        (("-o", str(CAPTURES), str(FIRST)), "is a directory; -o wants a file"),
        (("-o", str(FIRST), str(FIRST)), "is also an input"),
        (("-o", str(FIRST), str(CAPTURES)), "is also an input"),
        (("--follow", str(CAPTURES)), "is a folder; --follow reads on in a file"),
        (("-v", "--format", "jsonl", str(FIRST)), "-v is for --format text"),
        (("--format", "xml", str(FIRST)), "'xml' is not one of 'text', 'jsonl', 'pcapng'"),
        (("-v", "--format", "pcapng", str(FIRST)), "-v is for --format text"),
        (("--format", "parquet", "-o", "-", str(FIRST)), "--format parquet writes a directory, not to standard output"),
        (("--where", "(((", str(FIRST)), "kproxy: --where '(((' is wrong at column "),
        (("--where", "zzz(1)", str(FIRST)), "kproxy: --where: there is no function 'zzz' in CEL"),
        (("--where", 'apiKey == "3"', str(FIRST)), "kproxy: --where 'apiKey == \"3\"': apiKey is a number"),
        (("--keylog", "/nope", str(FIRST)), "kproxy: --keylog /nope: cannot be opened: "),
        (("--anonymize", str(FIRST)), "--anonymize is for --format pcapng"),
        (("--format", "pcapng", "--anonymize-key", "/nope/key", str(FIRST)), "/nope/key cannot be read"),
        (("--format", "pcapng", "--anonymize-key", "/dev/null", str(FIRST)), "a key has at least 16"),
        (("--bogus",), "no such option"),
        (("--port",), "no such option '--port' (did you mean --count or --format or --separate?); see "),
        ((), "missing argument"),
    ],
)
def test_wrong_usage_is_one_sentence_and_2(kproxy: Kproxy, words: tuple[str, ...], said: str) -> None:
    code, out, err = kproxy("decode", *words)
    assert code == 2
    assert out == ""
    assert said in err
    assert err.startswith("kproxy: ")
    assert err.count("\n") == 1


def test_wrong_usage_leaves_the_output_alone(kproxy: Kproxy, tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious", encoding="utf-8")
    for words in (("--where", "nope == 1", FIRST), ("/nope.pcap",), (CAPTURES / "README.md",)):
        assert kproxy("decode", "-o", target, *words)[0] == 2
        assert target.read_text(encoding="utf-8") == "precious"


def test_pcapng_is_not_for_a_terminal(kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    code, _, err = kproxy("decode", "--format", "pcapng", FIRST)
    assert code == 2
    assert "use -o FILE" in err


def test_where_chooses_what_a_capture_holds(kproxy: Kproxy, tmp_path: Path) -> None:
    target = tmp_path / "some.pcapng"
    code, _, err = kproxy("decode", "--format", "pcapng", "-o", target, "--where", 'apiName == "JoinGroup"', FIRST)
    assert code == 0
    assert "2 shown" in err
    code, out, err = kproxy("decode", "--format", "jsonl", target)
    assert [row["apiName"] for row in rows(out)] == ["JoinGroup", "JoinGroup"]
    assert "none undecoded" in err


def test_pseudonyms_are_new_in_each_run_and_the_same_with_a_key(kproxy: Kproxy, tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_bytes(bytes(range(40)))

    def names(*options: object) -> set[object]:
        target = tmp_path / "out.pcapng"
        assert kproxy("decode", "--format", "pcapng", *options, "-o", target, FIRST)[0] == 0
        return {row["clientId"] for row in rows(kproxy("decode", "--format", "jsonl", target)[1])}

    first, second = names("--anonymize"), names("--anonymize")
    assert len(first) == len(second) == 2
    assert not first & second
    assert names("--anonymize-key", key) == names("--anonymize", "--anonymize-key", key)
    assert "orders-producer" not in first | second


SECTION = b"\x0a\x0d\x0d\x0a"
CAPTURE = CAPTURES / "04-transactions.pcap"


def read(path: Path, *steps: Callable[[], object]) -> bytes:
    """All bytes; each time that there are no more, the next step is done."""
    left = iter(steps)

    def wait() -> None:
        next(left)()

    file, found, buffer = GrowingFile(path, wait), b"", memoryview(bytearray(3))
    try:
        while count := file.readinto(buffer):
            found += buffer[:count]
    except StopIteration:
        pass
    finally:
        file.close()
    return found


def add(path: Path, more: bytes) -> None:
    with path.open("ab") as file:
        file.write(more)


@pytest.mark.parametrize(("first", "second"), [(b"{1}\n{2}\n", b"{3}\n"), (SECTION + b"1", SECTION + b"2")])
def test_what_is_added_and_what_follows_a_rotation_is_read(tmp_path: Path, first: bytes, second: bytes) -> None:
    path = tmp_path / "log"
    path.write_bytes(first)

    def rotate() -> None:
        add(path, b"last")
        path.rename(tmp_path / "log.1")
        path.write_bytes(second)

    assert read(path, lambda: add(path, b"more"), rotate) == first + b"more" + b"last" + second


def test_a_file_that_was_cut_is_read_from_its_beginning(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"{123456}\n")
    assert read(path, lambda: path.write_bytes(b"{7}\n")) == b"{123456}\n{7}\n"


def test_a_pcap_file_ends_where_another_takes_its_name(tmp_path: Path) -> None:
    path = tmp_path / "trace"
    path.write_bytes(b"\xd4\xc3\xb2\xa1")

    def rotate() -> None:
        path.rename(tmp_path / "trace.1")
        path.write_bytes(b"\xd4\xc3\xb2\xa1")

    assert read(path, rotate) == b"\xd4\xc3\xb2\xa1"


def test_a_growing_capture_is_decoded_until_ctrl_c(
    kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole, path = CAPTURE.read_bytes(), tmp_path / "trace.pcap"
    path.write_bytes(whole[:20_000])

    def steps() -> Iterator[None]:
        add(path, whole[20_000:])
        yield
        raise KeyboardInterrupt

    waits = steps()
    monkeypatch.setattr(decode.time, "sleep", lambda seconds: next(waits))
    code, out, errors = kproxy("decode", "--follow", path)
    expected = kproxy("decode", "-q", CAPTURE)[1]
    assert code == 0 and sorted(out.splitlines()) == sorted(expected.splitlines())
    assert "248 frames in 124 exchanges on 12 connections" in errors


REBALANCE = CAPTURES / "03-classic-rebalance-range.pcap"  # three members of the group g-range read the topic rebal


def selected(kproxy: Kproxy, *words: object) -> list[dict[str, object]]:
    code, out, errors = kproxy("decode", "-q", "--format", "jsonl", *words, REBALANCE)
    assert (code, errors) == (0, "")
    return [json.loads(line) for line in out.splitlines()]


@pytest.mark.parametrize("name", ["JoinGroup", "joingroup", "11"])
def test_an_api_by_name_in_any_case_or_by_key(kproxy: Kproxy, name: str) -> None:
    assert {row["apiName"] for row in selected(kproxy, "--api", name)} == {"JoinGroup"}


def test_values_are_alternatives_and_options_are_not(kproxy: Kproxy) -> None:
    rows = selected(
        kproxy, "--api", "JoinGroup", "--api", "SyncGroup", "--client", "member-1", "--where", "latencyMs > 0.0"
    )
    assert {row["apiName"] for row in rows} == {"JoinGroup", "SyncGroup"}
    assert {row["clientId"] for row in rows} == {"member-1"}
    assert len(rows) < len(selected(kproxy, "--api", "JoinGroup", "--api", "SyncGroup"))


@pytest.mark.parametrize(
    ("options", "apis"),
    [
        (["--topic", "rebal", "--api", "Fetch"], {"Fetch"}),
        (["--topic", "re*l", "--api", "Metadata"], {"Metadata"}),
        (["--topic", "other"], set()),
        (["--group", "g-range", "--api", "FindCoordinator"], {"FindCoordinator"}),
        (["--group", "g-?ange", "--api", "LeaveGroup"], {"LeaveGroup"}),
        (["--client", "127.0.0.1", "--api", "Heartbeat"], {"Heartbeat"}),
        (["--client", "127.0.0"], set()),
        (["--client", "member-*", "--api", "Heartbeat"], {"Heartbeat"}),
    ],
)
def test_topics_groups_and_clients(kproxy: Kproxy, options: list[str], apis: set[str]) -> None:
    assert {row["apiName"] for row in selected(kproxy, *options)} == apis


def test_a_name_is_a_text_whatever_is_in_it() -> None:
    condition = condition_of(topics=('a"] || true',))
    assert condition == '"a\\"] || true" in topics'
    assert condition_of() is None


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["decode", "--api", "Fetchh", REBALANCE], "there is no API 'Fetchh'; did you mean Fetch"),
        (["decode", "--api", "qqq", REBALANCE], "there is no API 'qqq'; kproxy api lists them all"),
        (
            ["decode", "--api", "Fetch", "--where", "apiNam == 1", REBALANCE],
            "--where 'apiNam == 1': nothing is called 'apiNam'",
        ),
        (["decode", "--where", "qqq == 1", REBALANCE], "(column 1); kproxy help conditions lists the names"),
        (["report", "--only", "latensy", REBALANCE], "there is no analysis 'latensy'; did you mean latency"),
        (["report", "--only", "qqq", REBALANCE], "there is no analysis 'qqq'; kproxy report --list shows them"),
        (["filters", "audi"], "there is no filter 'audi'; did you mean audit?"),
        (["api", "Fetc"], "there is no API, message or error 'Fetc'; did you mean Fetch"),
        (["api", "--errors", "NOT_COORDINATR"], "did you mean NOT_COORDINATOR"),
    ],
)
def test_a_wrong_name_gets_what_was_perhaps_meant_and_no_list_of_all(
    kproxy: Kproxy, words: list[object], sentence: str
) -> None:
    code, out, errors = kproxy(*words)
    assert (code, out, errors.count("\n")) == (2, "", 1)
    assert sentence in errors and len(errors) < 300


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("kproxy de", {"decode", "demo"}),
        ("kproxy decode --form", {"--format"}),
        ("kproxy decode --format ", {"text", "jsonl", "pcapng", "parquet"}),
        ("kproxy decode --api prod", {"Produce"}),
        ("kproxy decode --where latencyMs>1.0&&apiN", {"latencyMs>1.0&&apiName"}),
        ("kproxy report --only laten", {"latency"}),
        ("kproxy filters aud", {"audit"}),
        ("kproxy run --fault leader", {"leader_moved"}),
        ("kproxy api joing", {"JoinGroup"}),
        ("kproxy completion ", {"bash", "zsh", "fish"}),
    ],
)
def test_a_shell_completes(kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, words: str, expected: set[str]) -> None:
    """As bash does it: Click's protocol."""
    monkeypatch.setenv("_KPROXY_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(words.count(" ")))
    _, out, _ = kproxy()
    assert {line.removeprefix("plain,") for line in out.splitlines()} == expected


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_for_a_shell_asks_kproxy(kproxy: Kproxy, shell: str) -> None:
    code, out, _ = kproxy("completion", shell)
    assert code == 0 and f"_KPROXY_COMPLETE={shell}_complete" in out
