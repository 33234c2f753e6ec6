"""What each kind of record holds, as values and as the bytes that are sealed.

The values of a credential lie in records of their own, apart from its name and bindings: looking something up or
listing opens no value.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from broker.contract.wire import JsonValue, WireError, canonical, parse_object
from broker.core.credential import (
    BasicSecret,
    BearerSecret,
    Binding,
    CookieSecret,
    CredentialKind,
    CredentialMeta,
    CredentialSecret,
    HeaderSecret,
    QuerySecret,
    SigV4Secret,
    kind_of,
)
from broker.core.damage import KnownDamage
from broker.core.ledger import LedgerMark
from broker.core.secret import Secret
from broker.core.ssh.secrets import SshKeySecret, SshPasswordSecret
from broker.vault.fields import MAX_CONTENT_BYTES, FieldError, Fields, spelled


@dataclass(frozen=True, slots=True, kw_only=True)
class TrustedPolicy:
    """The policy files that an approver signed. `approver` is the short id of the key that made the signature."""

    files: tuple[tuple[str, bytes], ...]
    digest: str
    counter: int
    signature: bytes
    approver: str

    def encode(self) -> bytes:
        return canonical(
            {
                "files": [{"name": name, "content": spelled(content)} for name, content in self.files],
                "digest": self.digest,
                "counter": self.counter,
                "signature": spelled(self.signature),
                "approver": self.approver,
            }
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditHead:
    """The newest record of the audit log that the vault knows of: sequence number and chain hash in hexadecimal.

    `segment`, `offset` and `at_ms` say where it ended and when that was; they are for messages alone.
    """

    seq: int
    h: str
    segment: int = 1
    offset: int = 0
    at_ms: int = 0

    def encode(self) -> bytes:
        return canonical(
            {"seq": self.seq, "h": self.h, "segment": self.segment, "offset": self.offset, "at_ms": self.at_ms}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditKeys:
    audit_sk: Secret
    root_seed: Secret

    def encode(self) -> bytes:
        return canonical({"audit_sk": spelled(self.audit_sk.reveal()), "root_seed": spelled(self.root_seed.reveal())})


@dataclass(frozen=True, slots=True, kw_only=True)
class Approver:
    public_key: bytes
    enrolled_at_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ValueRef:
    """Where the value of one version of a credential lies."""

    version: int
    record_id: bytes

    def to_json(self) -> dict[str, JsonValue]:
        return {"version": self.version, "record_id": self.record_id.hex()}


@dataclass(frozen=True, slots=True, kw_only=True)
class CredentialRecord:
    """A credential without its values. `previous` is the last value that proved itself, while a newer one has not."""

    name: str
    kind: CredentialKind
    bindings: tuple[Binding, ...]
    created_at_ms: int
    rotated_at_ms: int | None
    current: ValueRef
    previous: ValueRef | None

    @property
    def meta(self) -> CredentialMeta:
        return CredentialMeta(
            name=self.name,
            kind=self.kind,
            bindings=self.bindings,
            version=self.current.version,
            created_at_ms=self.created_at_ms,
            rotated_at_ms=self.rotated_at_ms,
            rotation_pending=self.previous is not None,
        )

    def encode(self) -> bytes:
        return canonical(
            {
                "name": self.name,
                "kind": self.kind.value,
                "bindings": [_binding(binding) for binding in self.bindings],
                "created_at_ms": self.created_at_ms,
                "rotated_at_ms": self.rotated_at_ms,
                "current": self.current.to_json(),
                "previous": None if self.previous is None else self.previous.to_json(),
            }
        )


def decode_policy(content: bytes) -> TrustedPolicy:
    fields = Fields.parse(content, {"files", "digest", "counter", "signature", "approver"})
    files = [Fields.of(item, {"name", "content"}) for item in fields.items("files")]
    return TrustedPolicy(
        files=tuple((file.text("name"), file.octets("content")) for file in files),
        digest=fields.text("digest"),
        counter=fields.integer("counter"),
        signature=fields.octets("signature"),
        approver=fields.text("approver"),
    )


def decode_audit_head(content: bytes) -> AuditHead:
    fields = Fields.parse(content, {"seq", "h", "segment", "offset", "at_ms"})
    return AuditHead(
        seq=fields.integer("seq"),
        h=fields.text("h"),
        segment=fields.integer("segment"),
        offset=fields.integer("offset"),
        at_ms=fields.integer("at_ms"),
    )


def encode_damage(damage: KnownDamage) -> bytes:
    return canonical(damage.to_json())


def decode_damage(content: bytes) -> KnownDamage:
    try:
        return KnownDamage.from_json(parse_object(content, max_bytes=MAX_CONTENT_BYTES))
    except (WireError, ValueError) as cause:
        raise FieldError(f"sealed damage: {cause}") from cause


def decode_audit_keys(content: bytes) -> AuditKeys:
    fields = Fields.parse(content, {"audit_sk", "root_seed"})
    return AuditKeys(audit_sk=Secret(fields.octets("audit_sk")), root_seed=Secret(fields.octets("root_seed")))


def encode_retired(version: int) -> bytes:
    return canonical({"version": version})


def decode_retired(content: bytes) -> int:
    return Fields.parse(content, {"version"}).integer("version")


def encode_ledger(mark: LedgerMark) -> bytes:
    return canonical({"id": mark.id, "generation": mark.generation})


def decode_ledger(content: bytes) -> LedgerMark:
    fields = Fields.parse(content, {"id", "generation"})
    return LedgerMark(id=fields.text("id"), generation=fields.integer("generation"))


def encode_approvers(approvers: Sequence[Approver]) -> bytes:
    return canonical(
        {
            "approvers": [
                {"public_key": spelled(approver.public_key), "enrolled_at_ms": approver.enrolled_at_ms}
                for approver in approvers
            ]
        }
    )


def decode_approvers(content: bytes) -> tuple[Approver, ...]:
    listed = Fields.parse(content, {"approvers"}).items("approvers")
    fields = [Fields.of(item, {"public_key", "enrolled_at_ms"}) for item in listed]
    return tuple(
        Approver(public_key=item.octets("public_key"), enrolled_at_ms=item.integer("enrolled_at_ms")) for item in fields
    )


def decode_credential(content: bytes) -> CredentialRecord:
    names = {"name", "kind", "bindings", "created_at_ms", "rotated_at_ms", "current", "previous"}
    fields = Fields.parse(content, names)
    return CredentialRecord(
        name=fields.text("name"),
        kind=CredentialKind(fields.text("kind")),
        bindings=tuple(_read_binding(item) for item in fields.items("bindings")),
        created_at_ms=fields.integer("created_at_ms"),
        rotated_at_ms=None if fields.absent("rotated_at_ms") else fields.integer("rotated_at_ms"),
        current=_value_ref(fields.table("current")),
        previous=None if fields.absent("previous") else _value_ref(fields.table("previous")),
    )


def _binding(binding: Binding) -> dict[str, JsonValue]:
    place: dict[str, JsonValue] = {
        "scheme": binding.scheme,
        "host": binding.host,
        "port": binding.port,
        "path": binding.path,
    }
    return place | {"user": binding.user} if binding.user else place


def _read_binding(item: JsonValue) -> Binding:
    has_user = isinstance(item, dict) and "user" in item
    fields = Fields.of(item, {"scheme", "host", "port", "path"} | ({"user"} if has_user else set()))
    return Binding(
        scheme=fields.text("scheme"),
        host=fields.text("host"),
        port=fields.integer("port"),
        path=fields.text("path"),
        user=fields.text("user") if has_user else "",
    )


def encode_secret(secret: CredentialSecret) -> bytes:
    """The one place where a value is spelled, for the cipher."""
    parts: dict[str, JsonValue] = {"kind": kind_of(secret).value}
    match secret:
        case BearerSecret():
            parts["value"] = spelled(secret.token.reveal())
        case BasicSecret():
            parts["value"] = spelled(secret.password.reveal())
            parts["username"] = secret.username
        case HeaderSecret():
            parts["value"] = spelled(secret.value.reveal())
            parts["header"] = secret.header
            parts["template"] = secret.template
        case QuerySecret():
            parts["value"] = spelled(secret.value.reveal())
            parts["parameter"] = secret.parameter
        case CookieSecret():
            parts["value"] = spelled(secret.value.reveal())
            parts["cookie"] = secret.cookie
        case SigV4Secret(session_token=token):
            parts["value"] = spelled(secret.secret_access_key.reveal())
            parts["access_key_id"] = secret.access_key_id
            parts["session_token"] = None if token is None else spelled(token.reveal())
            parts["region"] = secret.region
            parts["aws_service"] = secret.aws_service
        case SshKeySecret():
            parts["value"] = spelled(secret.private_key.reveal())
            parts["certificate"] = secret.certificate
        case SshPasswordSecret():
            parts["value"] = spelled(secret.password.reveal())
    return canonical(parts)


def decode_secret(kind: CredentialKind, content: bytes) -> CredentialSecret:
    """Raises FieldError where the content is of another kind than the credential."""
    match kind:
        case CredentialKind.BEARER:
            fields = _value_fields(kind, content, set())
            return BearerSecret(token=Secret(fields.octets("value")))
        case CredentialKind.BASIC:
            fields = _value_fields(kind, content, {"username"})
            return BasicSecret(username=fields.text("username"), password=Secret(fields.octets("value")))
        case CredentialKind.HEADER:
            fields = _value_fields(kind, content, {"header", "template"})
            value = Secret(fields.octets("value"))
            return HeaderSecret(header=fields.text("header"), template=fields.text("template"), value=value)
        case CredentialKind.QUERY:
            fields = _value_fields(kind, content, {"parameter"})
            return QuerySecret(parameter=fields.text("parameter"), value=Secret(fields.octets("value")))
        case CredentialKind.COOKIE:
            fields = _value_fields(kind, content, {"cookie"})
            return CookieSecret(cookie=fields.text("cookie"), value=Secret(fields.octets("value")))
        case CredentialKind.SIGV4:
            return _aws_key(_value_fields(kind, content, {"access_key_id", "session_token", "region", "aws_service"}))
        case CredentialKind.SSH_KEY:
            fields = _value_fields(kind, content, {"certificate"})
            certificate = None if fields.absent("certificate") else fields.text("certificate")
            return SshKeySecret(private_key=Secret(fields.octets("value")), certificate=certificate)
        case CredentialKind.SSH_PASSWORD:
            fields = _value_fields(kind, content, set())
            return SshPasswordSecret(password=Secret(fields.octets("value")))


def _aws_key(fields: Fields) -> SigV4Secret:
    return SigV4Secret(
        access_key_id=fields.text("access_key_id"),
        secret_access_key=Secret(fields.octets("value")),
        session_token=None if fields.absent("session_token") else Secret(fields.octets("session_token")),
        region=None if fields.absent("region") else fields.text("region"),
        aws_service=None if fields.absent("aws_service") else fields.text("aws_service"),
    )


def _value_fields(kind: CredentialKind, content: bytes, besides: set[str]) -> Fields:
    fields = Fields.parse(content, {"kind", "value"} | besides)
    if fields.text("kind") != kind.value:
        raise FieldError("the value is of another kind than its credential")
    return fields


def _value_ref(value: JsonValue) -> ValueRef:
    fields = Fields.of(value, {"version", "record_id"})
    return ValueRef(version=fields.integer("version"), record_id=bytes.fromhex(fields.text("record_id")))
