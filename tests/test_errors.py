"""The error tree: what the text of a DecodeError says and who inherits from whom."""

import pytest

from kproxy import errors


def test_a_decode_error_says_message_version_field_reason_and_place() -> None:
    error = errors.Truncated(
        "needs 8 bytes, 3 left",
        message="FetchResponse",
        version=13,
        path="responses[0].partitions[2].highWatermark",
        position=37,
        needed=8,
        left=3,
    )
    expected = "FetchResponse v13: responses[0].partitions[2].highWatermark: needs 8 bytes, 3 left (at byte 37)"
    assert str(error) == expected
    assert (error.needed, error.left) == (8, 3)


def test_what_is_not_known_is_left_out() -> None:
    assert str(errors.Malformed("no such length", position=4)) == "message: no such length (at byte 4)"
    assert str(errors.Malformed("no such length", message="FetchRequest")) == "FetchRequest: no such length (at byte 0)"


@pytest.mark.parametrize(
    "kind",
    [errors.EncodeError, errors.CaptureError, errors.ProxyProtocolError, errors.UpstreamError, errors.UsageError],
)
def test_other_errors_are_not_decode_errors(kind: type[errors.KproxyError]) -> None:
    assert issubclass(kind, errors.KproxyError)
    assert not issubclass(kind, errors.DecodeError)


def test_a_configurations_mistakes_are_told_with_their_places() -> None:
    mistakes = [errors.Mistake(2, 13, "clusters[0].listen", "no port"), errors.Mistake(0, 0, "", "not there")]
    assert errors.ConfigError(mistakes, "k.yaml").lines() == [
        "k.yaml:2:13: clusters[0].listen: no port",
        "k.yaml: not there",
    ]
    error = errors.ConfigError([errors.Mistake(0, 0, "--listen", "no port")])
    assert str(error) == "--listen: no port"
    assert isinstance(error, errors.UsageError)
