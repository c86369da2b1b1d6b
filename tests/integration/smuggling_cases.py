"""Requests whose end, target or sender two readers may see differently, and what becomes of them.

Each is a send of the message "visible", spoilt in one way, with a whole send of "hidden" where only
a reader who was misled finds a request. HIDDEN is never to be carried out but by the controls.
"""

from typing import NamedTuple

FORM = b"Action=SendMessage&QueueUrl=orders&MessageBody="
_TYPE = b"Content-Type: application/x-www-form-urlencoded\r\n"
_START = b"POST / HTTP/1.1\r\nHost: x\r\n"
_VISIBLE = FORM + b"visible"
_LENGTH = b"Content-Length: %d\r\n" % len(_VISIBLE)
_HIDDEN_FORM = FORM + b"hidden"
HIDDEN = _START + _TYPE + b"Content-Length: %d\r\n\r\n" % len(_HIDDEN_FORM) + _HIDDEN_FORM
_CHUNKED = b"Transfer-Encoding: chunked\r\n"
_CHUNK = b"%x\r\n%s\r\n" % (len(_VISIBLE), _VISIBLE)
_LAST = b"0\r\n\r\n"

NO_ANSWER = 0


class Case(NamedTuple):
    """Bytes to send, the status of the first answer, and how often the two messages come to be.

    The connection ends after the answer unless `stays`.
    """

    name: str
    data: bytes
    status: int
    visible: int = 0
    hidden: int = 0
    stays: bool = False


def _refused(name: str, data: bytes, status: int = 400) -> Case:
    return Case(name, data, status)


def _header(name: str, line: bytes, status: int = 400) -> Case:
    """A line among the headers of a send that is whole without it."""
    return Case(name, _START + _TYPE + _LENGTH + line + b"\r\n" + _VISIBLE + HIDDEN, status)


def _length(name: str, lines: bytes) -> Case:
    """Lines in the place of Content-Length."""
    return Case(name, _START + _TYPE + lines + b"\r\n" + _VISIBLE + HIDDEN, 400)


def _encoded(name: str, lines: bytes, status: int = 200, body: bytes = _CHUNK + _LAST) -> Case:
    """Lines that say, or seem to say, that the body is in chunks."""
    data = _START + _TYPE + lines + b"\r\n" + body + HIDDEN
    return Case(name, data, status, visible=int(status == 200))


def _chunks(name: str, body: bytes, status: int = 400) -> Case:
    return _encoded(name, _CHUNKED, status, body)


def _line(name: str, line: bytes, status: int = 400) -> Case:
    """Another request line."""
    data = line + b"\r\nHost: x\r\n" + _TYPE + _LENGTH + b"\r\n" + _VISIBLE + HIDDEN
    return Case(name, data, status)


def _hosts(name: str, lines: bytes, status: int = 400) -> Case:
    """Other lines for the host."""
    start = b"POST / HTTP/1.1\r\n" + lines + _TYPE + _LENGTH
    return Case(name, start + b"\r\n" + _VISIBLE + HIDDEN, status)


# The chunks count, and what is behind them is nobody's: RFC 9112, 6.3. (Granian hides the length.)
_CL_AND_TE = [
    _encoded("length before chunked", _LENGTH + _CHUNKED),
    _encoded("chunked before length", _CHUNKED + _LENGTH),
    _encoded("length 0 and chunked", b"Content-Length: 0\r\n" + _CHUNKED),
    _encoded("chunked, empty, hidden behind", _LENGTH + _CHUNKED, 404, _LAST),
    _encoded("chunked, length over the hidden one", b"Content-Length: 4\r\n" + _CHUNKED),
    _encoded("HTTP/1.0 in chunks", _CHUNKED, 400)._replace(
        data=b"POST / HTTP/1.0\r\nHost: x\r\n"
        + _TYPE
        + _CHUNKED
        + b"\r\n"
        + _CHUNK
        + _LAST
        + HIDDEN
    ),
]

