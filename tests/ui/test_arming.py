from ui.arming import Arming, LoneKey


def test_a_card_that_was_not_drawn_never_gets_ready() -> None:
    arming = Arming()
    arming.begin(1.5)

    assert not arming.ready(1e9)
    assert 1.5 == arming.left_s(1e9)


def test_it_is_ready_when_the_time_since_drawing_is_over() -> None:
    arming = Arming()
    arming.begin(1.5)
    arming.drawn(10.0)

    assert not arming.ready(11.4)
    assert arming.ready(11.5)


def test_drawing_it_again_does_not_start_over() -> None:
    arming = Arming()
    arming.begin(1.5)
    arming.drawn(10.0)
    arming.drawn(11.0)

    assert arming.ready(11.5)


def test_starting_again_waits_the_whole_time_again() -> None:
    arming = Arming()
    arming.begin(1.5)
    arming.drawn(10.0)
    arming.again(20.0)

    assert not arming.ready(21.4)
    assert arming.ready(21.5)


def test_starting_again_does_not_count_as_drawing() -> None:
    arming = Arming()
    arming.begin(1.5)
    arming.again(10.0)

    assert not arming.ready(20.0)


def test_a_key_is_alone_only_after_the_silence_behind_it() -> None:
    lone = LoneKey()
    lone.pressed(10.0)
    lone.hold(10.0)

    assert not lone.alone(10.14)
    assert lone.alone(10.15)
    assert not lone.alone(10.2)


def test_a_key_shortly_after_another_is_not_quiet() -> None:
    lone = LoneKey()

    assert lone.pressed(10.0)
    assert not lone.pressed(10.1)
    assert lone.pressed(10.25)
