"""The lines of facts.txt, from definitions by hand."""

import json
from typing import Any

from kproxy.extract.dialect import Message, parse_message
from kproxy.extract.error_codes import ErrorCode
from kproxy.extract.facts_text import HEADER, render

RELEASES = ("4.3.1", "3.9.2")


def message(release: str, name: str, kind: str, versions: str, *fields: dict[str, Any], **more: Any) -> Message:
    definition = {"type": kind, "name": name, "validVersions": versions, "fields": fields, **more}
    return parse_message(json.dumps(definition), module="kafka-clients", release=release)


def lines(*definitions: Message, errors: tuple[ErrorCode, ...] = ()) -> list[str]:
    return render(definitions, errors, RELEASES).removeprefix(HEADER).splitlines()


def test_the_header_is_comments_and_the_releases_follow() -> None:
    text = render([], [], RELEASES)
    assert all(line.startswith("# ") for line in HEADER.splitlines())
    assert text == HEADER + "releases 4.3.1 3.9.2\n"


def test_error_codes_are_lines() -> None:
    errors = (
        ErrorCode(-1, "UNKNOWN_SERVER_ERROR", retriable=False, refresh=False),
        ErrorCode(3, "UNKNOWN_TOPIC_OR_PARTITION", retriable=True, refresh=True),
        ErrorCode(7, "REQUEST_TIMED_OUT", retriable=True, refresh=False),
    )
    assert lines(errors=errors)[1:] == [
        "error -1 UNKNOWN_SERVER_ERROR -",
        "error 3 UNKNOWN_TOPIC_OR_PARTITION retriable refresh",
        "error 7 REQUEST_TIMED_OUT retriable",
    ]


def test_every_attribute_has_its_place_in_the_line() -> None:
    everything = {
        "name": "A", "type": "string", "versions": "1-4", "nullableVersions": "2+", "tag": 3, "taggedVersions": "3+",
        "default": "null", "ignorable": True, "flexibleVersions": "none", "mapKey": True, "entityType": "groupId",
    }  # fmt: skip
    assert lines(message("4.3.1", "M", "data", "0-4", everything))[-1] == (
        "  A string 1-4 nullable=2+ tag=3 tagged=3+ default=null ignorable flexible=none key entity=groupId"
    )


def test_children_are_indented_under_their_field() -> None:
    leaf = {"name": "C", "type": "[]int32", "versions": "0"}
    middle = {"name": "B", "type": "Inner", "versions": "0+", "fields": [leaf]}
    outer = {"name": "A", "type": "[]Outer", "versions": "0+", "fields": [middle, leaf]}
    assert lines(message("4.3.1", "M", "data", "0", outer, flexibleVersions="0+"))[1:] == [
        "message M type=data module=kafka-clients release=4.3.1 versions=0 flexible=0+",
        "  A []Outer 0+",
        "    B Inner 0+",
        "      C []int32 0",
        "    C []int32 0",
    ]


def test_requests_come_before_responses_in_order_of_api_key_and_others_last() -> None:
    found = lines(
        message("4.3.1", "BetaResponse", "response", "0", apiKey=10),
        message("4.3.1", "Zeta", "data", "0"),
        message("4.3.1", "BetaRequest", "request", "0", apiKey=10),
        message("4.3.1", "Alpha", "coordinator-key", "0", apiKey=6),
        message("4.3.1", "GammaRequest", "request", "0", apiKey=9),
    )
    assert [line.split()[1] for line in found if line.startswith("message")] == [
        "GammaRequest", "BetaRequest", "BetaResponse", "Alpha", "Zeta",
    ]  # fmt: skip
    assert (
        "message Alpha type=coordinator-key id=6 module=kafka-clients release=4.3.1 versions=0 flexible=none" in found
    )
    assert any(line.startswith("message GammaRequest type=request api=9 ") for line in found)


def test_an_api_lists_all_its_request_versions_and_the_unstable_one() -> None:
    found = lines(
        message("3.9.2", "ARequest", "request", "0-1", apiKey=1, listeners=["zkBroker"]),
        message(
            "4.3.1",
            "ARequest",
            "request",
            "3-4",
            apiKey=1,
            listeners=["broker", "controller"],
            latestVersionUnstable=True,
        ),
    )
    assert found[1] == "api 1 A listeners=broker,controller versions=0-1,3-4 unstable=4"


def test_an_api_that_is_withdrawn_is_told_by_its_last_release() -> None:
    found = lines(
        message("4.3.1", "ARequest", "request", "none", apiKey=1),
        message("3.9.2", "ARequest", "request", "0-1", apiKey=1, listeners=["zkBroker"]),
    )
    assert found[1:] == [
        "api 1 A listeners=zkBroker versions=0-1",
        "message ARequest type=request api=1 module=kafka-clients release=3.9.2 versions=0-1 flexible=none",
    ]


def test_a_renamed_api_goes_by_its_newest_name() -> None:
    field = {"name": "A", "type": "int32", "versions": "0+"}
    found = lines(
        message("3.9.2", "OldRequest", "request", "0-1", {**field, "type": "int64"}, apiKey=1, listeners=["broker"]),
        message("4.3.1", "NewRequest", "request", "1-2", field, apiKey=1, listeners=["broker"]),
    )
    assert [line for line in found if line.startswith(("api", "message"))] == [
        "api 1 New listeners=broker versions=0-2",
        "message NewRequest type=request api=1 module=kafka-clients release=4.3.1 versions=1-2 flexible=none",
        "message NewRequest type=request api=1 module=kafka-clients release=3.9.2 versions=0-1 flexible=none",
    ]


def test_a_release_speaks_its_versions_but_not_the_unstable_one() -> None:
    requests = [
        message("4.0.2", "ARequest", "request", "3-13", apiKey=0),
        message("4.0.2", "BRequest", "request", "0-2", apiKey=1, latestVersionUnstable=True),
        message("4.0.2", "CRequest", "request", "0", apiKey=2, latestVersionUnstable=True),
        message("4.0.2", "DRequest", "request", "none", apiKey=4),
    ]
    text = render([], [], RELEASES, {"4.0.2": requests})
    assert text.splitlines()[-1] == "speaks 4.0.2 0=3-13 1=0-1"
