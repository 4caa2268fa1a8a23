"""The kind that a fault of a filter is counted by, from the exception."""

import pytest

from kproxy.errors import EncodeError, Truncated
from kproxy.filters.filter_faults import Kind, Unusable, kind_of


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (KeyError("x"), "raised"),
        (ValueError("x"), "raised"),
        (TimeoutError(), "timed_out"),
        (Unusable("no verdict"), "unusable"),
        (EncodeError("x"), "unusable"),
        (Truncated("x"), "undecodable"),
    ],
)
def test_kind(fault: Exception, kind: Kind) -> None:
    assert kind_of(fault) == kind
