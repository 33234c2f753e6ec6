"""HTTP through the daemon beside nginx as a reverse proxy and mitmdump, all before one upstream, in one run.

    .venv/bin/python tests/bench/bench_http.py [SECONDS]

The upstream is nginx over TLS. Each proxy adds the same header; the daemon also decides, scrubs, and records each
request durably. mitmproxy comes from the registry into an environment of its own, build/mitmproxy. On a shared machine
the ratios are what can be compared. The load is Python: what it measures of nginx is a lower bound.
"""

import json
import os
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.live.far_servers import certificates, free_port, nginx, started
from tests.live.house import ROOT, House, open_house

LOAD = Path(__file__).with_name("load.py")
MITMPROXY = ROOT / "build/mitmproxy"
TOKEN = "canary-token-of-a-bench-0123456789"
POLICY = """
version = 1
[[rules]]
id = "free"
approval = "none"
[services.up]
kind = "http"
base_url = "{origin}"
credential = "up"
ad_hoc = ["GET"]
tls = {{ ca = "ca.pem" }}
"""
UPSTREAM = """server {{ listen 127.0.0.1:{port} ssl; ssl_certificate {made}/server.pem;
 ssl_certificate_key {made}/server.key; keepalive_requests 1000000; root {root}; }}"""
PROXY = """upstream far {{ server 127.0.0.1:{far}; keepalive 64; keepalive_requests 1000000; }}
server {{ listen 127.0.0.1:{port} ; keepalive_requests 1000000; location / {{
 proxy_pass https://far; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host localhost:{far};
 proxy_set_header Authorization "Bearer {token}"; proxy_ssl_verify on; proxy_ssl_name localhost;
 proxy_ssl_trusted_certificate {made}/ca.pem; proxy_buffering off; }} }}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to the upstream: where to ask, what to send, and the processes that work for it."""

    name: str
    place: str
    pids: tuple[int, ...]
    is_broker: bool = False

    def request(self, path: str, *, framed: bool = False) -> bytes:
        if not self.is_broker:
            return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()
        body = json.dumps({"service": "up", "method": "GET", "path": path}).encode()
        target = "/v1/http/stream" if framed else "/v1/http"
        media = "content-type: application/json"
        head = f"POST {target} HTTP/1.1\r\nhost: d\r\n{media}\r\ncontent-length: {len(body)}\r\n\r\n"
        return head.encode() + body

    def cpu_s(self) -> float:
        ticks = 0
        for pid in self.pids:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()
            ticks += int(fields[11]) + int(fields[12])
        return ticks / os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    per_s: float
    p50_ms: float
    p99_ms: float
    cpu_us: float
    faults: int


def measured(way: Way, path: str, connections: int, seconds: float) -> Figure:
    before = way.cpu_s()
    told = subprocess.run(
        [sys.executable, str(LOAD), way.place, str(connections), str(seconds)],
        input=way.request(path, framed=path.endswith(".bin")),
        capture_output=True,
        check=True,
        timeout=seconds + 120,
    )
    seen = json.loads(told.stdout)
    cpu_us = (way.cpu_s() - before) * 1e6 / max(1, seen["answers"])
    return Figure(
        per_s=seen["per_s"], p50_ms=seen["p50_ms"], p99_ms=seen["p99_ms"], cpu_us=cpu_us, faults=seen["faults"]
    )


def direct_fresh_ms(port: int, ca: Path, *, rounds: int = 60) -> float:
    """The median of a call on a TLS connection of its own."""
    context = ssl.create_default_context(cafile=str(ca))
    took = []
    for _ in range(rounds):
        began = time.perf_counter()
        with (
            socket.create_connection(("127.0.0.1", port)) as plain,
            context.wrap_socket(plain, server_hostname="localhost") as link,
        ):
            link.sendall(b"GET /1k.json HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            while link.recv(65536):
                pass
        took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def sync_ms(directory: Path, *, rounds: int = 100) -> float:
    """The median of one fdatasync there."""
    took = []
    with (directory / "sync").open("wb") as file:
        for _ in range(rounds):
            file.write(b"x" * 512)
            file.flush()
            began = time.perf_counter()
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - began) * 1000)
    return statistics.median(took)


def children_of(pid: int) -> tuple[int, ...]:
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return (pid, *map(int, listed))


def mitmdump() -> Path:
    """The program, in an environment of its own that is made where it is missing."""
    program = MITMPROXY / "bin/mitmdump"
    if not program.exists():
        subprocess.run([sys.executable, "-m", "venv", str(MITMPROXY)], check=True)
        subprocess.run([str(MITMPROXY / "bin/python"), "-m", "pip", "install", "-q", "mitmproxy"], check=True)
    return program


