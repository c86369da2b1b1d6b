"""Who may do what, decided slowly and plainly: the truth that the fast evaluator is held to.

Written from the rules of IAM's documentation and from docs/promises.md alone. It shares no code
with the fast one, compiles nothing, and answers each question in three values: True, False, or None
where nobody can tell. Only at the end of a statement does None become a decision: an Allow does not
allow, a Deny denies.
"""

import base64
import binascii
import ipaddress
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from fractions import Fraction
from typing import Any

Maybe = bool | None

OWNER_ONLY = """AddPermission CancelMessageMoveTask CreateQueue DeleteQueue ListMessageMoveTasks
    ListQueues ListQueueTags RemovePermission SetQueueAttributes StartMessageMoveTask TagQueue
    UntagQueue""".lower().split()
GLOBAL_KEYS = """CurrentTime EpochTime PrincipalAccount PrincipalArn PrincipalIsAWSService
    PrincipalOrgID PrincipalServiceName PrincipalType Referer RequestedRegion ResourceAccount
    SecureTransport SourceAccount SourceArn SourceIp SourceVpce TagKeys UserAgent userid username
    ViaAWSService MultiFactorAuthPresent""".lower().split()


POSITIVE = (
    "StringEquals",
    "StringEqualsIgnoreCase",
    "StringLike",
    "NumericEquals",
    "NumericLessThan",
    "NumericLessThanEquals",
    "NumericGreaterThan",
    "NumericGreaterThanEquals",
    "DateEquals",
    "DateLessThan",
    "DateLessThanEquals",
    "DateGreaterThan",
    "DateGreaterThanEquals",
    "Bool",
    "BinaryEquals",
    "IpAddress",
    "ArnEquals",
    "ArnLike",
)
NEGATIVE = (
    "StringNotEquals",
    "StringNotEqualsIgnoreCase",
    "StringNotLike",
    "NumericNotEquals",
    "DateNotEquals",
    "NotIpAddress",
    "ArnNotEquals",
    "ArnNotLike",
)


class MalformedError(Exception):
    """A part of a policy that the language does not know."""


@dataclass
class Asked:
    """A request: who (service or account and user), what, on what, of whom, and its keys."""

    account: str
    user: str
    service: str
    action: str
    resource: str
    owner: str
    keys: dict[str, list[str]] = field(default_factory=dict)
    new: bool = True
    """Whether the policy at hand is of the version that has variables."""

    def values(self, name: str) -> list[str]:
        return [
            value
            for key, values in self.keys.items()
            if key.lower() == name.lower()
            for value in values
        ]


def no(answer: Maybe) -> Maybe:
    return None if answer is None else not answer


def every(answers: Iterable[Maybe]) -> Maybe:
    known = list(answers)
    return False if False in known else None if None in known else True


def some(answers: Iterable[Maybe]) -> Maybe:
    return no(every(no(answer) for answer in answers))


def slow_decision(identity: list[str], resource: str | None, asked: Asked) -> str:
    """`allowed`, `denied` (explicitly) or `not allowed`."""
    own = [] if asked.service or not asked.user else identity
    by_identity = [said for text in own for said in statements(text, asked, has_principals=False)]
    by_resource = (
        list(statements(resource, asked, has_principals=True)) if resource is not None else []
    )
    if any(effect == "Deny" for effect, _ in by_identity + by_resource):
        return "denied"
    named = [how for effect, how in by_resource if effect == "Allow"]
    caller_allows = not asked.user or bool(by_identity)
    if asked.service:
        fine = bool(named) and asked.action.split(":")[1].lower() not in OWNER_ONLY
    elif asked.account == asked.owner:
        fine = caller_allows or "itself" in named
    else:
        owner_allows = bool(named) and asked.action.split(":")[1].lower() not in OWNER_ONLY
        fine = caller_allows and owner_allows
    return "allowed" if fine else "not allowed"


