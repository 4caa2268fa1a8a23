"""The words for why a frame is cut."""

from kproxy.session.cut import Cut


def test_a_whole_frame_is_not_cut() -> None:
    assert not Cut.WHOLE and Cut.WHOLE.text == ""


def test_each_reason_has_words_of_its_own() -> None:
    texts = [cut.text for cut in Cut if cut]
    assert all(texts) and len(set(texts)) == len(texts)
    assert Cut.LEFT_OUT.text == "left out: the analyzer was behind"
