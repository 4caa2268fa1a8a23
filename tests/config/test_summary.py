"""What `kproxy check` says would run."""

from kproxy.config.structs import (
    Addresses,
    Analysis,
    BrokerTls,
    Cluster,
    Config,
    FilterUse,
    ListenerTls,
    Rotated,
    Traces,
)
from kproxy.config.summary import render_summary

TLS = ListenerTls(certificate="c", key="k")


def cluster_line(cluster: Cluster) -> str:
    return render_summary(Config(clusters=[cluster]))[0]


def test_clusters() -> None:
    plain = Cluster(listen=":19092", bootstrap=["a:1", "b:2"])
    assert cluster_line(plain) == "default: :19092 -> a:1, b:2; brokers on port 19093 + node id"
    listed = Cluster(listen=":19092", bootstrap=["a:1"], addresses=Addresses(node_ids=["1-3"]))
    assert cluster_line(listed) == "default: :19092 -> a:1; brokers on ports 19094 to 19096"
    behind = Addresses(advertise_port=443, advertise_brokers={"3": "three:8443"})
    words = "brokers on port 19093 + node id; advertised port 443 + node id; broker 3 advertised as three:8443"
    assert (
        cluster_line(Cluster(listen=":19092", bootstrap=["a:1"], addresses=behind))
        == f"default: :19092 -> a:1; {words}"
    )
    sni = Cluster(
        name="x",
        listen=":1",
        bootstrap=["a:1"],
        addresses=Addresses(mode="sni", broker_name="b-{node_id}.x", advertise_port=443),
        listener_tls=TLS,
        broker_tls=BrokerTls(),
        filters=[FilterUse(use="m:F")],
    )
    expected = "x: :1 -> a:1; brokers by name, b-{node_id}.x; advertised port 443; TLS from clients; TLS to brokers; filters m:F"
    assert cluster_line(sni) == expected
    transparent = Cluster(listen=":1", addresses=Addresses(mode="transparent"))
    assert (
        cluster_line(transparent)
        == "default: :1 -> the original destination of each connection; addresses unchanged (transparent)"
    )


def test_the_rest() -> None:
    config = Config(
        clusters=[], workers=2, admin=None, analysis=Analysis(log=Rotated(path="l"), capture=Rotated(path="c"))
    )
    assert render_summary(config) == ["2 workers, analysis to l and c", "no admin server"]
    assert render_summary(Config(clusters=[], analysis=Analysis(enabled=False)))[0] == "1 worker, no analysis"


def test_traces() -> None:
    lines = render_summary(
        Config(clusters=[Cluster(listen=":1", bootstrap=["a:1"])], traces=Traces(otlp="http://c:4318"))
    )
    assert "spans of 0.01 of the exchanges to http://c:4318" in lines
