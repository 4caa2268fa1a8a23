"""Message classes as a filter's author uses them."""

import copy
import gc
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from kproxy.protocol import MessageStruct, Struct, message
from kproxy.protocol.facts import facts
from kproxy.protocol.structs import struct_types
from tests.support.corpus import golden_lines

Metadata = struct_types("MetadataResponse")["MetadataResponse"]
Topic = struct_types("MetadataResponse")["MetadataResponseTopic"]


def test_fields_that_are_not_given_have_kafkas_defaults() -> None:
    response = Metadata()
    assert isinstance(response, MessageStruct)
    assert (response.controller_id, response.cluster_id, response.brokers) == (-1, None, [])
    assert response.cluster_authorized_operations == -(2**31)
    assert (Topic().topic_id, response.unknown_tags, response.layout) == ("A" * 22, (), None)


def test_defaults_that_change_are_never_shared() -> None:
    first, second = Metadata(), Metadata()
    first.topics.append(Topic())
    assert second.topics == []


def test_a_name_that_is_no_field_is_refused() -> None:
    with pytest.raises(TypeError, match="no field nodes"):
        Metadata(nodes=[])
    with pytest.raises(AttributeError):
        Metadata().nodes = []
    with pytest.raises(AttributeError, match="no field nodes"):
        _ = Metadata().nodes


def test_every_class_can_be_made_and_has_no_dict() -> None:
    for name in facts().messages():
        for made in struct_types(name).values():
            assert not hasattr(made(), "__dict__")
            assert made() == made()
            assert repr(made()) == f"{made.__name__}()"


def test_equality_is_of_type_and_all_fields() -> None:
    class Sub(Topic):  # type: ignore[misc, valid-type]
        __slots__ = ("extra",)

    assert Topic(name="a") == Topic(name="a") != Topic(name="b")
    assert Topic(unknown_tags=((5, b""),)) != Topic()
    assert Topic() != Sub() and Sub() != Topic() and Sub() == Sub()
    assert Topic() != Metadata() and Topic() != 1
    with pytest.raises(TypeError):
        hash(Topic())


def test_a_subclass_is_written_like_its_base() -> None:
    class Sub(Topic):  # type: ignore[misc, valid-type]
        """Has a __dict__, so it is longer than its base."""

    sub = Sub(name="a")
    sub.note = "mine"
    layout = message("MetadataResponse")
    assert layout.encode(1, Metadata(topics=[sub])) == layout.encode(1, Metadata(topics=[Topic(name="a")]))


def decoded_samples() -> list[tuple[str, int, bytes]]:
    found = {}
    for line in golden_lines("messages"):
        if line["kind"] in ("empty", "unknown-tags", "many"):
            found[line["message"], line["kind"]] = line["message"], line["version"], bytes.fromhex(line["hex"])
    return list(found.values())


def test_decoded_messages_can_be_copied_whatever_is_unset_in_them() -> None:
    for name, version, data in decoded_samples():
        layout = message(name)
        for copied in (copy.copy(layout.decode(version, data)), copy.deepcopy(layout.decode(version, data))):
            assert copied == layout.decode(version, data)
            assert layout.encode(version, copied) == layout.encode(version, layout.decode(version, data))


def test_a_deep_copy_shares_nothing() -> None:
    first = Metadata(topics=[Topic(name="a")])
    second = copy.deepcopy(first)
    second.topics[0].name = "b"
    second.brokers.append(1)
    assert (first.topics[0].name, first.brokers) == ("a", [])


def test_classes_made_from_facts_say_that_they_cannot_be_pickled() -> None:
    with pytest.raises((pickle.PicklingError, AttributeError)):
        pickle.dumps(Topic())


def test_an_unset_field_has_its_default() -> None:
    bare = Topic.__new__(Topic)
    assert bare == Topic()
    assert bare.unknown_tags == ()
    assert bare.partitions is bare.partitions
    topic = Topic(name="a", error_code=3)
    del topic.error_code
    assert topic.error_code == 0
    layout = message("MetadataResponse")
    response = Metadata(controller_id=5)
    del response.controller_id
    assert layout.encode(1, response) == layout.encode(1, Metadata())
    with pytest.raises(AttributeError):
        _ = bare.__setstate__


def test_fields_of_other_versions_have_their_defaults_after_decoding() -> None:
    response = message("MetadataResponse").decode(0, bytes(8))
    assert (response.cluster_id, response.controller_id, response.throttle_time_ms) == (None, -1, 0)
    assert response.layout is None


def test_repr_shows_what_is_not_the_default_and_no_credentials() -> None:
    assert repr(Topic(name="a", is_internal=True)) == "MetadataResponseTopic(name='a', is_internal=True)"
    assert repr(Topic(unknown_tags=((7, b"x"),))) == "MetadataResponseTopic(unknown_tags=((7, b'x'),))"
    token = struct_types("SaslAuthenticateRequest")["SaslAuthenticateRequest"](auth_bytes=b"\0me\0canary")
    assert repr(token) == "SaslAuthenticateRequest(auth_bytes=(withheld))"
    types = struct_types("AlterConfigsRequest")
    configs = [
        types["AlterableConfig"](name="listener.name.sasl.ssl.key.password", value="canary"),
        types["AlterableConfig"](name="retention.ms", value="1000"),
    ]
    text = repr(types["AlterConfigsRequest"](resources=[types["AlterConfigsResource"](configs=configs)]))
    assert "canary" not in text and "value='1000'" in text


def test_threads_may_decode_and_read_at_once() -> None:
    samples = decoded_samples()[:80]

    def work(_: int) -> list[Struct]:
        return [message(name).decode(version, data) for name, version, data in samples]

    with ThreadPoolExecutor(4) as pool:
        first, *others = pool.map(work, range(4))
    assert all(other == first for other in others)


def test_the_collector_may_run_over_decoded_messages_and_what_hangs_on_them() -> None:
    kept = [message(name).decode(version, data) for name, version, data in decoded_samples()]
    for value in kept:
        for field in value.fields:
            found = getattr(value, field.attribute)
            if isinstance(found, list):
                found.append([found])  # a cycle through a list that decoding made
                found.clear()
    gc.collect()
    del kept
    gc.collect()
