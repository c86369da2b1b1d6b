"""Who calls, and in which region: the stage that verifies signatures (AWS Signature Version 4)."""

from typing import Final

from data_plane.core.errors import (
    INVALID_ADDRESS,
    INVALID_CLIENT_TOKEN,
    SIGNATURE_DOES_NOT_MATCH,
    RefusedError,
)
from data_plane.core.sigv4 import (
    Verifier,
    body_hash,
    canonical_query,
    canonical_request,
    is_normal_path,
    signing_key,
    string_to_sign,
)
from data_plane.core.sigv4_claim import SERVICE, Claim, check_times, read_claim
from data_plane.frontend.exchange import JSON, Exchange, Stage
from data_plane.frontend.intake import read_fields
from data_plane.ports import Clock, Credentials
from data_plane.protocol.http import HttpRequest

SIGNING_KEYS_MAX: Final = 4096
"""Derived keys that are kept: one for each access key, day and region in use."""

_US_PER_S: Final = 1_000_000
_NOBODYS_SECRET: Final = "nobody has this secret, and nothing is signed with it"  # noqa: S105
_CONTENT_HASH: Final = "x-amz-content-sha256"


def authenticate(credentials: Credentials, clock: Clock) -> Stage:
    """Verify the signature over exactly what was received; then caller and region are known.

    Raises RefusedError with the faults of `core.sigv4_claim`, INVALID_ADDRESS for a path that can
    be written in a plainer way (servers tell some of these apart from it and some not),
    INVALID_CLIENT_TOKEN for a key that does not exist or is revoked, SIGNATURE_DOES_NOT_MATCH;
    CellUnavailableError from the look-up.
    """
    keys = _SigningKeys()

    async def stage(exchange: Exchange) -> None:
        request = exchange.request
        if not is_normal_path(request.path):
            raise RefusedError(
                INVALID_ADDRESS, f"The address {request.path} is not valid for this endpoint."
            )
        claim = read_claim(request.headers, request.query)
        check_times(claim, clock.now_us() // _US_PER_S)
        query = canonical_query(request.query, without_signature=claim.expires_s is not None)
        signed = [_signed_text(request, path, claim, query) for path in request.paths]
        key = await credentials.find_key(claim.access_key_id)
        secret = key.secret if key else _NOBODYS_SECRET
        matches = any(keys.matches(secret, claim, text) for text in signed)
        if key is None:
            raise RefusedError(
                INVALID_CLIENT_TOKEN, "The security token included in the request is invalid."
            )
        if not matches:
            raise _no_match()
        exchange.caller = key.caller
        exchange.region = claim.region
        if query and exchange.protocol != JSON:
            _read_signed_fields(exchange, query)

    return stage


def _signed_text(request: HttpRequest, path: str, claim: Claim, query: str) -> str:
    """What a valid signature of this request signs: its body as it is, whatever a header says."""
    content_hash = body_hash(request.body)
    if request.headers.get(_CONTENT_HASH, content_hash) != content_hash:
        raise _no_match()
    canonical = canonical_request(
        request.method, path, query, request.headers, claim.signed_names, content_hash
    )
    return string_to_sign(claim.date, claim.scope, canonical)


def _read_signed_fields(exchange: Exchange, query: str) -> None:
    """Read the fields again in the order that was signed: a signature knows no other.

    Otherwise two fields of one name could change places.
    """
    exchange.fields = read_fields(exchange.request, query)
    if exchange.fields.get("Action") != exchange.chosen.name:
        raise _no_match()


class _SigningKeys:
    """Derived keys by what they are derived from; only those that have proved right are kept."""

    def __init__(self) -> None:
        self._verifiers: dict[tuple[str, str, str], Verifier] = {}

    def matches(self, secret: str, claim: Claim, signed: str) -> bool:
        """Whether the claim's signature is the one that the secret makes of the text."""
        source = (secret, claim.day, claim.region)
        verifier = self._verifiers.get(source)
        if verifier is not None:
            return verifier.is_signature(signed, claim.signature)
        verifier = Verifier(signing_key(secret, claim.day, claim.region, SERVICE))
        if not verifier.is_signature(signed, claim.signature):
            return False
        if len(self._verifiers) >= SIGNING_KEYS_MAX:
            del self._verifiers[next(iter(self._verifiers))]
        self._verifiers[source] = verifier
        return True


def _no_match() -> RefusedError:
    return RefusedError(
        SIGNATURE_DOES_NOT_MATCH,
        "The request signature we calculated does not match the signature you provided. Check "
        "your AWS Secret Access Key and signing method. Consult the service documentation for "
        "details.",
    )
