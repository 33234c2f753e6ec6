"""Predicates over answers: JMESPath as data, compiled once, with its traps refused."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Predicate:
    text: str
