"""Files and options to a configuration; places of contradictions; all mistakes at once."""

from pathlib import Path

import pytest

from kproxy.config.reading import Options, config_from_options, parse_config, read_config
from kproxy.config.structs import Analysis, Cluster, Config, Rotated
from kproxy.errors import ConfigError, UsageError
from kproxy.schemas.settings import SchemaSources

GOOD = "clusters:\n  - listen: 127.0.0.1:19092\n    bootstrap: [kafka:9092]\n"
WRONG = """\
clusters:
  - listen: 9092
    bootstrap: [kafka:9092, kafka]
    listener_tls:
      certificate: none.pem
      key: none.pem
      client_auth: required
  - name: two
    listen: 127.0.0.1:9644
    bootstrap: kafka:9092
    addresses:
      mode: fixed
      first_port: 1
worker: 2
analysis:
  apis: [Nope]
"""


def lines(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse_config(text, "k.yaml")
    return caught.value.lines()


def test_the_smallest_file() -> None:
    cluster = Cluster(listen="127.0.0.1:19092", bootstrap=["kafka:9092"])
    assert parse_config(GOOD, "k.yaml") == Config(clusters=[cluster])


def test_all_mistakes_are_reported_in_the_order_of_the_file() -> None:
    assert [line.split(": ", 2)[:2] for line in lines(WRONG)] == [
        ["k.yaml:2:13", "clusters[0].listen"],
        ["k.yaml:3:29", "clusters[0].bootstrap[1]"],
        ["k.yaml:5:7", "clusters[0].listener_tls.client_ca"],
        ["k.yaml:5:20", "clusters[0].listener_tls.certificate"],
        ["k.yaml:6:12", "clusters[0].listener_tls.key"],
        ["k.yaml:9:13", "clusters[1].listen"],
        ["k.yaml:10:16", "clusters[1].bootstrap"],
        ["k.yaml:13:19", "clusters[1].addresses.first_port"],
        ["k.yaml:14:1", "worker"],
        ["k.yaml:16:10", "analysis.api_name[0]"],
    ]


def test_a_broken_value_is_reported_once() -> None:
    (line,) = lines("clusters: [{listen: [], bootstrap: ['b:1'], addresses: {node_ids: [1]}}]")
    assert "clusters[0].listen" in line


def test_a_port_bound_twice_is_reported_at_the_second_place() -> None:
    text = f"{GOOD}  - name: other\n    listen: 127.0.0.1:19092\n    bootstrap: [b:1]\n    addresses: {{first_port: 20000}}\n"
    (line,) = lines(text)
    assert line.startswith("k.yaml:5:13: clusters[1].listen: port 19092 is where clusters[0] listens")


ONE_SLIP = [
    ("authentication: {mechanism: [PLAIN], users: USERS}", "authentication.mechanism: unknown name"),
    ("listner_tls: {}\n    authentication: {mechanisms: [PLAIN], users: USERS}", "listner_tls: unknown name"),
    ("filters: [{use: deny, with: {rules: [{wen: 'true'}]}}]", "filters[0].with.rules[0].wen: unknown name"),
    ("filters: [{use: deny, wth: {rules: []}}]", "filters[0].wth: unknown name"),
    (
        "login: {mechanism: SCRAM-SHA-256, username: u, password: 'vault:a/b', vault: {url: 'https://v', token: env:HOME}}",
        "login.password: it says where the secret is",
    ),
    ("filters: [{use: validate, with: {rules: [{}]}}]", "filters[0].use: validate needs schemas: name a registry"),
    ("filters: [{use: deny, with: {rules: [{}]}}]", "filters[0].with.rules[0].when: it is missing"),
]


@pytest.mark.parametrize(("text", "said"), ONE_SLIP)
def test_one_slip_is_one_mistake_with_its_place(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "users").write_text(f'{{"unknown_users": "{"A" * 43}="}}')
    (line,) = lines(f"{GOOD}    {text.replace('USERS', str(tmp_path / 'users'))}\n")
    place, path, message = line.split(": ", 2)
    assert place.startswith("k.yaml:4:") and f"{path}: {message}".startswith(f"clusters[0].{said}")


def test_vault_of_a_login(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is wrong with it has its place, and nothing that follows from that is reported."""
    monkeypatch.setenv("VAULT_TOKEN", "t")
    login = "    login: {mechanism: SCRAM-SHA-256, username: me, password: 'vault:a/b#c'"
    assert parse_config(f"{GOOD}{login}, vault: {{url: 'https://v:8200'}}}}", "k.yaml").clusters[0].login is not None
    vault = (": {url: 'http://v'}", ": {}", ": {url: 'http://v', tokn: 'x'}", ": {url: 'https://v', token: 'env:NONE'}")
    no_tls = [
        "clusters[0].login.vault.url",
        "the token would be sent without TLS: write https://, or without_tls: true",
    ]
    said = [lines(f"{GOOD}{login}, vault{each}}}") for each in vault]
    assert [[line.split(": ", 2)[1:] for line in each] for each in said] == [
        [no_tls],
        [["clusters[0].login.vault.url", "it is missing"]],
        [no_tls, ["clusters[0].login.vault.tokn", "unknown name: did you mean token?"]],
        [["clusters[0].login.vault.token", 'the environment variable "NONE" is not set']],
    ]


def test_sources_of_schemas(tmp_path: Path) -> None:
    (tmp_path / "order.avsc").write_text('"long"')
    (tmp_path / "login").write_text("user:secret\n")
    text = f"""{GOOD}schemas:
  topics: {{orders.value: {tmp_path}/order.avsc}}
  folders: [{tmp_path}]
  registries:
    - url: https://one.example.com
      topics: ["orders-*"]
      login: {tmp_path}/login
    - url: %s
      topics: [bills]
"""
    schemas = parse_config(text % "http://two.example.com:8081", "k.yaml").schemas
    assert [registry.url for registry in schemas.registries] == [
        "https://one.example.com",
        "http://two.example.com:8081",
    ]
    options = (
        f"https://one.example.com topics=orders-* login={tmp_path}/login",
        "http://two.example.com:8081 topics=bills",
    )
    assert SchemaSources.of_options(options, (tmp_path,), (f"orders.value={tmp_path}/order.avsc",)) == schemas
    (tmp_path / "login").unlink()
    login, url = lines(text % "http://user:secret@two.example.com")
    assert login.startswith("k.yaml:8:7: schemas.registries[0]: ")
    assert url.startswith("k.yaml:11:7: schemas.registries[1]: credentials of a registry come from a file")
    assert "secret" not in login + url


def test_a_file(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.encode())
    assert read_config(str(file)) == parse_config(GOOD, "")
    file.write_bytes(b"a: b\nc: \xff\xfe")
    with pytest.raises(ConfigError) as wrong:
        read_config(str(file))
    assert wrong.value.lines() == [f"{file}:2:4: the file is not UTF-8: it has the byte ff here"]
    with pytest.raises(ConfigError, match="No such file"):
        read_config(str(tmp_path / "none"))
    with pytest.raises(ConfigError, match="Is a directory"):
        read_config(str(tmp_path))


def test_options_are_a_configuration() -> None:
    options = Options(
        listen=":19092",
        bootstrap=["a:1", "b:2"],
        advertise="proxy.example.com",
        admin="off",
        workers=3,
        outlive=True,
        log="log.jsonl",
        capture="c.pcapng",
    )
    config = config_from_options(options)
    assert (config.admin, config.workers, config.outlive) == (None, 3, True)
    assert config.clusters[0].bootstrap == ["a:1", "b:2"]
    assert config.clusters[0].addresses.advertise == "proxy.example.com"
    assert config.analysis == Analysis(log=Rotated(path="log.jsonl"), capture=Rotated(path="c.pcapng"))


@pytest.mark.parametrize(
    ("options", "lines"),
    [
        (Options(), ["--listen: it is missing (or -c FILE)", "--bootstrap: it is missing (or -c FILE)"]),
        (Options(listen="x", bootstrap=["b:1"]), ['--listen: "x": it has no port: write "host:port"']),
        (Options(listen=":1", bootstrap=["b"]), ['--bootstrap: "b": it has no port: write "host:port"']),
        (Options(listen=":1", bootstrap=["b:1"], admin="x"), ['--admin: "x": it has no port: write "host:port"']),
        (
            Options(listen=":1", bootstrap=["b:1"], log="/no/such/x"),
            ['--log: "/no/such" is not a directory: create it first'],
        ),
        (
            Options(listen=":1", bootstrap=["b:1"], analysis=False, log="x"),
            ["--no-analysis: log and capture are written by the analysis: enable the analysis, or leave them out"],
        ),
        (
            Options(listen=":1", bootstrap=["b:1"], advertise="a b"),
            ['--advertise: "a b": the host is no name: letters, digits, hyphens and dots'],
        ),
    ],
)
def test_mistakes_in_options_are_named_by_them(options: Options, lines: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        config_from_options(options)
    assert caught.value.lines() == lines


@pytest.mark.parametrize("workers", [0, -1, 257])
def test_the_number_of_workers_has_limits(workers: int) -> None:
    with pytest.raises(ConfigError, match="--workers"):
        config_from_options(Options(listen=":1", bootstrap=["b:1"], workers=workers))


def test_options_override_the_file(tmp_path: Path) -> None:
    file = tmp_path / "k.yaml"
    file.write_text(GOOD + "workers: 2\nanalysis: {sample: 0.5}\n", encoding="utf-8")
    config = config_from_options(Options(file=str(file), workers=4, admin="127.0.0.1:1", log="x.jsonl"))
    assert (config.workers, config.admin, config.analysis.sample) == (4, "127.0.0.1:1", 0.5)
    assert config.analysis.log == Rotated(path="x.jsonl")
    with pytest.raises(UsageError, match="--listen cannot be used with -c"):
        config_from_options(Options(file=str(file), listen=":1"))


def test_faults_of_the_command_line_are_of_every_cluster_behind_those_of_the_file(tmp_path: Path) -> None:
    file = tmp_path / "kproxy.yaml"
    file.write_text(
        "clusters:\n"
        "- {name: a, listen: ':1', bootstrap: ['b:1'], filters: [{use: faults, with: {faults: [{disconnect: true}]}}]}\n"
        "- {name: b, listen: ':300', bootstrap: ['b:1']}\n",
        encoding="utf-8",
    )
    config = config_from_options(Options(file=str(file), faults=["api_name=Produce delay=2s", "leader_moved"]))
    added = [{"api_name": "Produce", "delay": "2s"}, {"scenario": "leader_moved"}]
    found = [[(use.use, use.with_) for use in cluster.filters] for cluster in config.clusters]
    assert found == [[("faults", {"faults": [{"disconnect": True}, *added]})], [("faults", {"faults": added})]]
