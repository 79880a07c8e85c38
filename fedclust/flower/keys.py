"""Keys of the parties, and the one exchange in which they tell each other the public ones.

A study begins as a draft without keys. Each client makes two key pairs for it: one of X25519, by
which clients share secrets, and one by which the server knows its SuperNode. The public halves
stand on a `Card`, which it sends to the first client of the study. That one draws the group secret,
seals it for each client, and sends back the complete study. So one file goes round twice, and no
secret leaves the machine that made it but sealed.

Whoever carries cards could put keys of their own in their place; then clients have different
studies, hence different agreements. Nothing of this is safe until people have compared these.
"""

from __future__ import annotations

import ipaddress
import json
import secrets
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

from fedclust.flower.agreement import draft_of
from fedclust.flower.study import RINGS, Study
from fedclust_helpers._private import private
from fedclust_helpers.secure_aggregation import SECRET_BYTES, pair_secret, public_key

ROOM_KEY, NODE_KEY = "room.key", "node.key"
NONCE = 12  # bytes before what is sealed
VALID = timedelta(days=730)


@dataclass(frozen=True)
class Card:
    """Public keys of one client, made for the draft with the digest `study`."""

    client: str
    study: str
    public_key: str
    node_key: str


def make_keys(folder: Path, study: Study, client: str) -> Card:
    """New private keys in `folder`, for this account alone, and the card that goes with them.

    FileExistsError where there are keys already: a card of them may have been sent.
    """
    key = secrets.token_bytes(SECRET_BYTES)
    node = ec.generate_private_key(ec.SECP384R1())
    written = {
        ROOM_KEY: key,
        NODE_KEY: node.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()),
    }
    for name, content in written.items():
        with open(folder / name, "xb", opener=private) as file:
            file.write(content)
    public = node.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    return Card(client, draft_of(study).hex(), public_key(key).hex(), public.decode("ascii"))


def write_card(path: Path, card: Card) -> None:
    """The card as a file: nothing of it is secret."""
    path.write_text(json.dumps(asdict(card), indent=1) + "\n", encoding="utf-8")


def read_card(path: Path) -> Card:
    """The card of a file; ValueError names the file."""
    try:
        return Card(**json.loads(path.read_text(encoding="utf-8-sig")))
    except (ValueError, TypeError):
        raise ValueError(f"{path.name} is no card, or was cut short: ask for it again") from None


def complete(study: Study, cards: Sequence[Card], key: bytes) -> Study:
    """The study with all keys; what the first client does, whose private `key` it is.

    `cards` are those of all clients, in order. ValueError for one that was made for another draft.
    """
    for name, card in zip(study.clients or (), cards, strict=True):
        if (card.client, card.study) != (name, draft_of(study).hex()):
            raise ValueError(
                f"the card of {name} was made for another study file than this one: send {name}"
                " this one, and ask for a new card"
            )
    keys = [card.public_key for card in cards]
    named = replace(study, public_keys=keys, node_keys=[card.node_key for card in cards])
    if study.trust not in RINGS:
        return named
    secret, sealed = secrets.token_bytes(SECRET_BYTES), []
    for number, public in enumerate(keys):
        box = ChaCha20Poly1305(pair_secret(key, bytes.fromhex(public)))
        nonce = secrets.token_bytes(NONCE)
        sealed.append((nonce + box.encrypt(nonce, secret, _context(named, number))).hex())
    return replace(named, sealed=sealed)


def group_secret(study: Study, number: int, key: bytes) -> bytes | None:
    """The group secret, as client `number` with the private `key` opens it; None without one.

    ValueError for a key that is not the one of this client's card, or a seal that was changed.
    """
    if study.trust not in RINGS:
        return None
    if study.sealed is None or study.public_keys is None:
        raise ValueError("sealed must be given: this study is a draft, without its clients' keys")
    if public_key(key).hex() != study.public_keys[number]:
        raise ValueError(f"{ROOM_KEY} is not the key of public_keys[{number}] of the study")
    sealed = bytes.fromhex(study.sealed[number])
    box = ChaCha20Poly1305(pair_secret(key, bytes.fromhex(study.public_keys[0])))
    try:
        return box.decrypt(sealed[:NONCE], sealed[NONCE:], _context(study, number))
    except InvalidTag:
        raise ValueError(
            "the sealed group secret does not open: the study, or its keys, were changed after it"
            " was sealed; ask the first client for its study file"
        ) from None


def _context(study: Study, number: int) -> bytes:
    """What a seal belongs to: the draft, all public keys, and the client it is for."""
    return draft_of(study) + "".join(study.public_keys or ()).encode() + number.to_bytes(2, "big")


def certificates(host: str, now: datetime | None = None) -> dict[str, bytes]:
    """An authority, and a certificate and key of the server `host`, as PEM by file name.

    The authority's key is thrown away. Both are valid from yesterday on, for clocks that are slow.
    """
    start = (now or datetime.now(UTC)) - timedelta(days=1)
    root, own = (ec.generate_private_key(ec.SECP384R1()) for _ in range(2))
    authority = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "fedclust study")])
    server = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])

    def signed(subject: x509.Name, key: ec.EllipticCurvePublicKey, is_root: bool) -> bytes:
        names = dict.fromkeys([_name(host), x509.DNSName("localhost"), _name("127.0.0.1")])
        issuer = x509.AuthorityKeyIdentifier.from_issuer_public_key(root.public_key())
        extension: x509.ExtensionType = (
            x509.BasicConstraints(True, 0) if is_root else x509.SubjectAlternativeName([*names])
        )
        made = (
            x509.CertificateBuilder(authority, subject, key, x509.random_serial_number())
            .not_valid_before(start)
            .not_valid_after(start + VALID)
            .add_extension(extension, critical=is_root)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(issuer, critical=False)
        )
        return made.sign(root, SHA384()).public_bytes(Encoding.PEM)

    return {
        "ca.crt": signed(authority, root.public_key(), True),
        "server.crt": signed(server, own.public_key(), False),
        "server.key": own.private_bytes(
            Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption()
        ),
    }


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)
