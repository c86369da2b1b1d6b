"""Whatever is added, and however it is written: each line is there in its order, or counted."""

import json

from hypothesis import given
from hypothesis import strategies as st

from data_plane.http.line_buffer import LineBuffer, Lost

ROOM = 200

Step = tuple[str, int]
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(1, 12)),
        st.tuples(st.just("write"), st.integers(1, 150)),
        st.tuples(st.just("fail"), st.just(0)),
    ),
    max_size=60,
)


def told(lost: Lost) -> bytes:
    return json.dumps(lost).encode() + b"\n"


@given(STEPS)
def test_each_line_is_written_in_its_order_or_counted_in_its_place(steps: list[Step]) -> None:
    buffered = LineBuffer(ROOM, told)
    out = b""
    added = 0

    def write(size: int) -> bytes:
        piece = buffered.next_slice()
        taken = bytes(piece[:size]) if piece is not None else b""
        if taken:
            buffered.wrote(len(taken))
        return taken

    for step, size in steps:
        match step:
            case "add":
                lines = b"".join(b"%d\n" % number for number in range(added, added + size))
                buffered.add(lines, added)
                added += size
            case "write":
                out += write(size)
            case _:
                buffered.is_failing = True
    while rest := write(ROOM):
        out += rest
    assert buffered.is_empty
    expected = lost = 0
    for line in out.splitlines():
        content = json.loads(line)
        if isinstance(content, int):
            assert content == expected
            expected += 1
        else:
            number, from_us, to_us = content
            assert expected - 12 < from_us <= expected
            assert from_us <= to_us < expected + number
            expected += number
            lost += number
    assert expected == added
    assert sum(buffered.dropped.values()) == lost
