"""Policies from TOML text, and callers by name, for tests."""

from broker.core.identity import UNIDENTIFIED, Caller, PeerFacts, ProcessFacts, identify
from broker.core.policy.model import AgentProgram, Policy
from broker.policyfiles.files import PolicyError, PolicyFile
from broker.policyfiles.load import load_policy

SHOP = """
version = 1

[services.shop]
kind = "http"
base_url = "https://api.shop.example/v1"
credential = "shop"
headers = { accept = "application/json", x-version = "7" }
ad_hoc = ["GET", "POST"]

[services.shop.operations."orders.list"]
request = { method = "GET", path = "/orders", query = ["state", "tag", "page"] }
effect = "read"

[services.shop.operations."orders.get"]
request = { method = "GET", path = "/orders/{order_id}" }
effect = "read"

[services.shop.operations."orders.newest"]
request = { method = "GET", path = "/orders/newest" }
effect = "read"

[services.shop.operations."orders.create"]
effect = "write"
change_key = ["shop", "name"]

[services.shop.operations."orders.create".request]
method = "POST"
path = "/shops/{shop}/{branch}/orders"
body = ["name", "items", "note"]
required = ["name"]

[services.shop.operations."orders.cancel"]
request = { method = "DELETE", path = "/shops/{shop}/{branch}/orders/{order_id}" }
effect = "write"
destructive = true

[services.shop.operations."files.put"]
request = { method = "PUT", path = "/files/{path...}", body = "object" }
effect = "write"
title = "{path}"
targets = ["path", "meta.id"]

[services.shop.operations."jobs.run"]
request = { method = "POST", path = "/jobs/", query = ["dry"] }
effect = "exec"
"""


def policy_of(*texts: str) -> Policy:
    """The policy of files with these texts; a text without a version line gets one."""
    return load_policy(files_of(*texts))


def files_of(*texts: str) -> list[PolicyFile]:
    whole = (text if "version = 1" in text else f"version = 1\n{text}" for text in texts)
    return [PolicyFile(name=f"p{number}.toml", raw=text.encode()) for number, text in enumerate(whole)]


def faults_of(*texts: str) -> list[str]:
    """The faults with which the texts are refused, as lines; none where they load."""
    try:
        policy_of(*texts)
    except PolicyError as cause:
        return [str(fault) for fault in cause.faults]
    return []


def caller_named(agent: str = UNIDENTIFIED, *, pid: int = 4711) -> Caller:
    process = ProcessFacts(
        pid=pid, start_ticks=1, inode=1, uid=1000, exe="/opt/agent", exe_id=(1, 1), argv=("agent",), cwd="/"
    )
    peer = PeerFacts(process=process, ancestors=(), boot_id="boot")
    named = {} if agent == UNIDENTIFIED else {agent: AgentProgram(name=agent, exe="/opt/agent")}
    return identify(peer, agents=named, holders={})
