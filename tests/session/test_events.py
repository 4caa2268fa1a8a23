"""What events are made of."""

from kproxy.session.endings import Cut
from kproxy.session.limits import Limits


def test_each_reason_has_words_of_its_own() -> None:
    texts = [cut.text for cut in Cut if cut]
    assert all(texts) and len(set(texts)) == len(texts)
    assert Cut.LEFT_OUT.text == "left out: the analyzer was behind"


def test_frames_are_as_large_as_brokers_take_them() -> None:
    # SocketServerConfigs.SOCKET_REQUEST_MAX_BYTES_DEFAULT, BrokerSecurityConfigs.DEFAULT_SASL_SERVER_MAX_RECEIVE_SIZE
    assert Limits().frame_size == 100 * 1024 * 1024
    assert Limits().unauthenticated_frame_size == 512 * 1024
