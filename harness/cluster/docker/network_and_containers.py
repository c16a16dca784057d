"""Describes a Docker cluster, and creates its network and containers in the engine."""

from __future__ import annotations

import ipaddress
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from harness.cluster.distribution import broker_config
from harness.cluster.docker import cleanup, compose, redpanda
from harness.cluster.docker.compose import Service
from harness.cluster.docker.engine_and_images import trouble
from harness.cluster.local import storage_format
from harness.cluster.local.ports import Ports
from harness.cluster.spec import ClusterSpec
from harness.model.errors_and_exit_codes import BadInput

NODES: Final = ("n1", "n2", "n3")
KAFKA_PORT: Final = 9094  # OUTSIDE in docker-compose.yml
_FIRST_ADDRESS: Final = 10  # of the first node in the network; the bridge has a lower one
_NETWORK_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Containers:
    """Description of a cluster's containers.

    run          id of the run, part of all names and labels
    services     one for each container; the name of a service is the name of a node
    work_dir     folder for the logs of the supervisor and the guard
    client_port  port for clients, the same in every container
    ports        the ports of this machine that are reserved for this run
    """

    run: str
    services: tuple[Service, ...]
    work_dir: Path
    client_port: int
    ports: Ports

    def port(self, node: str, inner: int) -> int:
        """Returns the port of 127.0.0.1 that is forwarded to port `inner` of a node's container.

        Raises BadInput if that port is not published.
        """
        for service in self.services:
            for port in service.ports:
                if service.name == node and port.inner == inner:
                    return port.outer
        raise BadInput(f"{compose.FILE}: service {node} publishes no port {inner}")


@dataclass(frozen=True, slots=True)
class Net:
    """A Docker network.

    name       name of the network
    bridge     address of the bridge
    addresses  node name -> address
    """

    name: str
    bridge: str
    addresses: Mapping[str, str]


def kafka(spec: ClusterSpec, image: str) -> Containers:
    """Returns a description of the containers in docker-compose.yml, with the run's ports and broker settings.

    Raises BadInput, Missing.
    """
    broker_config.check_overrides(spec.kafka_config)
    ports = Ports()
    variables = {f"{node.upper()}_PORT": str(ports.take()) for node in NODES}
    services = compose.load({**variables, "KAFKA_IMAGE": image, "CLUSTER_ID": storage_format.random_id()})
    if tuple(service.name for service in services) != NODES:
        raise BadInput(f"{compose.FILE}: the services must be {', '.join(NODES)}")
    settings = {variable(key): value for key, value in spec.kafka_config.items()}
    services = tuple(compose.with_environment(service, settings) for service in services)
    return Containers(_unique(spec.run), services, spec.work_dir, KAFKA_PORT, ports)


def redpanda_brokers(spec: ClusterSpec, image: str) -> Containers:
    """Returns a description of containers of Redpanda, with the run's ports and cluster properties. Raises BadInput."""
    ports = Ports()
    pairs = {node: (ports.take(), ports.take()) for node in NODES}
    services = redpanda.services(NODES, image, pairs, spec.broker_config)
    return Containers(_unique(spec.run), services, spec.work_dir, redpanda.KAFKA_PORT, ports)


def variable(key: str) -> str:
    """Returns the environment variable from which Kafka's images take the broker setting `key`.

    Raises BadInput if `key` is not in lower case.
    """
    if key != key.lower():
        raise BadInput(f"--broker-config {key}: the images accept settings in lower case only")
    return "KAFKA_" + key.replace("_", "__").replace("-", "___").replace(".", "_").upper()


def make_network(engine: Any, run: str, nodes: Sequence[str]) -> Net:
    """Creates a network for a run, in which each node has a fixed address.

    Without fixed addresses, a container might get another one when it restarts. Docker accepts chosen addresses only if
    the address range of the network was chosen, too. Therefore a first network is created, to find a free range, and is
    removed again. Raises ClusterTrouble.
    """
    import docker

    name, marks = f"harness-{run}", cleanup.labels(run)
    for tries_left in reversed(range(_NETWORK_TRIES)):
        with trouble(f"creating the network {name}"):
            tried = engine.networks.create(name, driver="bridge", labels=marks)
            tried.reload()
            hosts = ipaddress.ip_network(tried.attrs["IPAM"]["Config"][0]["Subnet"])
            tried.remove()
            bridge = str(hosts[1])
            pool = docker.types.IPAMPool(subnet=str(hosts), gateway=bridge)
            ipam = docker.types.IPAMConfig(pool_configs=[pool])
            try:
                engine.networks.create(name, driver="bridge", labels=marks, ipam=ipam)
            except docker.errors.APIError:  # another run has taken the range in the meantime
                if not tries_left:
                    raise
                continue
        break
    return Net(name, bridge, {node: str(hosts[_FIRST_ADDRESS + number]) for number, node in enumerate(nodes)})


def make_container(engine: Any, run: str, service: Service, net: Net) -> str:
    """Creates a container without starting it; returns its id. Raises ClusterTrouble."""
    api = engine.api
    with trouble(f"creating the container of {service.name}"):
        outer = {port.inner: (port.address, port.outer) for port in service.ports}
        place = api.create_endpoint_config(aliases=[service.name], ipv4_address=net.addresses[service.name])
        made = api.create_container(
            service.image,
            list(service.command) or None,
            name=f"{net.name}-{service.name}",
            hostname=service.hostname,
            environment=dict(service.environment),
            ports=list(outer),
            host_config=api.create_host_config(port_bindings=outer),
            networking_config=api.create_networking_config({net.name: place}),
            labels={**cleanup.labels(run), cleanup.NODE: service.name},
        )
        return str(made["Id"])


def _unique(run: str) -> str:
    """Returns a unique id for a run. The run's name is not enough: runs in different folders may have the same name."""
    return f"{run}-{os.getpid()}-{secrets.token_hex(2)}"
