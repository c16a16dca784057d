"""A broker with TLS, passwords and ACLs, as in a managed cluster, and the files that clients need."""

from __future__ import annotations

import datetime
import ipaddress
import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from harness.cluster.distribution import broker_config, jars, java
from harness.cluster.external import find
from harness.cluster.local import storage_format
from harness.cluster.local.ports import Ports
from harness.model.errors_and_exit_codes import HarnessError

PASSWORD = "Pa55-not-to-be-found"
OTHER_PASSWORD = "0ther-not-to-be-found"
ONE = (  # there is a single broker
    "offsets.topic.replication.factor",
    "offsets.topic.num.partitions",
    "transaction.state.log.replication.factor",
    "transaction.state.log.min.isr",
    "transaction.state.log.num.partitions",
)


@dataclass(frozen=True)
class Secured:
    """bootstrap; ca: PEM file of the certificate authority. Users: `alice` is unrestricted, `bob` may only read."""

    bootstrap: str
    ca: Path


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def certificates(folder: Path) -> tuple[Path, str, str]:
    """(file of the certificate authority, server key, certificate chain), in PEM."""
    now = datetime.datetime.now(datetime.UTC)
    ca_key, key = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())

    def signed(subject: str, public: ec.EllipticCurvePublicKey, extension: x509.ExtensionType) -> bytes:
        made = (
            x509.CertificateBuilder()
            .subject_name(_name(subject))
            .issuer_name(_name("authority"))
            .public_key(public)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - datetime.timedelta(hours=1))
            .not_valid_after(now + datetime.timedelta(days=1))
            .add_extension(extension, critical=False)
            .sign(ca_key, hashes.SHA256())
        )
        return made.public_bytes(serialization.Encoding.PEM)

    here = x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))])
    ca = folder / "ca.pem"
    ca.write_bytes(signed("authority", ca_key.public_key(), x509.BasicConstraints(True, None)))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return ca, pem.decode(), signed("server", key.public_key(), here).decode()


def _settings(folder: Path, key: str, chain: str, inside: int, outside: int, control: int) -> str:
    one_line = {"key": key.replace("\n", "\\n"), "chain": chain.replace("\n", "\\n")}
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    rows = {
        "process.roles": "broker,controller",
        "node.id": "7",  # not 1, to show that names of nodes come from ids
        "controller.quorum.voters": f"7@127.0.0.1:{control}",
        "controller.listener.names": "CONTROLLER",
        "inter.broker.listener.name": "INSIDE",
        "listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside},CONTROLLER://127.0.0.1:{control}",
        "advertised.listeners": f"INSIDE://127.0.0.1:{inside},OUTSIDE://127.0.0.1:{outside}",
        "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:SASL_SSL,CONTROLLER:PLAINTEXT",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": one_line["key"],
        "ssl.keystore.certificate.chain": one_line["chain"],
        "listener.name.outside.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.outside.plain.sasl.jaas.config": f'{plain} user_alice="{PASSWORD}" user_bob="{OTHER_PASSWORD}";',
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS;User:alice",
        "log.dirs": str(folder / "data"),
        **dict.fromkeys(ONE, "1"),
        "group.initial.rebalance.delay.ms": "0",
        "unclean.leader.election.enable": "true",
    }
    return "".join(f"{name}={value}\n" for name, value in rows.items())


@contextmanager
def secured(folder: Path) -> Iterator[Secured]:
    """Runs the broker around the block."""
    found = java.find()
    fetched = jars.ensure(jars.DEFAULT_VERSION, found, print)
    ca, key, chain = certificates(folder)
    ports = Ports()
    inside, outside, control = (ports.take() for _ in range(3))
    ports.give_back()  # the server cannot bind while the port is reserved
    (folder / "server.properties").write_text(_settings(folder, key, chain, inside, outside, control))
    name, text = broker_config.log_config(fetched.version, str(folder / "server.log"))
    (folder / name).write_text(text)
    storage_format.write(storage_format.template(found, fetched, print), folder / "data", storage_format.random_id(), 7)
    argv = broker_config.java_argv(
        found, fetched, str(folder / name), "kafka.Kafka", [str(folder / "server.properties")]
    )
    with (folder / "stdout.log").open("wb") as out:
        process = subprocess.Popen(argv, stdout=out, stderr=out, env=os.environ, start_new_session=True)
    try:
        _await(process, f"127.0.0.1:{inside}", folder)
        yield Secured(f"127.0.0.1:{outside}", ca)
    finally:
        process.kill()
        process.wait()


def _await(process: subprocess.Popen[bytes], bootstrap: str, folder: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        assert process.poll() is None, (folder / "server.log").read_text()[-2000:]
        try:
            if find(bootstrap, {}).brokers:
                return
        except HarnessError:
            assert time.monotonic() < deadline, (folder / "server.log").read_text()[-2000:]
