import json

from data_plane.http.line_buffer import FAILED, STALLED, LineBuffer, Lost

ROOM = 1000


def told(lost: Lost) -> bytes:
    return json.dumps(lost._asdict()).encode() + b"\n"


def buffer() -> LineBuffer:
    return LineBuffer(ROOM, told)


def is_empty(buffered: LineBuffer) -> bool:
    return buffered.is_empty


def line(number: int, size: int = 100) -> bytes:
    return (b"%d" % number).ljust(size - 1, b".") + b"\n"


def written(buffered: LineBuffer) -> list[bytes]:
    """All of it, in one go."""
    lines = b""
    while (piece := buffered.next_slice()) is not None:
        lines += piece
        buffered.wrote(len(piece))
    return lines.splitlines(keepends=True)


def test_lines_come_out_in_their_order() -> None:
    buffered = buffer()
    for number in range(3):
        buffered.add(line(number), 0)
    assert not is_empty(buffered)
    assert written(buffered) == [line(number) for number in range(3)]
    assert is_empty(buffered)
    assert buffered.next_slice() is None


def test_what_was_written_of_a_slice_is_not_written_again() -> None:
    buffered = buffer()
    buffered.add(line(1), 0)
    piece = buffered.next_slice()
    assert piece is not None
    buffered.wrote(30)
    rest = buffered.next_slice()
    assert rest is not None
    assert bytes(rest) == line(1)[30:]


def test_what_has_no_room_is_dropped_and_told_in_its_place() -> None:
    buffered = buffer()
    for number in range(13):
        buffered.add(line(number), 1_000 + number)
    assert buffered.dropped == {STALLED: 3, FAILED: 0}
    expected = [line(number) for number in range(10)]
    assert written(buffered) == [*expected, told(Lost(3, 1_010, 1_012))]
    assert is_empty(buffered)
    buffered.add(line(20), 2_000)
    assert written(buffered) == [line(20)]


def test_of_lines_that_come_together_those_are_taken_that_there_is_room_for() -> None:
    buffered = buffer()
    buffered.add(b"".join(line(number) for number in range(12)), 5)
    assert buffered.dropped[STALLED] == 2
    assert written(buffered) == [*map(line, range(10)), told(Lost(2, 5, 5))]


def test_after_a_loss_lines_are_taken_again_when_half_of_the_room_is_free() -> None:
    buffered = buffer()
    for number in range(11):
        buffered.add(line(number), number)
    for freed in range(5):
        buffered.add(line(11 + freed), 11 + freed)
        buffered.next_slice()
        buffered.wrote(100)
    assert buffered.dropped[STALLED] == 6
    buffered.add(line(20), 20)
    assert written(buffered) == [*map(line, range(5, 10)), told(Lost(6, 10, 15)), line(20)]


def test_what_fails_is_told_apart_from_what_is_slow() -> None:
    buffered = buffer()
    buffered.is_failing = True
    buffered.add(b"".join(map(line, range(11))), 0)
    assert buffered.dropped == {STALLED: 0, FAILED: 1}
    assert len(written(buffered)) == 11
    assert not buffered.is_failing


def test_a_line_that_is_longer_than_all_room_is_dropped() -> None:
    buffered = buffer()
    buffered.add(line(1, ROOM + 1), 7)
    assert written(buffered) == [told(Lost(1, 7, 7))]
