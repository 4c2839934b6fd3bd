"""Certificates of a test's own making: an authority, and what it signs, as PEM files."""

from __future__ import annotations

import datetime as dt
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

DAY = dt.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs certificates; `file` is its own."""

    file: Path
    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def make(folder: Path, name: str = "authority") -> Authority:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _name(name)
        certificate = (
            _builder(subject, subject, key, days=30)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(_usage(signs=True), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
            .sign(key, hashes.SHA256())
        )
        file = folder / f"{name}.pem"
        file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return Authority(file, certificate, key)

    def sign(self, name: str, *, days: int = 30, host: str = "127.0.0.1", password: str | None = None) -> Path:
        """-> one file with a new private key, its certificate, and ours."""
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName("localhost")]
        names.append(x509.IPAddress(ipaddress.ip_address(host)) if host[0].isdigit() else x509.DNSName(host))
        certificate = (
            _builder(_name(name), self.certificate.subject, key, days)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(signs=False), critical=True)
            .add_extension(self._identifier(), critical=False)  # Python 3.13 asks for it
            .sign(self.key, hashes.SHA256())
        )
        lock = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
        pem = serialization.Encoding.PEM
        file = self.file.with_name(f"{name}.pem")
        file.write_bytes(
            key.private_bytes(pem, serialization.PrivateFormat.PKCS8, lock)
            + certificate.public_bytes(pem)
            + self.certificate.public_bytes(pem)
        )
        return file

    def _identifier(self) -> x509.AuthorityKeyIdentifier:
        return x509.AuthorityKeyIdentifier.from_issuer_public_key(self.key.public_key())


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - DAY)
        .not_valid_after(now + days * DAY)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )
