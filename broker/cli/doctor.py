"""`doorward doctor`: look at the installation and say what to mend. Changes nothing; works with and without a daemon.

A fault (`x`) makes the exit code 1. A warning (`!`) names what a program of the same user could do, or what is missing.
"""

import os

from broker.cli.arguments import human_parser
from broker.cli.doctor_finding import Finding, Level
from broker.cli.doctor_machine import machine
from broker.cli.doctor_state import state
from broker.cli.output import show
from broker.cli.reach import places
from broker.client.card_words import counted
from broker.client.hardening import harden
from broker.contract.exits import FAULTS_FOUND
from broker.contract.neutralise import visible


def run(noun: str, arguments: list[str]) -> int:
    hardened = harden()
    options = human_parser(f"doorward {noun}", "Check the installation.").parse_args(arguments)
    where = places()
    findings = [*state(where), *machine(os.environ, hardened=hardened)]
    faults = sum(finding.level is Level.FAULT for finding in findings)
    warnings = sum(finding.level is Level.WARNING for finding in findings)
    lines = [line for finding in findings for line in _lines(finding)]
    in_order = len(findings) - faults - warnings
    lines.append(f"{counted(faults, 'fault')}, {counted(warnings, 'warning')}, {in_order} in order")
    show({"findings": [finding.to_json() for finding in findings]}, lines, as_json=options.json)
    return FAULTS_FOUND if faults else 0


def _lines(finding: Finding) -> list[str]:
    sign = {Level.OK: "+", Level.WARNING: "!", Level.FAULT: "x"}[finding.level]
    head = f"{sign} {finding.check:<14} {visible(finding.message)}"
    return [head, f"{'':<17}mend: {visible(finding.mend)}"] if finding.mend else [head]
