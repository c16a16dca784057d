"""Packet filters on the hosts of an ssh cluster: rules at the receiving hosts, only for the brokers' ports.

Other traffic of the hosts continues, including the ssh connection. All clients run on this machine, and have its
address. To make clients drop a broker's packets, a rule on the broker's host drops the packets from the broker's ports
to this machine.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from harness.cluster.ssh.preflight import Ready, ask

Rule = tuple[str, str]  # ("in", address whose packets are dropped) or ("out", address to which packets are dropped)
_ASK_S: Final = 20.0
_NFT_COUNT: Final = re.compile(r"counter packets (\d+)")
_IPTABLES_COUNT: Final = re.compile(r"^\s*(\d+)\s+\d+\s+DROP\s", re.MULTILINE)


class Filters:
    """The packet filter rules on all hosts. Thread-safe.

    hosts    node name -> host
    folders  node name -> the run's folder on the host
    table    name of this run's rules
    """

    def __init__(self, hosts: Mapping[str, Ready], folders: Mapping[str, str], table: str) -> None:
        self._hosts, self._folders, self._table = hosts, folders, table
        self._rules: dict[str, list[Rule]] = {}
        self._lock = threading.Lock()

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """Makes host `at` drop packets from the hosts `sources`. A name that is not a node stands for all clients."""
        with self._lock:
            for name, rules in wanted(self._hosts, at, sources).items():
                in_effect = self._rules.setdefault(name, [])
                new = [rule for rule in dict.fromkeys(rules) if rule not in in_effect]
                in_effect += new  # before adding: rules that may have been added must be removed later
                if new:
                    self._add(name, new)

    def heal(self) -> None:
        """Removes all rules. Raises ClusterTrouble; after that, `heal` may be called again."""
        with self._lock:
            hit = list(self._rules)
            with ThreadPoolExecutor(max(len(hit), 1)) as pool:
                list(pool.map(lambda name: self._ask(name, "heal"), hit))
            self._rules.clear()

    def dropped(self, at: str) -> int:
        """Returns how many packets the rules at a node have dropped; 0 for a client."""
        with self._lock:
            if not self._rules.get(at):
                return 0
            output = self._ask(at, "dropped", self._hosts[at].look.filters[0], self._table)
            return counted(output)

    def _add(self, name: str, rules: Sequence[Rule]) -> None:
        ready = self._hosts[name]
        ports = ready.host.ports
        words = [word for rule in rules for word in rule]
        tool = ready.look.filters[0]
        self._ask(name, "filter", tool, self._table, str(ports[0]), str(ports[-1]), *words)

    def _ask(self, name: str, what: str, *arguments: str) -> str:
        return ask(self._hosts[name].link, _ASK_S, what, self._folders[name], *arguments)


def wanted(hosts: Mapping[str, Ready], at: str, sources: Sequence[str]) -> dict[str, list[Rule]]:
    """Returns node name -> packet filter rules for the node's host; the rules make `at` drop packets from `sources`.

    There are no rules on this machine: if `at` is a client, the sending hosts drop the packets.
    """
    found: dict[str, list[Rule]] = {}
    for source in sources:
        if at in hosts:
            rules = found.setdefault(at, [])
            if source in hosts:
                rules += [("in", address) for address in _addresses(hosts[source], hosts[at])]
            else:
                rules.append(("in", hosts[at].look.seen_as))
        elif source in hosts:
            found.setdefault(source, []).append(("out", hosts[source].look.seen_as))
    return found


def _addresses(source: Ready, at: Ready) -> list[str]:
    """Returns all addresses from which host `source` may send packets to host `at`.

    Leaves out addresses that both hosts have, such as the address of a bridge inside each host.
    """
    every = {source.inside, source.address, *source.look.addresses}
    return sorted(every - at.look.addresses - {at.inside, at.address})


def counted(output: str) -> int:
    """Returns the sum of the packet counters in the output of nft or iptables."""
    return sum(int(count) for rows in (_NFT_COUNT, _IPTABLES_COUNT) for count in rows.findall(output))
