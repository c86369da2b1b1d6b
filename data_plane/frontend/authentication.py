"""Who calls, and in which region: the stage that verifies signatures (AWS Signature Version 4)."""

from collections.abc import Sequence
from typing import Final

from data_plane.core.caller import AccessKey
from data_plane.core.errors import (
    INVALID_ADDRESS,
    INVALID_CLIENT_TOKEN,
    SIGNATURE_DOES_NOT_MATCH,
    RefusedError,
    signature_does_not_match,
)
from data_plane.core.limits import SMALL_BODY_BYTES_MAX
from data_plane.core.sigv4 import (
    Verifier,
    body_hash,
    body_hash_in_slices,
    canonical_query,
    canonical_request,
    is_normal_path,
    signing_key,
    string_to_sign,
)
from data_plane.core.sigv4_claim import Claim, check_times, read_claim
from data_plane.core.turns import InTurns
from data_plane.frontend.exchange import Exchange, Stage
from data_plane.ports import Clock, Credentials
from data_plane.protocol.aws_query import find_field, form_of
from data_plane.protocol.http import HttpRequest

SIGNING_KEYS_MAX: Final = 4096
"""Derived keys that are kept: one for each access key, day, region and service in use."""

_US_PER_S: Final = 1_000_000
_CONTENT_HASH: Final = "x-amz-content-sha256"
_TARGET: Final = "x-amz-target"
_CONTENT_TYPE: Final = "content-type"


def authenticate(credentials: Credentials, clock: Clock, in_turns: InTurns) -> Stage:
    """Verify the signature over exactly what was received; then caller and region are known.

    Whoever names no key that exists is refused before anything long is looked at. Raises
    RefusedError with the faults of `core.sigv4_claim`, INVALID_ADDRESS for a path that can
    be written in a plainer way (servers tell some of these apart from it and some not),
    INVALID_CLIENT_TOKEN for a key that does not exist or is revoked, SIGNATURE_DOES_NOT_MATCH;
    CellUnavailableError from the look-up.
    """
    keys = _SigningKeys()

    async def stage(exchange: Exchange) -> None:
        request = exchange.request
        claim, key = await claimed_key(request, (exchange.served_by.name,), credentials, clock)
        _check_content_type(exchange, claim)
        query = canonical_query(request.query, without_signature=claim.expires_s is not None)
        body = request.body
        if len(body) <= SMALL_BODY_BYTES_MAX:
            content_hash = body_hash(body)
        else:
            content_hash = await in_turns(body_hash_in_slices(body))
        if request.headers.get(_CONTENT_HASH, content_hash) != content_hash:
            raise signature_does_not_match()
        signed = (_signed_text(request, path, claim, query, content_hash) for path in request.paths)
        if not any(keys.matches(key.secret, claim, text) for text in signed):
            raise signature_does_not_match()
        exchange.caller = key.caller
        exchange.region = claim.region
        if query:
            # Read in the order that was signed: a signature knows no other, and otherwise two
            # fields of one name could change places.
            exchange.signed_query = query
            if exchange.protocol.is_form:
                action = find_field("Action", query, form_of(request))
                if action != exchange.chosen.name:
                    raise signature_does_not_match()

    return stage


def _check_content_type(exchange: Exchange, claim: Claim) -> None:
    """A form with a target is one by its content type alone, so that has to be signed.

    Otherwise whoever sees a request in JSON could have a text in it read as a form.
    """
    if not exchange.protocol.is_form or _TARGET not in exchange.request.headers:
        return
    if _CONTENT_TYPE not in claim.signed_names:
        raise RefusedError(
            SIGNATURE_DOES_NOT_MATCH,
            "'Content-Type' must be a 'SignedHeader' in the AWS Authorization.",
        )


async def claimed_key(
    request: HttpRequest, services: Sequence[str], credentials: Credentials, clock: Clock
) -> tuple[Claim, AccessKey]:
    """Who the request says has signed it, by what is in front of its body; not proved yet.

    It is signed for one of these services. Raises as the stage does.
    """
    if not is_normal_path(request.path):
        raise RefusedError(
            INVALID_ADDRESS, f"The address {request.path} is not valid for this endpoint."
        )
    claim = read_claim(request.headers, request.query, services)
    check_times(claim, clock.now_us() // _US_PER_S)
    key = await credentials.find_key(claim.access_key_id)
    if key is None:
        raise RefusedError(
            INVALID_CLIENT_TOKEN, "The security token included in the request is invalid."
        )
    return claim, key


def _signed_text(
    request: HttpRequest, path: str, claim: Claim, query: str, content_hash: str
) -> str:
    """What a valid signature of this request signs: its body as it is, whatever a header says."""
    canonical = canonical_request(
        request.method, path, query, request.headers, claim.signed_names, content_hash
    )
    return string_to_sign(claim.date, claim.scope, canonical)


class _SigningKeys:
    """Derived keys by what they are derived from; only those that have proved right are kept."""

    def __init__(self) -> None:
        self._verifiers: dict[tuple[str, str, str, str], Verifier] = {}

    def matches(self, secret: str, claim: Claim, signed: str) -> bool:
        """Whether the claim's signature is the one that the secret makes of the text."""
        source = (secret, claim.day, claim.region, claim.service)
        verifier = self._verifiers.get(source)
        if verifier is not None:
            return verifier.is_signature(signed, claim.signature)
        verifier = Verifier(signing_key(*source))
        if not verifier.is_signature(signed, claim.signature):
            return False
        if len(self._verifiers) >= SIGNING_KEYS_MAX:
            del self._verifiers[next(iter(self._verifiers))]
        self._verifiers[source] = verifier
        return True
