"""Certificates for a Java that does not know the system's.

A Java of the distribution trusts what the system trusts. The one from PyPI brings a list of its own, which
lacks the authorities that an organisation has added to its machines: it is handed what OpenSSL trusts as a
trust store.
"""

from __future__ import annotations

import contextlib
import ssl
import sys
import warnings
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, pkcs12

from harness.cluster.distribution.java import Java

_PASSWORD: Final = "changeit"  # Java's customary one: a trust store holds nothing secret
_END: Final = b"-----END CERTIFICATE-----"


def options(java: Java, folder: Path) -> list[str]:
    """JVM options that make `java` trust what this system trusts; none for a Java of the system."""
    bundle = ssl.get_default_verify_paths().cafile
    if bundle is None or not Path(java.path).is_relative_to(sys.prefix):
        return []
    certificates = _certificates(Path(bundle).read_bytes())
    if not certificates:
        return []
    store = folder / "trust.p12"
    entries = [pkcs12.PKCS12Certificate(found, str(n).encode()) for n, found in enumerate(certificates)]
    store.write_bytes(pkcs12.serialize_java_truststore(entries, BestAvailableEncryption(_PASSWORD.encode())))
    return [
        f"-Djavax.net.ssl.trustStore={store}",
        "-Djavax.net.ssl.trustStoreType=PKCS12",
        f"-Djavax.net.ssl.trustStorePassword={_PASSWORD}",
    ]


def _certificates(bundle: bytes) -> list[x509.Certificate]:
    """Those of a PEM bundle that can be read; one odd certificate must not lose the others."""
    found = []
    for part in bundle.split(_END)[:-1]:
        begin = part.find(b"-----BEGIN CERTIFICATE-----")
        if begin < 0:
            continue
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about serial numbers, which are not ours to mend
            found.append(x509.load_pem_x509_certificate(part[begin:] + _END))
    return found
