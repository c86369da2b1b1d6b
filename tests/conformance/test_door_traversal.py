"""Addresses that try to name something else, once more, through the doors of Lambda."""

from tests.conformance.test_traversal import *  # noqa: F403 - its tests are run here
from tests.conformance.through_a_door import *  # noqa: F403 - its fixture
