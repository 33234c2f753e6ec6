"""Services, frozen requests and permits for tests of the HTTP executor and the classification."""

from collections.abc import Mapping
from dataclasses import replace

from broker.contract.reasons import Effect, VaultState
from broker.contract.result import GateReport
from broker.contract.wire import JsonValue
from broker.core.credential import BearerSecret, CredentialSecret
from broker.core.frozen import Deadlines, FrozenRequest
from broker.core.gate import Permit, Standing, recheck
from broker.core.policy.model import Operation, Service, Tls
from broker.core.policy.place import Place
from broker.core.secret import Secret

HERE = Place(file="test.toml", line=1)
CANARY = "canary-bearer-0123456789abcdef"
QUICK = Deadlines(connect_s=0.4, write_s=0.4, first_byte_s=0.4, total_s=1.5)


class OneSecret:
    """A SecretStore with one credential, which counts how often it was asked."""

    def __init__(self, secret: CredentialSecret | None = None) -> None:
        self.secret = secret or BearerSecret(token=Secret(CANARY))
        self.asked: list[tuple[str, int]] = []

    def secret_of(self, name: str, version: int) -> CredentialSecret:
        self.asked.append((name, version))
        return self.secret


def http(permit: Permit) -> FrozenRequest:
    """What a permit for HTTP allows."""
    assert isinstance(permit.frozen, FrozenRequest)
    return permit.frozen


def operation(name: str = "things.get", *, method: str = "GET", effect: Effect = Effect.READ) -> Operation:
    return Operation(name=name, method=method, path="/things", effect=effect, place=HERE)


def frozen(
    *,
    method: str = "GET",
    scheme: str = "https",
    host: str = "api.example.com",
    port: int = 443,
    path: str = "/things",
    query: str = "",
    headers: tuple[tuple[str, str], ...] = (),
    body: bytes = b"",
    credential: str | None = "api",
    declared: Operation | None = None,
    name: str | None = None,
    effect: Effect | None = None,
    tls: Tls | None = None,
    deadlines: Deadlines = QUICK,
    args: Mapping[str, JsonValue] | None = None,
) -> FrozenRequest:
    authority = f"[{host}]" if ":" in host else host
    base_url = f"{scheme}://{authority}" + ("" if port == {"https": 443, "http": 80}[scheme] else f":{port}")
    service = Service(
        name="api",
        base_url=base_url,
        scheme=scheme,
        host=host,
        port=port,
        base_path="",
        credential=credential,
        tls=tls or Tls(),
        place=HERE,
    )
    known = effect or (declared.effect if declared else Effect.READ if method in {"GET", "HEAD"} else Effect.WRITE)
    return FrozenRequest(
        service=service,
        operation=name or (f"api.{declared.name}" if declared else f"api.{method}"),
        declared=declared,
        method=method,
        url=f"{base_url}{path}" + (f"?{query}" if query else ""),
        host=host,
        port=port,
        path=path,
        query=query,
        headers=headers,
        body=body,
        effect=known,
        destructive=False,
        args=args or {},
        deadlines=deadlines,
    )


def loopback(
    port: int,
    *,
    method: str = "POST",
    path: str = "/things",
    body: bytes = b"",
    credential: str | None = "api",
    declared: Operation | None = None,
    deadlines: Deadlines = QUICK,
    version: int = 1,
) -> Permit:
    """A permit for a plain server on this machine."""
    request = frozen(
        method=method,
        scheme="http",
        host="127.0.0.1",
        port=port,
        path=path,
        body=body,
        credential=credential,
        declared=declared,
        deadlines=deadlines,
    )
    return permit(request, version=version)


def over_tls(
    port: int,
    ca_pem: str | None,
    *,
    method: str = "POST",
    host: str = "localhost",
    body: bytes = b"",
    pin: str | None = None,
    deadlines: Deadlines = QUICK,
    version: int = 1,
) -> Permit:
    """A permit for a TLS server on this machine."""
    request = frozen(
        method=method, host=host, port=port, body=body, tls=Tls(ca_pem=ca_pem, pin=pin), deadlines=deadlines
    )
    return permit(request, version=version)


def permit(request: FrozenRequest, *, version: int | None = 1) -> Permit:
    """A permit as the gate makes it."""
    standing = Standing(
        vault=VaultState.READY,
        vault_term=1,
        policy_digest="sha256:0",
        credential_version=version if request.service.credential else None,
        session_alive=True,
        frozen_daemon=False,
        request_digest=request.digest,
    )
    ruling = recheck(asked=standing, now=replace(standing), frozen=request, correlation_id="op_1", gate=GateReport())
    assert isinstance(ruling, Permit)
    return ruling