@contextmanager
def ways(home: Path) -> Iterator[tuple[list[Way], House, int, Path]]:
    """The three proxies before one upstream."""
    made, root = certificates(home / "certificates"), home / "served"
    root.mkdir()
    (root / "1k.json").write_text(json.dumps({"items": ["x" * 30] * 28}).ljust(1024))
    (root / "1m.bin").write_bytes(os.urandom(1 << 20))
    (root / "100m.bin").write_bytes(os.urandom(1 << 20) * 100)
    far, near, mitm = free_port(), free_port(), free_port()
    with ExitStack() as stack:
        stack.enter_context(nginx(home / "far", UPSTREAM.format(port=far, made=made, root=root)))
        stack.enter_context(nginx(home / "near", PROXY.format(port=near, far=far, made=made, token=TOKEN)))
        (home / "mitm").mkdir()
        command = [
            str(mitmdump()), "-q", "--mode", f"reverse:https://localhost:{far}", "--listen-host", "127.0.0.1",
            "--listen-port", str(mitm), "--set", f"ssl_verify_upstream_trusted_ca={made}/ca.pem",
            "--set", f"confdir={home}/mitm", "--modify-headers", f"/~q/Authorization/Bearer {TOKEN}",
        ]  # fmt: skip
        stack.enter_context(started(command, port=mitm, home=home / "mitm"))
        house = stack.enter_context(open_house(home / "h"))
        origin = f"https://localhost:{far}"
        house.human.add_bearer("up", TOKEN, origin)
        house.places.policies.mkdir(parents=True, exist_ok=True, mode=0o700)
        (house.places.policies / "ca.pem").write_bytes((made / "ca.pem").read_bytes())
        (house.places.policies / "ca.pem").chmod(0o600)
        house.human.write_policy("up.toml", POLICY.format(origin=origin))
        house.human.trust()
        assert house.process is not None
        near_pid = int((home / "near/nginx.pid").read_text())
        yield (
            [
                Way(name="nginx", place=f"tcp:{near}", pids=children_of(near_pid)),
                Way(name="mitmdump", place=f"tcp:{mitm}", pids=(pid_on(mitm),)),
                Way(
                    name="doorward",
                    place=f"unix:{house.places.agent_socket}",
                    pids=(house.process.pid,),
                    is_broker=True,
                ),
            ],
            house,
            far,
            made / "ca.pem",
        )


def pid_on(port: int) -> int:
    """The process that was started with this port among its words."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if str(port).encode() in words and any(word.endswith(b"mitmdump") for word in words):
                return int(entry.name)
    raise AssertionError("no process listens there")


CASES = (("/1k.json", 1), ("/1k.json", 16), ("/1k.json", 64), ("/1m.bin", 16))


def measure(seconds: float) -> tuple[dict[tuple[str, int, str], Figure], dict[str, float]]:
    figures: dict[tuple[str, int, str], Figure] = {}
    with tempfile.TemporaryDirectory(prefix="dwb") as place, ways(Path(place)) as (all_ways, house, far, ca):
        beside = {"fresh_ms": direct_fresh_ms(far, ca), "sync_ms": sync_ms(Path(place))}
        for way in all_ways:
            measured(way, "/1k.json", 4, 0.5)
        for path, connections in CASES:
            for way in all_ways:
                figures[path, connections, way.name] = measured(way, path, connections, seconds)
        for way in all_ways:
            beside[f"large_ms {way.name}"] = measured(way, "/100m.bin", 1, 0.1).p50_ms
        beside["fresh_again_ms"] = direct_fresh_ms(far, ca)
        del house
    return figures, beside


def report(figures: dict[tuple[str, int, str], Figure], beside: dict[str, float]) -> list[str]:
    lines = [
        f"{path} c={connections:<3} {name:9} {one.per_s:8.0f}/s  p50 {one.p50_ms:7.2f} ms  p99 {one.p99_ms:7.2f} ms"
        f"  cpu {one.cpu_us:6.0f} us" + (f"  FAULTS {one.faults}" if one.faults else "")
        for (path, connections, name), one in figures.items()
    ]
    lines += [f"{name}: {value:.2f}" for name, value in beside.items()]
    ours, plain, mitm = (
        {key[:2]: one for key, one in figures.items() if key[2] == name} for name in ("doorward", "nginx", "mitmdump")
    )
    one, sixteen, sixty, large = (CASES[at] for at in range(4))
    fresh_ms = min(beside["fresh_ms"], beside["fresh_again_ms"])
    allowed_ms = 4 * plain[one].p50_ms + 2 * beside["sync_ms"]
    goals = [
        ("c=1 p50 by that of a fresh TLS call", ours[one].p50_ms / fresh_ms, 1.1, "<="),
        ("c=1 p50 by 4 nginx + 2 fdatasync", ours[one].p50_ms / allowed_ms, 1.0, "<="),
        ("c=16 throughput by mitmdump's", ours[sixteen].per_s / mitm[sixteen].per_s, 5.0, ">="),
        ("c=64 throughput by mitmdump's", ours[sixty].per_s / mitm[sixty].per_s, 6.5, ">="),
        ("c=64 CPU by nginx's", ours[sixty].cpu_us / max(1.0, plain[sixty].cpu_us), 7.0, "<="),
        ("1 MiB c=16 throughput by nginx's", ours[large].per_s / plain[large].per_s, 0.85, ">="),
        ("100 MiB time by nginx's", beside["large_ms doorward"] / beside["large_ms nginx"], 2.0, "<="),
    ]
    for name, found, goal, sense in goals:
        met = found <= goal if sense == "<=" else found >= goal
        lines.append(f"{'met    ' if met else 'NOT MET'} {name}: {found:.2f} (goal {sense} {goal})")
    return lines


def test_http_beside_nginx_and_mitmdump() -> None:
    print("\n" + "\n".join(report(*measure(2.0))))


if __name__ == "__main__":
    print("\n".join(report(*measure(float(sys.argv[1]) if len(sys.argv) > 1 else 4.0))))
