"""Certificates of an authority that lives for one test."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def certificates(folder: Path) -> dict[str, str]:
    """An authority and one certificate that it has signed; the files' paths as Dask's settings name them."""
    now = dt.datetime.now(dt.UTC)

    def make(
        name: str, issuer: x509.Name | None, signer: ec.EllipticCurvePrivateKey | None
    ) -> tuple[x509.Name, ec.EllipticCurvePrivateKey]:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
        certificate = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(issuer or subject)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(hours=1))
            .not_valid_after(now + dt.timedelta(hours=1))
            .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
            .sign(signer or key, hashes.SHA256())
        )
        (folder / f"{name}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        (folder / f"{name}.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            )
        )
        return subject, key

    make("member", *make("authority", None, None))
    paths = {"ca-file": str(folder / "authority.pem")}
    for role in ("scheduler", "worker", "client"):
        paths |= {f"{role}.cert": str(folder / "member.pem"), f"{role}.key": str(folder / "member.key")}
    return paths
