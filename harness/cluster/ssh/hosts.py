"""Reads the hosts of an ssh cluster from a YAML file: a list with one entry per host.

- address: 10.0.0.11           name or IPv4 address, for ssh and for Kafka's clients
  name: n1                     default: n1, n2, ... in the file's order
  port: 22
  user: kafka                  default: the user who runs the harness
  key: ~/.ssh/id_ed25519       private key; default: those of ssh-agent and of ~/.ssh
  known_hosts: hosts.known     default: ~/.ssh/known_hosts and /etc/ssh/ssh_known_hosts
  sudo: true                   passwordless sudo, for packet filters; default: false
  internal: 192.168.0.11       address for other brokers, if not `address`
  kafka_port: 9092             the broker uses this port and the two after it
  folder: /data/kafka-harness  where runs are stored on the host; default: ~/.kafka-log-harness of `user`

The paths `key` and `known_hosts` are relative to the file's folder.
"""

from __future__ import annotations

import getpass
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from harness import yaml_data
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import BadInput
from harness.yaml_data import Loaded, Place

HOSTS_MAX: Final = 15
PORTS: Final = 3  # of each broker: for brokers, for controllers, and for clients if they use another address
_WHAT: Final = "a list of hosts"
_NAME: Final = r"^[a-z][a-z0-9-]{0,30}$"
_CLIENTS: Final = re.compile(r"w\d+|admin")  # names of worker hosts
_ADDRESS: Final = r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$"


class Host(BaseModel):
    """A host of the cluster: an entry of the YAML file. `name` is never empty in the hosts that `load` returns."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    address: str = Field(pattern=_ADDRESS)
    name: Annotated[str, Field(pattern=_NAME)] = ""
    port: int = Field(22, ge=1, le=65535)
    user: str = Field(default_factory=getpass.getuser, pattern=r"^[A-Za-z0-9._@-]+$")
    key: str | None = None
    known_hosts: str | None = None
    sudo: bool = False
    internal: Annotated[str, Field(pattern=_ADDRESS)] = ""
    kafka_port: int = Field(9092, ge=1024, le=65535 - PORTS)
    folder: Annotated[str, Field(pattern=r"^/[A-Za-z0-9._/-]+$")] = ""

    @property
    def at(self) -> str:
        """user@address:port, for messages."""
        return f"{self.user}@{self.address}:{self.port}"

    @property
    def ports(self) -> range:
        """The broker's ports on the host."""
        return range(self.kafka_port, self.kafka_port + PORTS)


_HOSTS: Final = TypeAdapter(tuple[Host, ...])


def load(path: Path) -> tuple[Host, ...]:
    """Returns the hosts in a file. Raises BadInput; the message has one line (file, line, column) for each mistake."""
    loaded = yaml_data.load(path, _WHAT)
    if not isinstance(loaded.data, list) or not loaded.data:
        raise BadInput(f"{loaded.where((), True)}: not {_WHAT}; write one entry per host, starting with `- address:`")
    if len(loaded.data) > HOSTS_MAX:
        raise BadInput(f"{loaded.where((HOSTS_MAX,))}: {len(loaded.data)} hosts; at most {HOSTS_MAX}")
    try:
        given = _HOSTS.validate_python(tuple(loaded.data))
    except ValidationError as error:
        messages = [yaml_data.line(one, loaded.where, _keys) for one in error.errors()]
        raise BadInput("\n".join(messages)) from None
    hosts = tuple(_completed(host, number, path.parent) for number, host in enumerate(given, start=1))
    _check_apart(hosts, loaded)
    return hosts


def server_names(spec: ClusterSpec) -> list[str]:
    """Returns the hosts' names. Raises BadInput."""
    return [host.name for host in load(Path(spec.hosts))]


def _keys(place: Place) -> Sequence[str]:
    return list(Host.model_fields)


def _completed(host: Host, number: int, folder: Path) -> Host:
    paths = {
        field: str((folder / Path(given).expanduser()).absolute())
        for field in ("key", "known_hosts")
        if (given := getattr(host, field))
    }
    return host.model_copy(update={"name": host.name or f"n{number}", **paths})


def _check_apart(hosts: Sequence[Host], loaded: Loaded) -> None:
    """Checks that hosts have different names, and that hosts with the same address have different Kafka ports.

    Raises BadInput.
    """
    for number, host in enumerate(hosts):
        if _CLIENTS.fullmatch(host.name):
            at = loaded.where((number, "name"), True)
            raise BadInput(f"{at}: name {host.name}: w0, w1, ... and admin are reserved for clients; use another name")
        for other in hosts[:number]:
            if host.name == other.name:
                raise BadInput(f"{loaded.where((number, 'name'), True)}: the name {host.name} is used twice")
            shared = set(host.ports) & set(other.ports)
            if host.address == other.address and shared and host.port == other.port:
                raise BadInput(
                    f"{loaded.where((number, 'address'), True)}: {other.name} also has the address {host.address} and "
                    f"uses port {min(shared)}; choose another kafka_port for one of the two"
                )