def statements(text: str, asked: Asked, *, has_principals: bool) -> Iterable[tuple[str, str]]:
    """Effect, and by what the caller is named, of each statement that is about the request."""
    try:
        document = json.loads(text, object_pairs_hook=once)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        yield "Deny", "itself"
        return
    wrong = bool(set(document) - {"Version", "Id", "Statement"})
    wrong |= not isinstance(document.get("Id", ""), str)
    wrong |= document.get("Version", "2008-10-17") not in ("2008-10-17", "2012-10-17")
    asked = replace(asked, new=document.get("Version", "2008-10-17") != "2008-10-17")
    listed = document.get("Statement", [])
    for statement in listed if isinstance(listed, list) else [listed]:
        if not isinstance(statement, dict):
            yield "Deny", "itself"
            continue
        effect = "Allow" if statement.get("Effect") == "Allow" else "Deny"
        malformed, how, answer = read(statement, asked, has_principals=has_principals)
        allows = not malformed and not wrong and answer is True
        if (allows if effect == "Allow" else answer is not False) and how:
            yield effect, how


def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name twice")
    return dict(pairs)


def read(
    statement: dict[str, Any], asked: Asked, *, has_principals: bool
) -> tuple[bool, str, Maybe]:
    """Whether it is malformed, by what it names the caller ("": not), whether the rest matches."""
    known = "Sid Effect Principal NotPrincipal Action NotAction Resource NotResource Condition"
    malformed = bool(set(statement) - set(known.split()))
    malformed |= statement.get("Effect") not in ("Allow", "Deny")
    malformed |= not isinstance(statement.get("Sid", ""), str)
    how = "itself"
    try:
        if not has_principals and {"Principal", "NotPrincipal"} & set(statement):
            raise MalformedError
        if has_principals:
            how = naming(statement, asked)
    except MalformedError:
        malformed = True
    answers: list[Maybe] = []
    for name, value, matches in (
        ("Action", asked.action, action_matches),
        ("Resource", asked.resource, resource_matches),
    ):
        broken, answer = about(statement, name, value, asked, matches)
        malformed |= broken
        answers.append(answer)
    conditions = statement.get("Condition", {})
    if isinstance(conditions, dict) and all(isinstance(v, dict) for v in conditions.values()):
        for operator, keys in conditions.items():
            for key, values in keys.items():
                try:
                    answers.append(condition(operator, key, values, asked))
                except MalformedError:
                    malformed = True
    else:
        malformed = True
    return malformed, how, every(answers)


def naming(statement: dict[str, Any], asked: Asked) -> str:
    excepts = "NotPrincipal" in statement
    if excepts == ("Principal" in statement):
        raise MalformedError
    if excepts and statement.get("Effect") == "Allow":
        raise MalformedError
    principal = statement["NotPrincipal" if excepts else "Principal"]
    if principal == "*":
        principal = {"AWS": "*"}
    if not isinstance(principal, dict) or not principal:
        raise MalformedError
    names: dict[str, list[str]] = {"AWS": [], "Service": [], "Federated": [], "CanonicalUser": []}
    for kind, value in principal.items():
        if kind not in names:
            raise MalformedError
        names[kind] = texts(value)
        if any(c in name for name in names[kind] for c in "*?" if (kind, name) != ("AWS", "*")):
            raise MalformedError
    aws = names["AWS"]
    account = {asked.account, f"arn:aws:iam::{asked.account}:root"} & set(aws)
    user = f"arn:aws:iam::{asked.account}:user/{asked.user}" in aws
    if "*" in aws:
        how = "itself"
    elif asked.service:
        how = "itself" if asked.service in names["Service"] else ""
    elif not asked.user:
        how = "itself" if account else ""
    elif excepts:
        how = "itself" if user and account else ""
    else:
        how = "itself" if user else "account" if account else ""
    return how if not excepts else "" if how else "itself"


def texts(value: Any) -> list[str]:
    values = value if isinstance(value, list) else [value]
    if not values or not all(isinstance(text, str) and text for text in values):
        raise MalformedError
    return values


def about(
    statement: dict[str, Any],
    name: str,
    value: str,
    asked: Asked,
    matches: Callable[[str, str, Asked], Maybe],
) -> tuple[bool, Maybe]:
    """Whether Action, NotAction, Resource or NotResource is malformed, and whether it matches."""
    inverse = f"Not{name}"
    if (name in statement) == (inverse in statement):
        return True, None
    malformed = False
    answers: list[Maybe] = []
    try:
        for text in texts(statement[name if name in statement else inverse]):
            try:
                answers.append(matches(text, value, asked))
            except MalformedError:
                malformed = True
                answers.append(None)
    except MalformedError:
        return True, None
    answer = some(answers)
    return malformed, answer if name in statement else no(answer)


