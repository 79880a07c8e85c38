"""Keys and certificates by which Flower's server and nodes know each other."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import NameOID

VALID = timedelta(days=730)


def node_keys() -> tuple[bytes, str]:
    """A new private key of a SuperNode, and its public one, as Flower reads them."""
    node = ec.generate_private_key(ec.SECP384R1())
    public = node.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    private = node.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption())
    return private, public.decode("ascii")


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
            .add_extension(_usage(is_root), critical=True)
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


def _usage(is_root: bool) -> x509.KeyUsage:
    """An authority signs certificates, a server signs in the handshake: strict checks want both."""
    return x509.KeyUsage(
        digital_signature=not is_root, key_cert_sign=is_root, content_commitment=False,
        key_encipherment=False, data_encipherment=False, key_agreement=False, crl_sign=False,
        encipher_only=False, decipher_only=False,
    )  # fmt: skip


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)
