"""What one connection may take, by default what a broker takes."""

from kproxy.session.limits import Limits


def test_frames_are_as_large_as_brokers_take_them() -> None:
    # SocketServerConfigs.SOCKET_REQUEST_MAX_BYTES_DEFAULT, BrokerSecurityConfigs.DEFAULT_SASL_SERVER_MAX_RECEIVE_SIZE
    assert Limits().frame_size == 100 * 1024 * 1024
    assert Limits().unauthenticated_frame_size == 512 * 1024


def test_one_frame_of_the_largest_size_may_always_be_in_flight() -> None:
    assert Limits().in_flight_size >= Limits().frame_size
