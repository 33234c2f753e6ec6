"""Credentials of SSH as values: a private key with its certificate, and a password. The bindings are as of the others.

A key is kept as it was brought into one form when it was added (broker/core/ssh/keyform.py): OpenSSH's, without a
passphrase. Sends nothing; messages never hold a value.
"""

from dataclasses import dataclass

from broker.core.secret import Secret


@dataclass(frozen=True, slots=True, kw_only=True)
class SshKeySecret:
    """A private key in OpenSSH's form, unencrypted. `certificate` is one line, as in a `-cert.pub` file."""

    private_key: Secret
    certificate: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SshPasswordSecret:
    """A login password; the user stands in the binding."""

    password: Secret
