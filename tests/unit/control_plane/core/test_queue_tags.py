"""Tags of queues: letters, digits, spaces and some symbols, which answers in XML can show."""

import pytest

from control_plane.core.queue_tags import check_tags
from data_plane.core.errors import RefusedError


@pytest.mark.parametrize("space", [" ", "\t", "\n", "\r", "\u00a0", "\u2028", "\u3000"])
def test_spaces_of_all_scripts_are_allowed(space: str) -> None:
    check_tags({f"cost{space}center": f"a{space}b"})


@pytest.mark.parametrize("control", ["\x0b", "\x0c", "\x1c", "\x1d", "\x1e", "\x1f", "\x85"])
def test_control_characters_are_no_spaces_though_python_says_so(control: str) -> None:
    with pytest.raises(RefusedError, match="Tag values may only contain"):
        check_tags({"team": f"a{control}b"})
    with pytest.raises(RefusedError, match="Tag keys may only contain"):
        check_tags({f"te{control}am": "a"})
