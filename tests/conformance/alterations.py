"""Ways to alter a signed request: by a byte, a part, a header, or a whole other form.

Each alteration says whether the request still means the same. Such are few, and why each is one is
said where it is made.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from msgspec.structs import replace

from data_plane.protocol.http import HttpRequest

EMPTY_HASH = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Altered(NamedTuple):
    """A request that is not what was signed, or only written otherwise (`same`)."""

    what: str
    request: HttpRequest
    same: bool = False


@dataclass(frozen=True)
class Original:
    """A signed request."""

    name: str
    request: HttpRequest

    @property
    def presigned(self) -> bool:
        """Whether its signature is in the query."""
        return "authorization" not in self.request.headers


def alterations(original: Original) -> Iterator[Altered]:
    """All of them."""
    for alter in (
        *(of_method, of_path, of_query, of_fields, of_body, of_headers, of_new_headers),
        *(of_authorization, of_signatures, of_dates),
    ):
        for altered in alter(original):
            if altered.request != original.request:
                yield altered


def of_method(original: Original) -> Iterator[Altered]:
    for method in ("GET", "POST", "PUT", "post", "HEAD", "OPTIONS"):
        if method != original.request.method:
            yield Altered(f"method {method}", replace(original.request, method=method))


def of_path(original: Original) -> Iterator[Altered]:
    request = original.request
    path = request.path
    others = {
        *(path + "/", "/" + path, "//", "/./", path + "/.", path + "/..", path + "%2F"),
        *(path + "%2f", path + "?", path + "%", path + "+", path + "%20", path + "\0", ""),
        *("." + path, "/x/.." + path, "/%2e%2e" + path, path + ";a", path + "#", "*"),
        *(path.replace("/", "//", 1), path.replace("/", "\\"), f"http://other.example{path}"),
    }
    for index, character in enumerate(path):
        others.add(path[:index] + chr(ord(character) ^ 1) + path[index + 1 :])
        others.add(path[:index] + f"%{ord(character):02X}" + path[index + 1 :])
        others.add(path[:index] + f"%{ord(character):02x}" + path[index + 1 :])
        others.add(path[:index] + path[index + 1 :])
    for other in sorted(others - {path}):
        yield Altered(f"path {other!r}", replace(request, path=other))


def of_query(original: Original) -> Iterator[Altered]:
    """Every byte another one, or missing, or written otherwise."""
    query = original.request.query
    for index, character in enumerate(query):
        head, tail = query[:index], query[index + 1 :]
        for other in (chr(ord(character) ^ 1), chr(ord(character) ^ 4)):
            yield _query(original, f"byte {index}: {other!r}", head + other + tail)
        # A field without value may do without its sign of equality.
        valueless = character == "=" and not tail.partition("&")[0]
        yield _query(original, f"without byte {index}", head + tail, same=valueless)
        if character.isalnum() and not re.search("%.?$", head):
            # Of a character that needs no escape the escape is the same (RFC 3986, 2.3), but not
            # in the names by which a query says that it is a signature at all.
            escape = f"%{ord(character):02x}"
            yield _query(original, f"escape {index}", head + escape + tail, same=True)
    for end in ("&", "&x", "&x=", "&=", "&Action=PurgeQueue", "%", "%zz", "=", "#"):
        yield _query(original, f"end {end!r}", query + end)
    for start in ("&", "x&", "Action=PurgeQueue&", "="):
        yield _query(original, f"start {start!r}", start + query)


def of_fields(original: Original) -> Iterator[Altered]:
    """Fields that are missing, double, empty, or elsewhere."""
    query = original.request.query
    fields = query.split("&") if query else []
    for index, field in enumerate(fields):
        name, _, value = field.partition("=")
        others = fields[:index], fields[index + 1 :]

        def put(*new: str, around: tuple[list[str], list[str]] = others) -> str:
            return "&".join((*around[0], *new, *around[1]))

        yield _query(original, f"without {name}", put())
        yield _query(original, f"{name} twice", put(field, field))
        yield _query(original, f"{name} without value", put(f"{name}="))
        # The digits of escapes are the same in either case (RFC 3986, 2.1).
        lower = re.sub("%[0-9A-F]{2}", "", name).lower() == re.sub("%[0-9A-F]{2}", "", name)
        yield _query(original, f"{name} in lower case", put(f"{name.lower()}={value}"), same=lower)
        yield _query(original, f"{name} and another", put(field, f"{name}=x"))
        yield _query(original, f"{name} behind another", put(f"{name}=x", field))
    for index in range(1, len(fields)):
        # Names and values are sorted before they are signed, and no two here have one name.
        moved = "&".join(fields[index:] + fields[:index])
        yield _query(original, f"from field {index}", moved, same=True)
    if "%20" in query:
        # A plus is a space in a form, and is read so.
        yield _query(original, "plus for space", query.replace("%20", "+"), same=True)
        yield _query(original, "escaped plus for space", query.replace("%20", "%2B"))


def of_body(original: Original) -> Iterator[Altered]:
    request = original.request
    body = request.body
    for index in range(len(body)):
        other = bytes([body[index] ^ 1])
        changed = body[:index] + other + body[index + 1 :]
        yield Altered(f"body byte {index}", replace(request, body=changed))
    for name, changed in (
        *(("space", body + b" "), ("newline", body + b"\n"), ("NUL", body + b"\0")),
        *(("without its end", body[:-1]), ("without its start", body[1:]), ("twice", body * 2)),
        *(("field", body + b"&Action=PurgeQueue"), ("object", b"{}" + body), ("none", b"")),
    ):
        if changed != body:
            yield Altered(f"body {name}", replace(request, body=changed))


def of_headers(original: Original) -> Iterator[Altered]:
    """Each header missing, double, or another; what is not signed may be anything."""
    request = original.request
    signed = signed_names(original)
    for name, value in request.headers.items():
        if name == "authorization":
            continue
        unsigned = name not in signed
        left = {other: text for other, text in request.headers.items() if other != name}
        yield Altered(f"without {name}", replace(request, headers=left), same=unsigned)
        if name.startswith("x-amz-"):
            renamed = {**left, name + "-x": value}
            yield Altered(f"renamed {name}", replace(request, headers=renamed))
        for other in (
            *(value + "x", value[:-1], f"{value},{value}", f"x,{value}", value.swapcase(), ""),
            *(value + "\r\nx: y", value + "\0", value + "\xe4", value.replace("a", "\xe4")),
        ):
            if other != value:
                yield _header(original, name, other, same=unsigned)
        # Spaces in a value count once; those around it no HTTP server hands over.
        yield _header(original, name, value.replace(" ", " \t "), same=True)


def of_new_headers(original: Original) -> Iterator[Altered]:
    request = original.request
    for name, value in (
        *(("x-amz-target", "AmazonSQS.PurgeQueue"), ("x-amz-security-token", "AQoD")),
        *(("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), ("x-amz-content-sha256", EMPTY_HASH)),
        *(("x-amz-date", "20150830T123600Z"), ("x-amz-meta", ""), ("x-amz-user-agent", "x")),
        *(("x-amz-expires", "60"), ("x-amz-algorithm", "AWS4-HMAC-SHA256")),
    ):
        if name not in request.headers:
            yield _header(original, name, value)
    for name, value in (("user-agent", "x"), ("x-forwarded-for", "192.0.2.1"), ("x-amzn-a", "b")):
        # Nothing that a request does depends on them.
        yield _header(original, name, value, same=True)


def of_authorization(original: Original) -> Iterator[Altered]:
    """The parts of the credential, and the names of what is signed."""
    request = original.request
    names = signed_names(original)
    listed = ";".join(names)
    lists = {
        *(listed + ";", ";" + listed, listed.upper(), listed + ";x", listed + ";zz-new", ""),
        *(";".join(reversed(names)), f"{listed};{listed}", listed.replace(";", ","), "*"),
        *(listed.replace(";", "; "), listed.replace("host", "Host"), listed.replace(";", "%3B%3B")),
    }
    lists |= {";".join(other for other in names if other != name) for name in names}
    for other in sorted(lists - {listed}):
        yield from _replaced(original, "SignedHeaders", listed, other)
    credential = credential_of(original)
    parts = credential.split("/")
    for index, part in enumerate(parts):
        for other in (part + "x", part[:-1], part.swapcase(), "", "x", part + "/", f" {part}"):
            changed = "/".join((*parts[:index], other, *parts[index + 1 :]))
            if changed != credential:
                yield from _replaced(original, "Credential", credential, changed)
    for other in ("", "/", "/".join(parts[:4]), credential + "/", credential + "/x"):
        yield from _replaced(original, "Credential", credential, other)
    for other in ("AWS4-HMAC-SHA1", "AWS4-ECDSA-P256-SHA256", "aws4-hmac-sha256", "AWS4", "none"):
        yield from _replaced(original, "Algorithm", "AWS4-HMAC-SHA256", other)
    if original.presigned:
        header = (
            f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={listed}, "
            f"Signature={signature_of(original)}"
        )
        yield _header(original, "authorization", header)
        left = {name: text for name, text in request.headers.items() if name != "x-amz-date"}
        moved = {**left, "authorization": header, "x-amz-date": date_of(original)}
        yield Altered("as a header", replace(request, headers=moved, query=""))
        form = replace(request, method="POST", query="", body=request.query.encode())
        yield Altered("as a form", form)
        return
    authorization = request.headers["authorization"]
    for other in (
        *(
            "",
            "AWS4-HMAC-SHA256",
            authorization + ", x=y",
            authorization + ",",
            "," + authorization,
        ),
        *(authorization.replace(", ", " "), authorization.replace("=", ":"), authorization * 2),
        *(authorization.replace(" ", "\t"), authorization + ", Signature=", authorization.lower()),
        *(f"{authorization},{authorization}", f"Bearer {authorization}", f" {authorization}"),
    ):
        yield _header(original, "authorization", other)
    # Commas divide the parts of the header; spaces beside them mean nothing, nor does their order.
    yield _header(original, "authorization", authorization.replace(", ", ","), same=True)
    yield _header(original, "authorization", authorization.replace(", ", " ,  "), same=True)
    scheme, _, listing = authorization.partition(" ")
    turned = f"{scheme} {', '.join(reversed(listing.split(', ')))}"
    yield _header(original, "authorization", turned, same=True)
    for query in ("X-Amz-Signature=x", "X-Amz-Algorithm=AWS4-HMAC-SHA256", "x-amz-expires=1"):
        joined = f"{request.query}&{query}" if request.query else query
        yield Altered(f"with {query}", replace(request, query=joined))


def of_signatures(original: Original) -> Iterator[Altered]:
    signature = signature_of(original)
    others = {
        signature.upper(),
        signature[:-1],
        signature + "0",
        signature * 2,
        signature[:32],
        "0",
    }
    others |= {"0" * 64, "f" * 64, f"{signature}.", f"0x{signature[2:]}", signature[::-1]}
    for index, digit in enumerate(signature):
        other = "0" if digit == "f" else f"{int(digit, 16) + 1:x}"
        others.add(signature[:index] + other + signature[index + 1 :])
        others.add(signature[:index] + "g" + signature[index + 1 :])
    for other in sorted(others - {signature}):
        yield from _replaced(original, "Signature", signature, other)


def of_dates(original: Original) -> Iterator[Altered]:
    date = date_of(original)
    for other in (
        *("20150830T123601Z", "20150830T123559Z", "20150831T123600Z", "20150829T123600Z"),
        *("20150830T123600z", "20150830T123600", "20150830 123600Z", "2015-08-30T12:36:00Z"),
        *("99991231T235959Z", "00010101T000000Z", "20150830T123660Z", "x", "0"),
        *(f"{date},{date}", "20150830T1236\u0660\u0660Z", "Sun, 30 Aug 2015 12:36:00 GMT"),
    ):
        if original.presigned:
            yield from _replaced(original, "Date", date, other)
        else:
            yield _header(original, "x-amz-date", other)


def signed_names(original: Original) -> list[str]:
    """The headers that the request says it signs."""
    return _part(original, "SignedHeaders").replace("%3B", ";").split(";")


def signature_of(original: Original) -> str:
    return _part(original, "Signature")


def credential_of(original: Original) -> str:
    return _part(original, "Credential").replace("%2F", "/")


def date_of(original: Original) -> str:
    if original.presigned:
        return _part(original, "Date")
    return original.request.headers["x-amz-date"]


def _part(original: Original, name: str) -> str:
    request = original.request
    text = request.query if original.presigned else request.headers["authorization"]
    (value,) = re.findall(f"(?:X-Amz-|[ ,]){name}=([^,&]+)", text)
    return str(value)


def _replaced(original: Original, part: str, old: str, new: str) -> Iterable[Altered]:
    """The part of the signature's description changed, where it stands in this form."""
    request = original.request
    what = f"{part} {new!r}"
    if not original.presigned:
        written = old if part == "Algorithm" else f"{part}={old}"
        changed = new if part == "Algorithm" else f"{part}={new}"
        authorization = request.headers["authorization"]
        assert authorization.count(written) == 1
        return [_header(original, "authorization", authorization.replace(written, changed))]
    escape: Callable[[str], str] = lambda text: text.replace("/", "%2F").replace(";", "%3B")  # noqa: E731
    written = f"X-Amz-{part}={escape(old)}"
    assert request.query.count(written) == 1
    query = request.query.replace(written, f"X-Amz-{part}={escape(new)}")
    return [_query(original, what, query)] if query.isascii() else []


def _header(original: Original, name: str, value: str, *, same: bool = False) -> Altered:
    headers = {**original.request.headers, name: value}
    return Altered(f"{name}: {value!r}", replace(original.request, headers=headers), same)


def _query(original: Original, what: str, query: str, *, same: bool = False) -> Altered:
    return Altered(f"query, {what}", replace(original.request, query=query), same)
