"""What is looked for in bodies, found in the facts."""

import pytest

from kproxy.output.tables.layouts import TOP_FIELDS, Form, Kind, searched_fields, top_fields
from kproxy.protocol.facts import facts


@pytest.mark.parametrize(("name", "version"), [("ApiVersionsRequest", 4), ("SaslHandshakeRequest", 1)])
def test_a_body_with_nothing_to_find_is_not_visited(name: str, version: int) -> None:
    assert not searched_fields(name, version).finds_something


def test_names_and_error_codes_are_found_below_arrays() -> None:
    top = searched_fields("OffsetFetchResponse", 9)
    ((attribute, is_array, group),) = top.children
    assert (attribute, is_array, group.names) == ("groups", True, (("group_id", Kind.GROUP, False),))
    assert group.error_codes == ("error_code",)
    ((_, _, topic),) = group.children
    assert (topic.names, topic.partitions) == ((("name", Kind.TOPIC, False),), "partitions")


def test_a_top_field_is_the_first_path_that_the_version_has() -> None:
    columns = [column for column, _, _ in TOP_FIELDS]
    old, new = (
        {columns[field.column]: (field.attribute, field.inner, field.form) for field in fields}
        for fields in (
            top_fields("LeaveGroupRequest", 2, in_response=False),
            top_fields("LeaveGroupRequest", 5, in_response=False),
        )
    )
    assert old == {"member_id": ("member_id", "", Form.VALUE)}
    assert new == {
        "member_id": ("members", "member_id", Form.FIRST),
        "group_instance_id": ("members", "group_instance_id", Form.FIRST),
        "members": ("members", "", Form.COUNT),
        "reason": ("members", "reason", Form.FIRST),
    }


def test_every_message_at_every_version_has_its_fields() -> None:
    for key, api in facts().apis.items():
        assert key == api.key
        for name, in_response in ((f"{api.name}Request", False), (f"{api.name}Response", True)):
            for layout in facts().layouts(name):
                for version in layout.versions:
                    assert searched_fields(name, version).cls.__name__ == name
                    top_fields(name, version, in_response=in_response)
