"""From the bytes of policy files to one policy, or to every fault at once. All files load, or none does."""

import re
import tomllib
from collections.abc import Sequence
from dataclasses import replace

from broker.core.policy.faults import Fault
from broker.core.policy.model import Policy
from broker.core.policy.parse import parse_policy
from broker.core.policy.table import Document
from broker.policyfiles.files import PolicyError, PolicyFile, policy_digest
from broker.policyfiles.locate import locate

FAULTS_MAX = 200
MOST = {"rules": 256, "services": 64, "operations": 512, "agents": 64}  # in all files: what is checked grows with each
DOTS_MAX = 64  # in one line outside of strings: the parser's work grows with the square of a key's parts
_APART = re.compile(  # what ends nowhere ends with the text, so that no part of it is gone through twice
    r"""\"{3}(?:\\.|[^\\])*?(?:\"{3}|\Z)|'{3}.*?(?:'{3}|\Z)|"(?:\\.|[^"\\\n])*"?|'[^'\n]*'?|\#[^\n]*""", re.DOTALL
)
_TOLD_LINE = re.compile(r" \(at (?:line ([0-9]+), column [0-9]+|end of document)\)$")


def load_policy(files: Sequence[PolicyFile]) -> Policy:
    """The policy of all files together. Raises PolicyError with every fault."""
    faults: list[Fault] = []
    documents: list[Document] = []
    assets: dict[str, str] = {}
    for file in sorted(files, key=lambda file: file.name):
        if file.name in assets or any(document.name == file.name for document in documents):
            faults.append(_fault(file, 1, "two files have this name", "each name once"))
        elif file.name.endswith(".toml"):
            documents += document_of(file, faults)
        elif file.name.endswith(".pem"):
            assets[file.name] = _certificates(file, faults)
        elif file.name.endswith(".known_hosts"):
            assets[file.name] = _known_hosts(file, faults)
        else:
            faults.append(_fault(file, 1, "no file of a policy", "a name that ends in .toml, .pem or .known_hosts"))
    policy = parse_policy(documents, assets=assets, digest=policy_digest(files))
    faults += policy if isinstance(policy, tuple) else _too_many(policy, files)
    if faults or isinstance(policy, tuple):
        told = _bounded(sorted(set(faults)))
        raise PolicyError("\n".join(map(str, told)), told)
    return policy


def _too_many(policy: Policy, files: Sequence[PolicyFile]) -> list[Fault]:
    counts = {
        "rules": len(policy.rules),
        "services": len(policy.services),
        "operations": sum(
            len(service.operations if service.ssh is None else service.ssh.operations)
            for service in policy.services.values()
        ),
        "agents": len(policy.agents),
    }
    return [
        Fault(
            file=files[-1].name,
            line=1,
            key=key,
            problem=f"all files together hold {count}",
            expected=f"at most {MOST[key]}",
        )
        for key, count in counts.items()
        if count > MOST[key]
    ]


def _fault(file: PolicyFile, line: int, problem: str, expected: str = "") -> Fault:
    return Fault(file=file.name, line=line, key="the file", problem=problem, expected=expected)


def document_of(file: PolicyFile, faults: list[Fault]) -> list[Document]:
    """The parsed file, or none and a fault."""
    try:
        text = file.raw.decode("utf-8")
    except UnicodeDecodeError as cause:
        line = file.raw.count(b"\n", 0, cause.start) + 1
        faults.append(_fault(file, line, "not UTF-8", "text in UTF-8"))
        return []
    text = text.replace("\r\n", "\n")
    for line, bare in enumerate(_APART.sub(_line_ends, text).split("\n"), start=1):
        if bare.count(".") > DOTS_MAX:
            faults.append(_fault(file, line, "a key of too many parts", f"at most {DOTS_MAX} dots in a line"))
            return []
    try:
        values = tomllib.loads(text)
        return [Document(name=file.name, values=values, line_of=locate(text))]
    except tomllib.TOMLDecodeError as cause:
        told = _TOLD_LINE.search(str(cause))
        line = int(told[1]) if told and told[1] else text.count("\n") + 1
        faults.append(_fault(file, line, f"not TOML: {_TOLD_LINE.sub('', str(cause))}"))
    except ValueError:  # an integer beyond Python's conversion limit
        faults.append(_fault(file, 1, "a number is too long", "a policy"))
    except RecursionError:
        faults.append(_fault(file, 1, "nested too deeply", "a policy"))
    return []


def _line_ends(apart: re.Match[str]) -> str:
    return "\n" * apart[0].count("\n")


def _bounded(faults: list[Fault]) -> tuple[Fault, ...]:
    """So many as somebody may want to read."""
    if len(faults) <= FAULTS_MAX:
        return tuple(faults)
    last = faults[FAULTS_MAX]
    more = replace(last, key="the files", problem=f"{len(faults) - FAULTS_MAX} more faults, from here on", expected="")
    return (*faults[:FAULTS_MAX], more)


def _known_hosts(file: PolicyFile, faults: list[Fault]) -> str:
    """The text of a known_hosts file; its lines are looked at where a service names it."""
    try:
        return file.raw.decode("utf-8")
    except UnicodeDecodeError:
        faults.append(_fault(file, 1, "not UTF-8", "text in UTF-8"))
        return ""


def _certificates(file: PolicyFile, faults: list[Fault]) -> str:
    """The text of a CA file, looked into so that a broken one is told now and not at the first request."""
    from cryptography import x509  # noqa: PLC0415 - 40 ms of import that only policies with a CA of their own need

    try:
        text = file.raw.decode("ascii")
        if "PRIVATE KEY" in text:
            faults.append(_fault(file, 1, "it holds a private key", "certificates alone"))
        x509.load_pem_x509_certificates(file.raw)
    except ValueError:  # a UnicodeDecodeError is one, too
        faults.append(_fault(file, 1, "no certificate in it can be read", "certificates in PEM"))
        return ""
    return text