_LENGTHS = [
    _length("two lengths", _LENGTH + b"Content-Length: 3\r\n"),
    _length("two lengths, the first too short", b"Content-Length: 3\r\n" + _LENGTH),
    _length("lengths in a list", b"Content-Length: %d, %d\r\n" % (len(_VISIBLE), len(_VISIBLE))),
    _length("different lengths in a list", b"Content-Length: %d, 3\r\n" % len(_VISIBLE)),
    _length("length with a plus", b"Content-Length: +%d\r\n" % len(_VISIBLE)),
    _length("negative length", b"Content-Length: -1\r\n"),
    _length("hexadecimal length", b"Content-Length: 0x%x\r\n" % len(_VISIBLE)),
    _length("empty length", b"Content-Length:\r\n"),
    _length("blank length", b"Content-Length: \t \r\n"),
    _length("length with a space inside", b"Content-Length: 1 0\r\n"),
    _length("length with a fraction", b"Content-Length: 10.0\r\n"),
    _length("length with an exponent", b"Content-Length: 1e1\r\n"),
    _length("length with an underscore", b"Content-Length: 1_0\r\n"),
    _length("length in other digits", "Content-Length: \u0661\u0660\r\n".encode()),
    _length("length beyond 64 bits", b"Content-Length: 18446744073709551626\r\n"),
    _length("length of 5000 digits", b"Content-Length: %s\r\n" % (b"9" * 5000)),
    _length("length and a NUL", b"Content-Length: 10\0\r\n"),
    _length("space before the colon of a length", b"Content-Length : %d\r\n" % len(_VISIBLE)),
    _length("folded length", b"Content-Length:\r\n %d\r\n" % len(_VISIBLE)),
    Case(
        "equal lengths count as one (RFC 9110, 8.6)",
        _START + _TYPE + _LENGTH + _LENGTH + b"\r\n" + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
    Case(
        "zeros before a length change nothing",
        _START + _TYPE + b"Content-Length: 00%d\r\n" % len(_VISIBLE) + b"\r\n" + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
    Case(
        "a length that takes in the hidden request makes it part of the message",
        _START + _TYPE + b"Content-Length: %d\r\n\r\n" % len(_VISIBLE + HIDDEN) + _VISIBLE + HIDDEN,
        200,
        visible=1,
        stays=True,
    ),
    Case(
        "a body longer than its length: the rest is no POST",
        _START + _TYPE + _LENGTH + b"\r\n" + _VISIBLE + b"rest" + HIDDEN,
        200,
        visible=1,
        stays=True,
    ),
    _header("no length: no body", b"")._replace(
        data=_START + _TYPE + b"\r\n" + b"(" + HIDDEN, status=404
    ),
]

_ENCODINGS = [
    _encoded("chunked", _CHUNKED),
    _encoded("chunked twice", _CHUNKED + _CHUNKED, 411),
    _encoded("chunked, chunked", b"Transfer-Encoding: chunked, chunked\r\n", 411),
    _encoded("capitals", b"Transfer-Encoding: CHUNKED\r\n"),
    _encoded("tab before", b"Transfer-Encoding:\tchunked\r\n"),
    _encoded("gzip, chunked", b"Transfer-Encoding: gzip, chunked\r\n", 411),
    _encoded("identity, chunked", b"Transfer-Encoding: identity, chunked\r\n", 411),
    _encoded("vertical tab before", b"Transfer-Encoding: \x0bchunked\r\n", 400),
    _encoded("form feed after", b"Transfer-Encoding: chunked\x0c\r\n", 400),
    _encoded("comma after", b"Transfer-Encoding: chunked,\r\n", 400),
    _encoded("xchunked", b"Transfer-Encoding: xchunked\r\n", 400),
    _encoded("xchunked and a length", _LENGTH + b"Transfer-Encoding: xchunked\r\n", 400),
    _encoded("identity", b"Transfer-Encoding: identity\r\n", 400),
    _encoded("identity and a length", _LENGTH + b"Transfer-Encoding: identity\r\n", 400),
    _encoded("chunked, identity", b"Transfer-Encoding: chunked, identity\r\n", 400),
    _encoded("chunked in quotes", b'Transfer-Encoding: "chunked"\r\n', 400),
    _encoded("chunked with a parameter", b"Transfer-Encoding: chunked;a=b\r\n", 400),
    _encoded("empty encoding", _LENGTH + b"Transfer-Encoding:\r\n", 400),
    _encoded("encoding that is not ASCII", _LENGTH + b"Transfer-Encoding: chunked\xff\r\n", 400),
    _encoded("space after the encoding's name", _LENGTH + b"Transfer-Encoding : chunked\r\n", 400),
    _encoded("folded encoding", _LENGTH + b"Transfer-Encoding:\r\n chunked\r\n", 400),
    _encoded("name with a tab", _LENGTH + b"Transfer-Encoding\t: chunked\r\n", 400),
    _encoded("after a bare CR", _LENGTH + b"X: y\rTransfer-Encoding: chunked\r\n", 400),
    _encoded("after a NUL", _LENGTH + b"X: y\0Transfer-Encoding: chunked\r\n", 400),
    Case(
        "a name that only looks like it is no encoding",
        _START + _TYPE + _LENGTH + b"Transfer_Encoding: chunked\r\n\r\n" + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
]

_CHUNK_FORMS = [
    _chunks("size with a plus", b"+" + _CHUNK + _LAST),
    _chunks("size with 0x", b"0x" + _CHUNK + _LAST),
    _chunks("negative size", b"-" + _CHUNK + _LAST),
    _chunks("space before a size", b" " + _CHUNK + _LAST),
    _chunks("space after a size", _CHUNK.replace(b"\r\n", b" \r\n", 1) + _LAST, 200),
    _chunks("size beyond 64 bits", b"ffffffffffffffff1\r\nx\r\n" + _LAST),
    _chunks("size with an underscore", b"3_6\r\n" + _VISIBLE + b"\r\n" + _LAST),
    _chunks("no size", b"\r\n" + _VISIBLE + b"\r\n" + _LAST),
    _chunks("size too small", b"5\r\n" + _VISIBLE + b"\r\n" + _LAST),
    _chunks("size too big", b"%x\r\n" % (len(_VISIBLE) + 1) + _VISIBLE + b"\r\n" + _LAST),
    _chunks("no CRLF after a chunk", _CHUNK.removesuffix(b"\r\n") + _LAST),
    _chunks("bare LF after a size", _CHUNK.replace(b"\r\n", b"\n", 1) + _LAST),
    _chunks("extension", _CHUNK.replace(b"\r\n", b";a=b\r\n", 1) + _LAST, 200),
    _chunks("extension with a LF", _CHUNK.replace(b"\r\n", b";a\nb\r\n", 1) + _LAST),
    _chunks("extension with a quoted CRLF", _CHUNK.replace(b"\r\n", b';a="\r\n"\r\n', 1) + _LAST),
    _chunks("extension of 64 KiB", _CHUNK.replace(b"\r\n", b";" + b"a" * 65536 + b"\r\n", 1)),
    _chunks("trailer with a length", _CHUNK + b"0\r\nContent-Length: 3\r\n\r\n"),
    _chunks("trailer with a host", _CHUNK + b"0\r\nHost: evil\r\n\r\n"),
    _chunks("trailer with an authorization", _CHUNK + b"0\r\nAuthorization: evil\r\n\r\n"),
    _chunks("trailer with a bare LF", _CHUNK + b"0\r\nA: b\nC: d\r\n\r\n"),
    _chunks("no last chunk", _CHUNK),
]

_HEADERS = [
    _header("folded header", b"X-A: a\r\n b\r\n"),
    _header("header that starts with a space", b" X-A: a\r\n"),
    _header("bare CR in a value", b"X-A: a\rX-B: b\r\n"),
    _header("bare CR at the end", b"X-A: a\r\r\n"),
    _header("NUL in a value", b"X-A: a\0b\r\n"),
    _header("NUL in a name", b"X\0A: a\r\n"),
    _header("control byte in a value", b"X-A: a\x01b\r\n"),
    _header("DEL in a value", b"X-A: a\x7fb\r\n"),
    _header("control byte in a name", b"X\x01A: a\r\n"),
    _header("space in a name", b"X A: a\r\n"),
    _header("space before the colon", b"X-A : a\r\n"),
    _header("tab before the colon", b"X-A\t: a\r\n"),
    _header("no name", b": a\r\n"),
    _header("no colon", b"X-A\r\n"),
    _header("name that is not ASCII", b"X-\xe4: a\r\n"),
    _header("name in brackets", b"(X): a\r\n"),
    _header("two credentials", b"Authorization: a\r\nAuthorization: b\r\n"),
    _header("two content types", b"Content-Type: application/x-amz-json-1.0\r\n"),
    _header("two targets", b"X-Amz-Target: AmazonSQS.A\r\nX-Amz-Target: AmazonSQS.B\r\n"),
    _header("credentials that are not ASCII", b"Authorization: \xe4\r\n"),
    _header("101 headers", b"".join(b"X-%d: a\r\n" % n for n in range(101)), 431),
    _header("headers of 1 MiB", b"X-A: %s\r\n" % (b"a" * (1 << 20)), 431),
    Case(
        "a bare LF ends a line (RFC 9112, 2.2)",
        (_START + _TYPE + _LENGTH + b"\r\n").replace(b"\r\n", b"\n") + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
    Case(
        "a header after a bare LF counts like any other",
        _START + _TYPE + b"X: y\n" + _LENGTH + b"\r\n" + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
]

_LINES = [
    _line("HTTP/0.9", b"POST /"),
    _line("HTTP/1.2", b"POST / HTTP/1.2"),
    _line("HTTP/2.0", b"POST / HTTP/2.0"),
    _line("HTTP/1.10", b"POST / HTTP/1.10"),
    _line("http/1.1", b"POST / http/1.1"),
    _line("no version", b"POST / "),
    _line("two spaces", b"POST  /  HTTP/1.1"),
    _line("tabs", b"POST\t/\tHTTP/1.1"),
    _line("a space in the target", b"POST /a b HTTP/1.1"),
    _line("a space at the end", b"POST / HTTP/1.1 "),
    _line("NUL in the target", b"POST /\0 HTTP/1.1"),
    _line("bare CR in the target", b"POST /\r/ HTTP/1.1"),
    _line("no target", b"POST HTTP/1.1"),
    _line("a method that is none", b"PO(ST / HTTP/1.1"),
    _line("a target of 64 KiB", b"POST /?%s HTTP/1.1" % (b"a" * 65536), 414),
    _line("another host in the target", b"POST http://evil/ HTTP/1.1"),
    _line("user and host in the target", b"POST http://x@evil/ HTTP/1.1"),
    _line("a host with a user in the target", b"POST http://evil@x/ HTTP/1.1"),
    _line("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n", NO_ANSWER),
    _line("CONNECT to another host", b"CONNECT evil:80 HTTP/1.1"),
    Case(
        "the same host in the target",
        b"POST http://x/ HTTP/1.1\r\nHost: x\r\n" + _TYPE + _LENGTH + b"\r\n" + _VISIBLE,
        200,
        visible=1,
        stays=True,
    ),
]

_HOSTS = [
    _hosts("no host", b""),
    _hosts("empty host", b"Host:\r\n"),
    _hosts("two hosts", b"Host: x\r\nHost: evil\r\n"),
    _hosts("the same host twice", b"Host: x\r\nHost: x\r\n"),
    _hosts("two hosts in one", b"Host: x, evil\r\n"),
    _hosts("host with a path", b"Host: x/evil\r\n"),
    _hosts("host with a user", b"Host: x@evil\r\n"),
    _hosts("host with a space", b"Host: x evil\r\n"),
    _hosts("host with a percent sign", b"Host: %78\r\n"),
    _hosts("host that is not ASCII", b"Host: \xe4\r\n"),
    _hosts("host with markup", b"Host: <x>\r\n"),
    _hosts("host with a wrong port", b"Host: x:9324evil\r\n"),
    _hosts("folded host", b"Host:\r\n x\r\n"),
    Case(
        "HTTP/1.0 needs no host",
        b"POST / HTTP/1.0\r\n" + _TYPE + _LENGTH + b"\r\n" + _VISIBLE + HIDDEN,
        200,
        visible=1,
    ),
]

CONTROLS = [
    Case(
        "two requests, one after the other",
        _START + _TYPE + _LENGTH + b"\r\n" + _VISIBLE + HIDDEN,
        200,
        visible=1,
        hidden=1,
        stays=True,
    ),
    Case(
        "empty lines before a request",
        b"\r\n\r\n" + _START + _TYPE + _LENGTH + b"\r\n" + _VISIBLE + HIDDEN,
        200,
        visible=1,
        hidden=1,
        stays=True,
    ),
    Case(
        "a length of nothing: the hidden one is a request",
        _START + _TYPE + b"Content-Length: 0\r\n\r\n" + HIDDEN,
        404,
        hidden=1,
        stays=True,
    ),
]

CASES = [
    *_CL_AND_TE,
    *_LENGTHS,
    *_ENCODINGS,
    *_CHUNK_FORMS,
    *_HEADERS,
    *_LINES,
    *_HOSTS,
]
