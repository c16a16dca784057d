"""ZooKeeper's configuration, and the check that a server answers requests. Pure: data in, text out.

The jars of Kafka up to 3.9 include ZooKeeper. Session timeouts are short, so that other brokers take over from a failed
broker within seconds. (ZooKeeper grants no session timeout below two ticks.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

MAIN: Final = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
FLAGS: Final = ("-Xmx160m",)  # it stores only the metadata of a few topics
# One of the "four letter words" (ZooKeeper Administrator's Guide).
STATUS: Final = b"srvr"
_TICK_MS: Final = 500
_SESSION_MAX_MS: Final = 60_000  # the default is 20 ticks


@dataclass(frozen=True, slots=True)
class Keeper:
    """One ZooKeeper server.

    name           "z1"
    id             1
    address        IPv4 address
    port           port for brokers
    peer_port      port for other ZooKeepers
    election_port  port for leader elections among the ZooKeepers
    """

    name: str
    id: int
    address: str
    port: int
    peer_port: int
    election_port: int


def config(keeper: Keeper, keepers: Sequence[Keeper], data: str) -> str:
    """Returns the text of a ZooKeeper's configuration file. `data` is its data directory, which contains `myid`."""
    settings = {
        "tickTime": str(_TICK_MS),
        "maxSessionTimeout": str(_SESSION_MAX_MS),
        "initLimit": "20",
        "syncLimit": "10",
        "dataDir": data,
        "clientPort": str(keeper.port),
        "clientPortAddress": keeper.address,
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": STATUS.decode(),
        **{f"server.{each.id}": f"{each.address}:{each.peer_port}:{each.election_port}" for each in keepers},
    }
    return "".join(f"{key}={value}\n" for key, value in settings.items())


def connect(keepers: Sequence[Keeper]) -> str:
    """Returns the value of the brokers' setting zookeeper.connect."""
    return ",".join(f"{keeper.address}:{keeper.port}" for keeper in keepers)


def serves(answer: bytes) -> bool:
    """Returns whether the response to a STATUS command shows that the ZooKeeper is standalone or in the quorum."""
    return b"\nMode: " in answer
