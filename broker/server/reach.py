"""What some rule could open to an agent, by service, as GET /v1/services lists it."""

from broker.contract.wire import JsonValue
from broker.core.policy.overview import Opening


def by_service(openings: tuple[Opening, ...]) -> list[JsonValue]:
    """Declared operations one by one, what needs none as a list; of SSH the hosts as well."""
    services: dict[str, list[Opening]] = {}
    for opening in openings:
        services.setdefault(opening.service, []).append(opening)
    return [
        _ssh(name, listed) if any(opening.host is not None for opening in listed) else _http(name, listed)
        for name, listed in services.items()
    ]


def _http(name: str, openings: list[Opening]) -> JsonValue:
    operations: list[JsonValue] = []
    for opening in openings:
        if opening.declared is not None:
            told = opening.to_json()
            del told["service"]
            operations.append(told)
    ad_hoc: list[JsonValue] = [opening.method for opening in openings if opening.declared is None]
    return {"service": name, "kind": "http", "operations": operations, "ad_hoc": ad_hoc}


def _ssh(name: str, openings: list[Opening]) -> JsonValue:
    operations: dict[tuple[str, str], dict[str, JsonValue]] = {}
    reached: dict[tuple[str, str], list[JsonValue]] = {}
    hosts: dict[str, dict[str, JsonValue]] = {}
    free: dict[str, list[JsonValue]] = {}
    for opening in openings:
        if opening.host is None:
            continue
        host = opening.host.name
        hosts.setdefault(host, {"host": host, "user": opening.host.user})
        free.setdefault(host, [])
        if opening.command is None:
            free[host].append(opening.operation)
            continue
        key = (opening.operation, opening.gate.value)
        if key not in operations:
            operations[key] = opening.to_json()
            del operations[key]["service"]
        reached.setdefault(key, []).append(host)
    return {
        "service": name,
        "kind": "ssh",
        "hosts": [{**host, "ad_hoc": free[key]} for key, host in hosts.items()],
        "operations": [{**told, "hosts": reached[key]} for key, told in operations.items()],
        "ad_hoc": sorted({str(action) for actions in free.values() for action in actions}),
    }