def action_matches(text: str, action: str, _asked: Asked) -> Maybe:
    if text == "*":
        return True
    service, colon, name = text.lower().partition(":")
    if not (colon and name and service.replace("-", "").isalnum() and service.isascii()):
        raise MalformedError
    if not all(c.isascii() and (c.isalnum() or c in "*?") for c in name):
        raise MalformedError
    return service == action.lower().split(":")[0] and glob(
        [{"*": MANY, "?": ONE}.get(c, c) for c in name], action.lower().split(":")[1]
    )


def resource_matches(text: str, arn: str, asked: Asked) -> Maybe:
    if text == "*":
        return True
    pieces = tokens(text, asked, wild=True)
    segments = cut(pieces)
    if segments[0] != list("arn") or any(
        isinstance(token, tuple) for segment in segments[:5] for token in segment
    ):
        raise MalformedError
    if any(token in (MANY, ONE) for token in (segments + [[]] * 3)[2]):
        raise MalformedError
    while len(segments) < 6:
        segments.append([MANY])
    return arn_matches(segments, arn)


MANY, ONE = "MANY", "ONE"
Token = str | tuple[str | None]
"""One character, a wildcard, or the value of a variable (None: it has none)."""


def tokens(text: str, asked: Asked, *, wild: bool) -> list[Token]:
    found: list[Token] = []
    while text:
        if asked.new and text.startswith("${"):
            name, end, text = text[2:].partition("}")
            if not end or "{" in name:
                raise MalformedError
            found.append(variable(name, asked) if name not in ("*", "?", "$") else name)
        else:
            found.append({"*": MANY, "?": ONE}.get(text[0], text[0]) if wild else text[0])
            text = text[1:]
    return found


def variable(text: str, asked: Asked) -> Token:
    name, comma, rest = (piece.strip() for piece in text.partition(","))
    quoted = len(rest) > 1 and rest[0] == rest[-1] == "'" and "'" not in rest[1:-1]
    if not is_key(name) or "'" in name or (comma and not quoted):
        raise MalformedError
    values = asked.values(name)
    if not values:
        return (rest[1:-1] if comma else None,)
    return (values[0] if len(values) == 1 else None,)


def is_key(name: str) -> bool:
    prefix, _, rest = name.lower().partition(":")
    tag, slash, key = rest.partition("/")
    tagged = tag in ("requesttag", "resourcetag", "principaltag") and bool(slash and key)
    return prefix == "aws" and (rest in GLOBAL_KEYS or tagged)


def cut(pieces: list[Token]) -> list[list[Token]]:
    segments: list[list[Token]] = [[]]
    for token in pieces:
        if token == ":" and len(segments) < 6:
            segments.append([])
        else:
            segments[-1].append(token)
    return segments


def arn_matches(segments: list[list[Token]], arn: str) -> Maybe:
    if len(segments) != 6 or segments[0] != list("arn"):
        raise MalformedError
    parts = arn.split(":", 5)
    if len(parts) != 6 or parts[0] != "arn":
        return None
    if any(token == (None,) for segment in segments for token in segment):
        return None
    return all(glob(segment, part) for segment, part in zip(segments, parts, strict=True))


def glob(pattern: list[Any], text: str) -> Maybe:
    """Whether the text is of the pattern: for each token, where in the text it may end."""
    places = {0}
    for token in pattern:
        if token == (None,):
            return None
        if token == MANY:
            places = set(range(min(places), len(text) + 1)) if places else places
        elif token == ONE:
            places = {place + 1 for place in places if place < len(text)}
        else:
            piece = token[0] if isinstance(token, tuple) else token
            places = {place + len(piece) for place in places if text.startswith(piece, place)}
    return len(text) in places


