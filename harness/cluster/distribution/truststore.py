"""Creates a trust store for a Java that does not use the system's certificates.

The Java of a Linux distribution trusts the same certificates as the system. The Java from PyPI has its own list, which
lacks the certificate authorities that an organisation has added to its machines. This module gives the Java from PyPI
a trust store with the certificates that OpenSSL trusts.
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

_PASSWORD: Final = "changeit"  # Java's default: a trust store contains no secrets
_END: Final = b"-----END CERTIFICATE-----"


def options(java: Java, folder: Path) -> list[str]:
    """Returns JVM options that make `java` trust the system's certificates; no options if `java` does so already."""
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
    """Returns the certificates of a PEM bundle; skips those that cannot be parsed."""
    found = []
    for part in bundle.split(_END)[:-1]:
        begin = part.find(b"-----BEGIN CERTIFICATE-----")
        if begin < 0:
            continue
        with contextlib.suppress(ValueError), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about invalid serial numbers, which we cannot fix
            found.append(x509.load_pem_x509_certificate(part[begin:] + _END))
    return found
