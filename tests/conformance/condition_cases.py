"""An item, and conditions that hold for it or do not."""

from data_plane.ports import Absent, Attributes, Condition, Equals, Lacks, LessThan

ITEM: Attributes = {"v": 1, "n": 5, "b": b"\x00\xff", "t": "text", "s": frozenset({1, 2})}

CONDITIONS: list[tuple[Condition, bool]] = [
    ((), True),
    (((Absent("q"),),), True),
    (((Absent("n"),),), False),
    (((Equals("n", 5),),), True),
    (((Equals("n", 6),),), False),
    (((Equals("q", 5),),), False),
    (((Equals("n", "5"),),), False),
    (((Equals("b", b"\x00\xff"),),), True),
    (((Equals("t", "text"),),), True),
    (((Equals("t", b"text"),),), False),
    (((Equals("s", frozenset({2, 1})),),), True),
    (((Equals("s", frozenset({1})),),), False),
    (((LessThan("n", 6),),), True),
    (((LessThan("n", 5),),), False),
    (((LessThan("q", 6),),), False),
    (((LessThan("b", b"\x01"),),), True),
    (((LessThan("b", b"\x00\xff"),),), False),
    (((LessThan("b", b"\x00\xff\x00"),),), True),
    (((LessThan("t", "texu"),),), True),
    (((LessThan("t", "text"),),), False),
    (((Lacks("s", 3),),), True),
    (((Lacks("s", 1),),), False),
    (((Lacks("q", 1),),), True),
    (((Equals("n", 6), Absent("q")),), True),
    (((Equals("n", 6), Absent("n")),), False),
    (((Equals("n", 5),), (Lacks("s", 3),)), True),
    (((Equals("n", 5),), (Lacks("s", 2),)), False),
    (((Absent("q"), Equals("n", 1)), (LessThan("n", 6), Absent("n")), (Lacks("s", 9),)), True),
    (((),), False),
]
