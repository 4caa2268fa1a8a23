"""What frames have that schemas lack."""

from kproxy.protocol import facts, frames


def test_no_api_has_a_number_that_begins_as_a_gssapi_token() -> None:
    assert max(facts().apis) >> 8 < frames.GSSAPI_FIRST_BYTE
