"""The commands, their errors and exit codes; kproxy help, check and doctor."""

import errno
import json
import os
import re
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import click
import jsonschema
import pytest
from msgspec import to_builtins

from kproxy import __version__
from kproxy.cli import app
from kproxy.cli.app import COMMANDS
from kproxy.cli.app import kproxy as program
from kproxy.encryption.services.key_set import KeySet, KeySetOptions
from kproxy.filters.loading import BUILT_IN
from kproxy.manual import TOPICS, text
from kproxy.page.answers import manual_page
from kproxy.protocol.facts import facts
from tests.cli.conftest import Kproxy
from tests.support.command import kproxy
from tests.support.corpus import CAPTURES, ROOT
from tests.support.ports import free_ports

KPROXY = [sys.executable, "-c", "from kproxy.cli import main; main()"]
LARGE = CAPTURES / "05-admin.pcap"


def run(*words: str, given: bytes = b"", columns: int = 80) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "COLUMNS": str(columns), "PYTHONPATH": str(ROOT)}
    return subprocess.run([*KPROXY, *words], input=given, capture_output=True, check=False, env=environment)


def test_version(kproxy: Kproxy) -> None:
    assert kproxy("--version") == (0, f"kproxy {__version__}\n", "")


@pytest.mark.parametrize("command", app.COMMANDS)
def test_the_help_of_a_command_fits_into_80_columns_and_shows_how_it_is_used(kproxy: Kproxy, command: str) -> None:
    code, out, _ = kproxy(command, "--help")
    lines = out.splitlines()
    assert code == 0 and max(map(len, lines)) <= 80
    assert next(line for line in lines[1:] if line).strip() == app.COMMANDS[command]
    assert f"  kproxy {command}" in out


def test_without_a_command_the_help_is_shown_as_it_is(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("--help")
    assert code == 0 and max(map(len, out.splitlines())) <= 80
    assert kproxy() == (2, "", out)


def imported_by(*words: str) -> set[str]:
    """Names of the modules that a run of the command imports, and their packages."""
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "kproxy", *words],
        capture_output=True,
        check=True,
        cwd="/",
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    lines = done.stderr.decode().splitlines()
    return {line.rpartition("|")[2].strip() for line in lines if line.startswith("import time:")}


def test_version_imports_nothing() -> None:
    imported = imported_by("--version")
    assert {name for name in imported if name.startswith("kproxy.")} == {"kproxy.cli"}
    assert not imported & {"asyncio", "click", "cryptography", "dataclasses", "msgspec", "rich", "typing", "uvloop"}


def test_help_imports_no_command() -> None:
    imported = imported_by("--help")
    assert {name for name in imported if name.startswith("kproxy.")} <= {
        "kproxy.cli",
        "kproxy.cli.app",
        "kproxy.cli.endings",
        "kproxy.errors",
    }


def test_decode_imports_only_what_it_uses() -> None:
    imported = imported_by("decode", str(CAPTURES / "01-java-produce-consume-group.pcap"))
    assert not imported & {
        "asyncio",
        "cel",
        "cryptography",
        "pyarrow",
        "rich.console",
        "starlette",
        "uvloop",
    }
    assert not imported & {"crc32c", "email", "importlib.metadata", "importlib.resources"}
    assert not imported & {"kproxy.capture.tls.connection", "kproxy.output.tables", "kproxy.output.where"}
    assert not [name for name in imported if name.startswith(("kproxy.config", "kproxy.proxy"))]
    assert not imported & {f"kproxy.cli.{command}" for command in app.COMMANDS} - {"kproxy.cli.decode"}


