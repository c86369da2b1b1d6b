"""Times that callers see: the world's, where a cell's own differs (core/cell_clock.py)."""

from msgspec.structs import replace

from data_plane.core.browsing import Browsed, Page
from data_plane.core.eras import Eras
from data_plane.core.message import Delivery, Message


def in_world_time(deliveries: list[Delivery], eras: Eras) -> list[Delivery]:
    """Deliveries as they are answered."""
    if eras.is_plain:
        return deliveries
    return [
        replace(
            one,
            message=_message(one.message, eras),
            first_received_ms=eras.world_ms(one.first_received_ms),
        )
        for one in deliveries
    ]


def page_in_world_time(page: Page, eras: Eras) -> Page:
    """A page of browsing as it is answered."""
    if eras.is_plain:
        return page
    messages = [
        Browsed(
            _message(one.message, eras),
            one.state,
            eras.world_ms(one.visible_ms) if one.visible_ms else 0,
            one.receive_count,
            eras.world_ms(one.first_received_ms) if one.first_received_ms else 0,
        )
        for one in page.messages
    ]
    return Page(messages, page.next_position)


def _message(message: Message, eras: Eras) -> Message:
    return replace(message, sent_ms=eras.world_ms(message.sent_ms))
