from pathlib import Path

from pipeline.devbroker.properties import Node, render, server_properties

ONE = (Node(1, "127.0.0.1:9092", "127.0.0.1:9093", Path("node-1")),)
THREE = tuple(Node(n, f"127.0.0.1:{9090 + n}", f"127.0.0.1:{9190 + n}", Path(f"node-{n}")) for n in (1, 2, 3))


def test_one_broker_needs_no_other():
    properties = server_properties(ONE[0], ONE)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093"
    assert properties["advertised.listeners"] == "PLAINTEXT://127.0.0.1:9092"
    assert properties["controller.quorum.voters"] == "1@127.0.0.1:9093"
    copies = {
        key: value for key, value in properties.items() if key.endswith(("replication.factor", ".isr", "replicas"))
    }
    assert len(copies) == 7
    assert set(copies.values()) == {"1"}


def test_three_brokers_know_each_other():
    first, third = (server_properties(node, THREE) for node in (THREE[0], THREE[2]))
    assert first["controller.quorum.voters"] == "1@127.0.0.1:9191,2@127.0.0.1:9192,3@127.0.0.1:9193"
    assert (first["default.replication.factor"], first["min.insync.replicas"]) == ("3", "2")
    assert {key for key in first if first[key] != third[key]} == {"node.id", "listeners", "advertised.listeners"}


def test_extra_listeners_stand_beside_ours_and_other_keys_replace():
    extra = {
        "listeners": "SASL_SSL://127.0.0.1:9094",
        "advertised.listeners": "SASL_SSL://127.0.0.1:9094",
        "listener.security.protocol.map": "SASL_SSL:SASL_SSL",
        "num.io.threads": "1",
        "sasl.enabled.mechanisms": "PLAIN",
    }
    plain, properties = server_properties(ONE[0], ONE), server_properties(ONE[0], ONE, extra)
    for key in ("listeners", "advertised.listeners", "listener.security.protocol.map"):
        assert properties[key] == f"{plain[key]},{extra[key]}"
    assert properties["num.io.threads"] == "1"
    assert properties["sasl.enabled.mechanisms"] == "PLAIN"


def test_text_is_what_java_reads():
    assert render({"b": "2", "a": "1"}) == "a=1\nb=2\n"
    assert render({"a b:c": "  x = y: #!\\"}) == "a\\ b\\:c=\\ \\ x = y: #!\\\\\n"
    assert render({"pem": "-----BEGIN\nAB\tC\r\n"}) == "pem=-----BEGIN\\nAB\\tC\\r\\n\n"
    assert render({"path": "é/😀"}) == "path=\\u00e9/\\ud83d\\ude00\n"
