"""Unlock methods: how each wraps the vault key, and what has to be given for it.

A wrap's parameters stand in clear beside it and are bound into it: the key derivation of the passphrase, and a name of
the share that tells one share from another and nothing of its bytes. With `passphrase+keyring` the wrapping key is made
of both: who has the file and one of the two has nothing to try a guess on.
"""

import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from broker.contract.kdf import KdfError, KdfParams
from broker.contract.unlock_methods import UnlockMethod
from broker.contract.wire import JsonObject, WireError, canonical, parse_json
from broker.core.secret import Secret
from broker.vault.faults import Fault, VaultError
from broker.vault.sealed import KEY_BYTES, SealBroken, VaultKey
from broker.vault.store import Head, Wrap

SHARE_BYTES = 32
_WRAP = b"doorward/vault/wrap/v1\0"
_SHARE_NAME = b"doorward/vault/share-name/v1\0"
_KEYRING = b"doorward/vault/keyring-kek/v1"
_BOTH = b"doorward/vault/passphrase+keyring-kek/v1"


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Given:
    """What somebody who wants the vault open has: the key made of the passphrase, the keyring's share, or both."""

    kek: Secret | None = None
    share: Secret | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spelled:
    """The parameters of a wrap."""

    method: UnlockMethod
    kdf: KdfParams
    share: str | None


def new_share() -> Secret:
    return Secret(os.urandom(SHARE_BYTES))


def share_name(share: Secret) -> str:
    """Tells shares apart. The share has 256 random bits: its digest is of no help to anybody."""
    return hashlib.sha256(_SHARE_NAME + share.reveal()).hexdigest()[:16]


def wrapped(method: UnlockMethod, key: VaultKey, given: Given, kdf: KdfParams, *, log_id: str) -> Wrap:
    """Raises VaultError where the method needs something that was not given."""
    kek = _wrapping_key(method, given)
    if kek is None:
        raise VaultError(Fault.INVALID, f"the method {method.value} needs more than was given")
    params = _params(method, given, kdf)
    return Wrap(method=method.value, params=params, sealed=key.wrapped(kek, _place(method.value, params, log_id)))


def spelled(wraps: Sequence[Wrap]) -> tuple[Spelled, ...]:
    """The methods that this version knows. Raises VaultError where there is none, or one is not acceptable."""
    try:
        found = tuple(_spelled(wrap) for wrap in wraps if wrap.method in set(UnlockMethod))
    except (KdfError, WireError) as cause:
        raise VaultError(Fault.NOT_A_VAULT, f"the vault's key derivation is not acceptable: {cause}") from cause
    if not found:
        raise VaultError(Fault.NOT_A_VAULT, "the vault has no unlock method that this version knows; restore a backup")
    if len({item.kdf for item in found}) > 1:
        raise VaultError(Fault.NOT_A_VAULT, "the vault's unlock methods name different key derivations")
    return found


def unwrapped(wraps: Sequence[Wrap], given: Given, head: Head) -> VaultKey:
    """The vault key, by whichever method fits what was given. Raises SealBroken where what was given is wrong.

    Raises VaultError where it is not wrong but too little: no share, or the share of another vault.
    """
    tried, known = False, spelled(wraps)
    for item in _to_try(known, given):
        kek = _wrapping_key(item.method, given)
        if kek is None or not _is_share(item, given):
            continue
        tried = True
        wrap = next(wrap for wrap in wraps if wrap.method == item.method)
        try:
            return VaultKey.unwrapped(head.aead, kek, wrap.sealed, _place(wrap.method, wrap.params, head.log_id))
        except SealBroken:
            continue
    if tried:
        raise SealBroken
    raise _too_little(known, given)


def wants_share(methods: Iterable[UnlockMethod], *, with_passphrase: bool) -> bool:
    """Whether the keyring has to be asked: not where the passphrase alone opens the vault."""
    known = set(methods)
    if with_passphrase and UnlockMethod.PASSPHRASE in known:
        return False
    return any(method.takes_share for method in known)


def _to_try(known: Sequence[Spelled], given: Given) -> Sequence[Spelled]:
    """A passphrase that was given has to be right, also where the keyring's share alone would do."""
    strict = [item for item in known if item.method.takes_passphrase]
    return strict if strict and given.kek is not None else known


def _too_little(known: Sequence[Spelled], given: Given) -> VaultError:
    if given.share is not None and not any(_is_share(item, given) for item in known if item.share is not None):
        return VaultError(Fault.SHARE_MISSING, "the keyring holds the key share of another vault, not of this one")
    if given.kek is None and any(item.method.takes_passphrase for item in known):
        return VaultError(Fault.INVALID, "this vault is opened with the passphrase")
    return VaultError(Fault.SHARE_MISSING, "this vault's key share is not in the keyring of this session")


def _is_share(item: Spelled, given: Given) -> bool:
    return item.share is None or (given.share is not None and share_name(given.share) == item.share)


def _wrapping_key(method: UnlockMethod, given: Given) -> Secret | None:
    """None where too little was given."""
    kek, share = given.kek, given.share
    match method:
        case UnlockMethod.PASSPHRASE:
            return kek
        case UnlockMethod.KEYRING:
            return None if share is None else _derived(share.reveal(), _KEYRING)
        case UnlockMethod.BOTH:
            return None if kek is None or share is None else _derived(kek.reveal() + share.reveal(), _BOTH)


def _derived(material: bytes, info: bytes) -> Secret:
    return Secret(HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=info).derive(material))


def _params(method: UnlockMethod, given: Given, kdf: KdfParams) -> bytes:
    if not method.takes_share or given.share is None:
        return canonical(kdf.to_json())
    return canonical({"kdf": kdf.to_json(), "share": share_name(given.share)})


def _spelled(wrap: Wrap) -> Spelled:
    method, values = UnlockMethod(wrap.method), parse_json(wrap.params)
    if not method.takes_share:
        return Spelled(method=method, kdf=KdfParams.from_json(values), share=None)
    if not isinstance(values, dict) or values.keys() != {"kdf", "share"}:
        raise WireError("an unlock method with a share has its key derivation and the share's name")
    return Spelled(method=method, kdf=KdfParams.from_json(values["kdf"]), share=_name(values))


def _name(values: JsonObject) -> str:
    share = values["share"]
    if not isinstance(share, str):
        raise WireError("the share's name is no text")
    return share


def _place(method: str, params: bytes, log_id: str) -> bytes:
    return _WRAP + canonical({"method": method, "params": params.hex(), "log_id": log_id})
