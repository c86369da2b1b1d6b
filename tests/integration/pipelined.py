"""Many refused requests in a moment: one behind the other on a connection, without waiting."""

import socket
import threading

REFUSED = b"GET /?Action=Nonsense HTTP/1.1\r\nhost: localhost\r\n\r\n"
_END = b"</ErrorResponse>"
_AT_A_TIME = 200


def refuse(port: int, count: int) -> None:
    """Send so many, and read their answers; raises TimeoutError where those do not come."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        while count:
            now = min(count, _AT_A_TIME)
            sending = threading.Thread(target=connection.sendall, args=(REFUSED * now,))
            sending.start()
            answers = b""
            while answers.count(b"HTTP/1.1 400 ") < now or not answers.endswith(
                b"</ErrorResponse>"
            ):
                piece = connection.recv(1 << 16)
                assert piece, "the server hung up"
                answers += piece
            sending.join()
            count -= now