def condition(operator: str, key: str, values: Any, asked: Asked) -> Maybe:
    wanted = []
    for value in values if isinstance(values, list) else [values]:
        if not isinstance(value, str | int | float):
            raise MalformedError
        wanted.append(str(value).lower() if isinstance(value, bool) else str(value))
    if not wanted or not is_key(key):
        raise MalformedError
    given = asked.values(key)
    if operator == "Null":
        if any(value.lower() not in ("true", "false") for value in wanted):
            raise MalformedError
        return some((not given) == (value.lower() == "true") for value in wanted)
    over, colon, name = operator.rpartition(":")
    if_exists = name.endswith("IfExists")
    name = name.removesuffix("IfExists")
    if name not in POSITIVE + NEGATIVE or (colon and over not in ("ForAnyValue", "ForAllValues")):
        raise MalformedError
    negated = name in NEGATIVE
    name = name.replace("Not", "")
    for value in wanted:
        compare(name, value, "", asked)  # raises for what is malformed
    if not given:
        return if_exists or over == "ForAllValues" or (negated and over != "ForAnyValue")
    answers = []
    for value in given:
        equal = some(compare(name, one, value, asked) for one in wanted)
        answers.append(no(equal) if negated else equal)
    if over == "ForAnyValue":
        return some(answers)
    if over == "ForAllValues":
        return every(answers)
    return answers[0] if len(answers) == 1 else None


def compare(name: str, wanted: str, given: str, asked: Asked) -> Maybe:
    """One value of the policy with one of the request."""
    if name.startswith("String"):
        if name == "StringEqualsIgnoreCase":
            given = given.casefold()
        pattern = tokens(wanted, asked, wild=name == "StringLike")
        if name == "StringEqualsIgnoreCase":
            pattern = [folded(token) for token in pattern]
        return glob(pattern, given)
    if name.startswith("Arn"):
        return arn_matches(cut(tokens(wanted, asked, wild=True)), given)
    if name == "IpAddress":
        return in_network(wanted, given)
    read = {"Bool": truth, "Bina": binary, "Nume": number, "Date": moment}[name[:4]]
    one, other = read(wanted), read(given)
    if one is None:
        raise MalformedError
    if other is None:
        return None
    orders = {
        "LessThan": other < one,
        "LessThanEquals": other <= one,
        "GreaterThan": other > one,
        "GreaterThanEquals": other >= one,
    }
    return bool(orders.get(name.removeprefix("Numeric").removeprefix("Date"), other == one))


def folded(token: Token) -> Token:
    if isinstance(token, tuple):
        return (token[0].casefold() if token[0] is not None else None,)
    return token.casefold()


def truth(text: str) -> Any:
    return {"true": True, "false": False}.get(text.lower())


def binary(text: str) -> Any:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None


def number(text: str) -> Any:
    whole, dot, fraction = text.lstrip("+-").partition(".")
    signs = len(text) - len(text.lstrip("+-"))
    digits = all(part.isdecimal() and part.isascii() for part in (whole, fraction or "0"))
    if signs > 1 or not digits or (dot and not fraction) or max(len(whole), len(fraction)) > 30:
        return None
    return Fraction(text)


def moment(text: str) -> Any:
    if text.isascii() and text.replace(".", "", 1).isdecimal() and text[0] != "." != text[-1]:
        return Fraction(text)
    if len(text) == len("2030-01-31"):
        text += "T00:00Z"
    if "T" not in text or not text.isascii() or "," in text or " " in text:
        return None
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        return None
    if parsed.tzinfo is None:
        return None
    passed = parsed - datetime(1970, 1, 1, tzinfo=UTC)
    return Fraction(passed.days * 86_400 + passed.seconds) + Fraction(passed.microseconds, 10**6)


def in_network(wanted: str, given: str) -> Maybe:
    start, slash, length = wanted.partition("/")
    network = address(start)
    if network is None or (slash and not length.isdecimal()):
        raise MalformedError
    size = 32 if network[0] == 4 else 128
    prefix = int(length) if slash else size
    if prefix > size:
        raise MalformedError
    caller = address(given)
    if caller is None:
        return None
    if caller[0] == 6 and caller[1] >> 32 == 0xFFFF:
        caller = (4, caller[1] & 0xFFFF_FFFF)
    rest = size - prefix
    return caller[0] == network[0] and caller[1] >> rest == network[1] >> rest


def address(text: str) -> tuple[int, int] | None:
    try:
        parsed = ipaddress.ip_address(text)
    except ValueError:
        return None
    return parsed.version, int(parsed)