def test_a_report_imports_neither_numpy_nor_pandas(tmp_path: Path) -> None:
    for name in ("numpy", "pandas"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('imported')")
    words = [*KPROXY, "report", "-q", "--all", "--format", "json", str(CAPTURES / "01-java-produce-consume-group.pcap")]
    paths = {**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"}
    done = subprocess.run(words, capture_output=True, check=False, env=paths)
    assert (done.returncode, done.stderr) == (0, b"") and json.loads(done.stdout)["verdicts"]


def test_standard_input_is_a_capture_too() -> None:
    done = run("decode", "-q", "--format", "jsonl", "-", given=LARGE.read_bytes())
    assert done.returncode == 0
    assert done.stdout == run("decode", "-q", "--format", "jsonl", str(LARGE)).stdout


KAFKA = ["--listen", "127.0.0.1:19092", "--bootstrap", "127.0.0.1:1"]
WRITING = [  # every command that writes to standard output, and what Click writes itself
    ["--version"],
    ["--help"],
    ["decode", "--help"],
    ["decode", "-v", str(LARGE)],
    ["decode", "--format", "jsonl", str(LARGE)],
    ["report", "--list"],
    ["report", "-q", "--only", "map", str(LARGE)],
    ["sql", "-q", str(LARGE), "SELECT * FROM exchanges"],
    ["sql", "-q", str(LARGE), "SELECT * FROM exchanges", "--format", "csv"],
    ["api"],
    ["api", "Fetch"],
    ["check", "--schema"],
    ["doctor", *KAFKA, "--timeout", "1", "--admin", "off"],
    ["filters"],
]


@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_closed_pipe_is_no_error(
    words: list[str], kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """``kproxy ... | head``, when head has ended."""
    reading, writing = os.pipe()
    os.close(reading)
    with monkeypatch.context() as piped, open(writing, "w", encoding="utf-8") as pipe:  # noqa: PTH123 - a descriptor
        piped.setattr(sys, "stdout", pipe)
        code, _, errors = kproxy(*words)
    assert (code, [line for line in errors.splitlines() if line.startswith("kproxy") or "Error" in line]) == (0, [])


@pytest.mark.parametrize("words", [words for words in WRITING if not words[-1].startswith("--")], ids=" ".join)
def test_standard_output_that_is_closed_is_one_sentence(
    words: list[str], kproxy: Kproxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """``kproxy ... >&-``"""
    with monkeypatch.context() as closed:
        closed.setattr(sys, "stdout", None)
        code, _, errors = kproxy(*words)
    assert (code, errors) == ((4, "") if words[0] == "doctor" else (2, "kproxy: standard output is closed\n"))


def test_unknown_commands_are_one_sentence(kproxy: Kproxy) -> None:
    code, _, errors = kproxy("decoed")
    assert code == 2
    assert errors.startswith("kproxy: no such command 'decoed': did you mean decode")
    assert errors.count("\n") == 1


@pytest.mark.parametrize("command", ["run", "doctor"])
def test_a_configuration_is_named_by_an_option(kproxy: Kproxy, command: str) -> None:
    said = f"kproxy: k.yaml is an argument too many: write -c k.yaml; see kproxy {command} --help\n"
    assert kproxy(command, "k.yaml") == (2, "", said)


@pytest.mark.parametrize("words", [("decode", "--bogus"), ("decode", "--format")])
def test_a_command_refers_to_its_own_help(kproxy: Kproxy, words: tuple[str, ...]) -> None:
    assert kproxy(*words)[2].rstrip().endswith("; see kproxy decode --help")


def test_a_full_disk_is_one_sentence(kproxy: Kproxy) -> None:
    code, _, errors = kproxy("decode", "-q", "-o", "/dev/full", LARGE)
    assert (code, errors) == (1, "kproxy: /dev/full: No space left on device\n")


def test_too_little_memory_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def exhausted(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(app, "_run", exhausted)
    with pytest.raises(SystemExit) as exit_:
        app.main([])
    assert exit_.value.code == 1
    assert capsys.readouterr().err.startswith("kproxy: there is not enough memory")


def test_after_an_interrupt_what_was_decoded_is_kept_and_summed_up() -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        [*KPROXY, "decode", "-"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509 - ignored below nohup and &
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(LARGE.read_bytes()[:-100])
        process.stdin.flush()
        first = process.stdout.readline()  # it is at work, and waits for more of the capture
        process.send_signal(signal.SIGINT)
        rest, errors = process.communicate()
    assert process.returncode == 130
    assert errors.count(b" exchanges on ") == 1
    assert b"Traceback" not in errors
    assert b"ApiVersions" in first
    assert rest.endswith(b"\n")


@pytest.mark.parametrize("name", ["kproxy", "kproxy-spark"])
def test_ctrl_c_while_the_program_starts_shows_no_traceback(name: str) -> None:
    module, _, function = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"][name].partition(
        ":"
    )
    begins = f"from {module} import {function} as main; main()"
    interrupts = "find_spec = staticmethod(lambda name, *_: os.kill(os.getpid(), 2) if name == 'click' else None)"
    listens = "signal.signal(2, signal.default_int_handler)"  # also where the tests run with the signal ignored
    program = (
        f"import os, signal, sys\n{listens}\nclass Finder: {interrupts}\nsys.meta_path.insert(0, Finder); {begins}"
    )
    done = subprocess.run([sys.executable, "-c", program, "--help"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, "", "")


@pytest.mark.parametrize(
    ("words", "told"), [(("decode", "-q", "no-such-file"), ""), (("api", "ApiVersions"), "taken apart\n")]
)
def test_a_decode_ends_without_taking_its_objects_apart(words: tuple[str, ...], told: str) -> None:
    program = "import atexit; atexit.register(print, 'taken apart'); from kproxy.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program, *words], capture_output=True, text=True, check=False)
    assert done.stdout.endswith(told) if told else done.stdout == ""
    assert done.returncode == (0 if told else app.USAGE)


@pytest.mark.parametrize("command", ["decode", "report", "sql", "open", "replay"])
def test_every_command_refuses_a_source_that_is_empty_in_the_same_way(kproxy: Kproxy, command: str) -> None:
    more = {"sql": ["SELECT 1"], "open": ["--no-browser"], "replay": ["--to", "127.0.0.1:1"]}.get(command, [])
    assert kproxy(command, "/dev/null", *more) == (2, "", "kproxy: /dev/null: byte 0: the file is empty\n")


MANUAL = Path(__file__).parents[2] / "kproxy" / "manual" / "topics"


def options_of(name: str) -> set[str]:
    command = program.get_command(click.Context(program), name)
    assert command is not None
    return {word for option in command.params for word in (*option.opts, *option.secondary_opts)} | {"--help"}


def test_every_file_is_a_topic() -> None:
    assert {path.stem for path in MANUAL.glob("*.md")} == set(TOPICS)


def test_topics_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("help") == 0
    listed = capsys.readouterr().out.split("\n\n")[0]  # lines that go on are indented
    assert re.findall(r"^(\S+) ", listed, re.MULTILINE) == list(TOPICS)


@pytest.mark.parametrize("topic", TOPICS)
def test_a_topic_is_rendered_for_terminals_and_browsers(topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    heading = text(topic).splitlines()[0].removeprefix("# ")
    assert kproxy("help", topic) == 0
    assert capsys.readouterr().out.splitlines()[0].strip() == heading
    assert f"<h1>{heading}</h1>" in manual_page(topic)
    assert "<!-- table" not in text(topic)


@pytest.mark.parametrize("topic", TOPICS)
def test_commands_and_options_in_a_topic_exist(topic: str) -> None:
    for name, rest in re.findall(r"\bkproxy ([a-z]+)\b((?: [^\s`|]+)*)", text(topic)):
        if name in COMMANDS:
            unknown = set(re.findall(r"(?<=\s)--[a-z-]+", rest)) - options_of(name)
            assert not unknown, f"kproxy {name} has no {unknown}"


def test_versions_are_those_that_the_facts_decode() -> None:
    rows = {row[0]: row[1:] for row in re.findall(r"^\| (\w+) \|(.*)\|$", text("versions"), re.MULTILINE)}
    for api in facts().apis.values():
        for cell in rows.get(api.name, ("",))[0].split("|"):
            assert all(int(number) in api.versions for number in re.findall(r"\d+", cell))
    assert len(rows) >= 8


def test_the_list_of_topics_fits_into_80_columns(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert kproxy("help") == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 80
    assert all(line in " ".join(shown.split()) for line in TOPICS.values())


@pytest.mark.parametrize("topic", TOPICS)
def test_code_in_the_manual_is_never_broken_into_lines(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], topic: str
) -> None:
    """Who copies a command from a narrow terminal gets all of it; code in lists has to fit into 80 columns."""
    blocks = re.findall(r"^```.*\n([^`]*)^```$", text(topic), re.MULTILINE)
    in_lists = re.findall(
        r"^ {6,}\S.*$", re.sub(r"^```.*\n[^`]*^```$", "", text(topic), flags=re.MULTILINE), re.MULTILINE
    )
    for columns, code in (("60", [line for block in blocks for line in block.splitlines()]), ("80", in_lists)):
        monkeypatch.setenv("COLUMNS", columns)
        assert kproxy("help", topic) == 0
        shown = {line.strip() for line in capsys.readouterr().out.splitlines()}
        assert [line for line in code if line.strip() not in shown] == []


def test_a_command_is_helped_and_a_wrong_word_gets_the_closest(capsys: pytest.CaptureFixture[str]) -> None:
    assert kproxy("help", "decode") == 0
    assert "Usage: kproxy decode" in capsys.readouterr().out
    assert kproxy("help", "conditons") == 2
    assert capsys.readouterr().err == "kproxy: there is no topic and no command 'conditons'; did you mean conditions?\n"


GOOD = "clusters:\n  - listen: 127.0.0.1:19092\n    bootstrap: [kafka:9092]\n"


def test_what_would_run(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD, encoding="utf-8")
    code, out, _ = kproxy("check", file)
    assert code == 0
    assert out.splitlines() == [
        f"{file}: no mistakes",
        "default: 127.0.0.1:19092 -> kafka:9092; brokers on port 19093 + node id",
        "1 worker, analysis for metrics only",
        "admin on 127.0.0.1:9644",
    ]


@pytest.mark.parametrize(("named", "fields"), [(True, []), (False, []), (True, ["$.a"])])
def test_dead_letters_that_would_be_written_in_plain_text_or_refused(
    kproxy: Kproxy, tmp_path: Path, named: bool, fields: list[str]
) -> None:
    (tmp_path / "seal").write_bytes(bytes(range(32)))
    keys = KeySetOptions(path=str(tmp_path / "keys"), key_file=str(tmp_path / "seal"))
    KeySet(keys).make("kek")
    topics = ["orders*" if named else "orders"]
    filters = [
        {"use": "validate", "with": {"rules": [{"then": "dead_letter"}]}},
        {"use": "encrypt", "with": {"keys": {"use": "file", "with": to_builtins(keys)}}},
    ]
    filters[1]["with"]["rules"] = [
        {"topics": ["bills"], "key": "kek", "writes": "plain"},
        {"topics": topics, "key": "kek", "fields": fields},
    ]
    file = tmp_path / "k.yaml"
    file.write_text(
        f"{GOOD}    filters: {json.dumps(filters)}\nschemas: {{folders: ['{tmp_path}']}}\n", encoding="utf-8"
    )
    code, out, _ = kproxy("check", file)
    warnings = [line for line in out.splitlines() if "warning" in line]
    sentence = (
        'values of "orders" that validate refuses are written to "orders-dead-letters" in plain text: '
        "no rule of encrypt names it"
    )
    if fields:
        sentence = (
            'values of "orders*" that validate refuses are written to "orders*-dead-letters", and the rule of encrypt for it '
            "names fields: values in which they are not found are refused there as well"
        )
    is_warned = fields or not named
    assert (code, warnings) == (0, [f"{file}: warning: clusters[0].filters[1]: {sentence}"] if is_warned else [])


def test_every_mistake_on_a_line_that_editors_can_jump_to(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD + "worker: 2\nadmin: nowhere\n", encoding="utf-8")
    code, out, errors = kproxy("check", file)
    assert (code, out) == (2, "")
    lines = errors.splitlines()
    assert [line.split(": ")[:2] for line in lines] == [[f"{file}:4:1", "worker"], [f"{file}:5:8", "admin"]]
    assert "did you mean workers?" in lines[0]


def test_a_file_that_is_not_there(kproxy: Kproxy) -> None:
    assert kproxy("check", "/no/such/k.yaml") == (2, "", "/no/such/k.yaml: No such file or directory\n")
    code, _, errors = kproxy("check")
    assert code == 2 and "no FILE to check" in errors


def test_the_schema(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("check", "--schema")
    schema = json.loads(out)
    jsonschema.Draft202012Validator.check_schema(schema)
    assert code == 0 and "clusters" in str(schema)


def test_the_list_names_every_built_in_filter(kproxy: Kproxy) -> None:
    code, out, _ = kproxy("filters")
    assert code == 0
    assert set(BUILT_IN) <= {line.split()[0] for line in out.splitlines()}


@pytest.mark.parametrize("name", BUILT_IN)
def test_every_built_in_filter_has_a_page(kproxy: Kproxy, name: str) -> None:
    code, out, _ = kproxy("filters", name)
    assert code == 0
    assert out.startswith(f"{name}\n\n")
    page = json.loads(kproxy("filters", name, "--format", "json")[1])
    assert page["name"] == name
    assert all(option["description"].endswith(".") for option in page["options"])


def test_the_page_of_a_users_filter(kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "from kproxy.filters.contract import Filter\nclass Mine(Filter):\n    def __init__(self, prefix: str): ...\n"
    (tmp_path / "shown_filters.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert "  prefix  (str; required)" in kproxy("filters", "shown_filters:Mine")[1]


def test_a_port_where_nothing_listens(kproxy: Kproxy) -> None:
    port = free_ports(1)
    code, out, errors = kproxy(
        "doctor", "--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{free_ports(1)}"
    )
    assert code == 4
    assert f"PROBLEM  default: 127.0.0.1:{port}: nothing listens on that port\n         → correct the port" in out
    assert out.splitlines()[-1].startswith("1 problem")
    assert errors == ""


def test_json_is_an_object_a_line(kproxy: Kproxy) -> None:
    port = free_ports(1)
    _, out, _ = kproxy(
        "doctor", "--format", "json", "--listen", ":19092", "--bootstrap", f"127.0.0.1:{port}", "--admin", "off"
    )
    found = [json.loads(line) for line in out.splitlines()]
    assert [one["subject"] for one in found if one["state"] == "problem"] == [f"default: 127.0.0.1:{port}"]


def test_a_configuration_of_another_time(kproxy: Kproxy, tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text("listen: :19092\nclusters:\n- {listen: ':19092', bootstrp: [kafka:9092]}\n", encoding="utf-8")
    code, out, _ = kproxy("doctor", "-c", str(file))
    assert code == 4
    assert f"PROBLEM  configuration: {file}:1:1: listen: unknown name" in out
    assert ": clusters[0].bootstrp: unknown name: did you mean bootstrap?" in out


def test_wrong_usage(kproxy: Kproxy) -> None:
    code, out, errors = kproxy("doctor")
    assert (code, out) == (2, "")
    assert "--listen" in errors and "it is missing" in errors
    code, out, errors = kproxy("doctor", "--admin", f"127.0.0.1:{free_ports(1)}")
    assert code == 2 and "no kproxy answers at" in errors


def test_properties_that_cannot_be_used(kproxy: Kproxy, tmp_path: Path) -> None:
    words = ["--listen", ":19092", "--bootstrap", "127.0.0.1:1", "--command-config"]
    code, out, errors = kproxy("doctor", *words, str(tmp_path / "none"))
    assert code == 2 and f"{tmp_path / 'none'}: No such file or directory" in errors
    (tmp_path / "client.properties").write_text("security.protocol=SASL_SSL\npassword=secret\n", encoding="utf-8")
    code, out, errors = kproxy("doctor", *words, str(tmp_path / "client.properties"))
    assert code == 2 and "sasl.mechanism is missing" in errors
    assert "secret" not in errors + out


@pytest.mark.parametrize("command", ["decode", "report", "replay", "open", "sql", "schemas"])
def test_a_source_in_a_folder_that_may_not_be_entered(
    kproxy: Kproxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    source, exists = tmp_path / "a.pcap", Path.exists

    def refused(path: Path) -> bool:
        if path == source:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return exists(path)

    monkeypatch.setattr(Path, "exists", refused)
    more = ["--to", "localhost:1"] if command == "replay" else []
    assert kproxy(command, source, *more) == (
        2,
        "",
        f"kproxy: {source}: its folder cannot be entered: Permission denied\n",
    )
