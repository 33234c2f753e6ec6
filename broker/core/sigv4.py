"""Signature Version 4 of AWS: what is added to a request so that its receiver knows who made it, and that it is whole.

Signed are the method, the path, the query, the host, the content type, every x-amz- header and, unless it is told
otherwise, the body. Times are arguments. What is made of the key (the signing key, the signature) is handed out as
secrets: the signature is good for some minutes, the signing key for a day.
"""

import hashlib
import hmac
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import quote, unquote_to_bytes

from broker.core.http_secrets import SigV4Secret
from broker.core.secret import Secret

UNSIGNED_PAYLOAD = "UNSIGNED-PAYLOAD"
ALGORITHM = "AWS4-HMAC-SHA256"
GLOBAL_REGION = "us-east-1"

_UNRESERVED = "-_.~"
_AWS_HOST = re.compile(r"(?P<labels>[a-z0-9.-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_REGION = re.compile(r"[a-z]{2}(?:-[a-z]+){1,3}-[0-9]{1,2}")
_GLOBAL = frozenset({"iam", "sts", "s3", "cloudfront", "route53", "organizations", "budgets", "ce", "support"})
_SIGNED_BESIDE = frozenset({"host", "content-type", "content-md5"})


class SigningError(ValueError):
    """The request can't be signed. The message says what to change; it holds no secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    region: str
    service: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToSign:
    """A request as it goes out: `path` and `query` percent-encoded, `headers` with the host."""

    method: str
    host: str
    path: str
    query: str
    headers: tuple[tuple[str, str], ...]
    body_sha256: str | None  # in hexadecimal; None leaves the body unsigned


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The headers to add, in order, and what of them and behind them may be given back to nobody."""

    headers: tuple[tuple[str, Secret], ...]
    derived: tuple[Secret, ...]


def scope_of(secret: SigV4Secret, host: str) -> Scope:
    """Region and service: what the credential says, else what the host tells. Raises SigningError."""
    found = _AWS_HOST.fullmatch(host)
    labels = found["labels"].split(".") if found is not None else []
    region = secret.region or next((label for label in labels if _REGION.fullmatch(label)), None)
    service = secret.aws_service or _service_in(labels)
    if region is None and service in _GLOBAL and labels:
        region = GLOBAL_REGION
    if region is None or service is None:
        raise SigningError(f"the host {host} tells no AWS region and service; give --region and --aws-service")
    return Scope(region=region, service=service)


def sign(secret: SigV4Secret, request: ToSign, *, now: datetime) -> Signature:
    """The headers that sign the request at this time (UTC). Raises SigningError."""
    scope = scope_of(secret, _name_of(request.host))
    at = now.strftime("%Y%m%dT%H%M%SZ")
    payload = request.body_sha256 or UNSIGNED_PAYLOAD
    is_s3 = scope.service.startswith("s3")
    added: list[tuple[str, Secret]] = [("X-Amz-Date", Secret(at))]
    if is_s3 or request.body_sha256 is None:
        added.append(("X-Amz-Content-SHA256", Secret(payload)))
    if secret.session_token is not None:
        added.append(("X-Amz-Security-Token", secret.session_token))
    headers = _canonical_headers([*request.headers, *((name, _text(value)) for name, value in added)])
    names = ";".join(name for name, _ in headers)
    canonical = "\n".join(
        [
            request.method,
            _canonical_path(request.path, is_s3=is_s3),
            _canonical_query(request.query),
            *(f"{name}:{value}" for name, value in headers),
            "",
            names,
            payload,
        ]
    )
    span = f"{at[:8]}/{scope.region}/{scope.service}/aws4_request"
    to_sign = "\n".join([ALGORITHM, at, span, hashlib.sha256(canonical.encode("utf-8")).hexdigest()])
    key = signing_key(secret, at[:8], scope)
    signature = hmac.new(key.reveal(), to_sign.encode("ascii"), hashlib.sha256).hexdigest()
    line = f"{ALGORITHM} Credential={secret.access_key_id}/{span}, SignedHeaders={names}, Signature={signature}"
    return Signature(headers=(*added, ("Authorization", Secret(line))), derived=(key, Secret(signature)))


def signing_key(secret: SigV4Secret, day: str, scope: Scope) -> Secret:
    """The key of one day, region and service. `day` is YYYYMMDD."""
    key = b"AWS4" + secret.secret_access_key.reveal()
    for part in (day, scope.region, scope.service, "aws4_request"):
        key = hmac.new(key, part.encode("ascii"), hashlib.sha256).digest()
    return Secret(key)


def _name_of(authority: str) -> str:
    """The host without its port."""
    return authority.partition("]")[0].lstrip("[") if authority.startswith("[") else authority.partition(":")[0]


def _service_in(labels: list[str]) -> str | None:
    """The service that the host of AWS names: s3 also behind a bucket, others where they stand first."""
    for label in labels:
        if label == "s3" or label.startswith("s3-") or label in {"s3express", "dualstack"}:
            return "s3"
    named = [label for label in labels if not _REGION.fullmatch(label)]
    return named[-1] if named else None


def _canonical_path(path: str, *, is_s3: bool) -> str:
    """Encoded by AWS's own rule: for S3 once, for all others once more."""
    once = "/".join(quote(unquote_to_bytes(segment), safe=_UNRESERVED) for segment in path.split("/"))
    return once if is_s3 else quote(once, safe="/" + _UNRESERVED)


def _canonical_query(query: str) -> str:
    pairs = [pair.partition("=") for pair in query.split("&") if pair]
    return "&".join(
        f"{name}={value}" for name, value in sorted((_strict(name), _strict(value)) for name, _, value in pairs)
    )


def _strict(text: str) -> str:
    return quote(unquote_to_bytes(text.replace("+", " ")), safe=_UNRESERVED)


def _canonical_headers(headers: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Lower case, sorted, values trimmed and their inner runs of spaces made one."""
    found: dict[str, list[str]] = {}
    for spelled, value in headers:
        name = spelled.lower()
        if name in _SIGNED_BESIDE or name.startswith("x-amz-"):
            found.setdefault(name, []).append(" ".join(value.split()))
    return [(name, ",".join(values)) for name, values in sorted(found.items())]


def _text(value: Secret) -> str:
    return value.reveal().decode("ascii")
