"""Packet filters on the hosts of an ssh cluster: rules where a packet arrives, for the brokers' ports alone.

So the hosts' other traffic goes on, this very connection too. Clients run on this machine and all have its
address: that none of them hears a broker is a rule where the broker's host sends.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from harness.cluster.ssh.preflight import Ready, ask

Rule = tuple[str, str]  # ("in", whom it does not hear), ("out", who does not hear it)
_ASK_S: Final = 20.0
_NFT_COUNT: Final = re.compile(r"counter packets (\d+)")
_IPTABLES_COUNT: Final = re.compile(r"^\s*(\d+)\s+\d+\s+DROP\s", re.MULTILINE)


class Filters:
    """The rules in force. Thread-safe.

    hosts    by node name
    folders  of the run, on each
    table    the run's own name for its rules
    """

    def __init__(self, hosts: Mapping[str, Ready], folders: Mapping[str, str], table: str) -> None:
        self._hosts, self._folders, self._table = hosts, folders, table
        self._rules: dict[str, list[Rule]] = {}
        self._lock = threading.Lock()

    def drop(self, at: str, sources: Sequence[str]) -> None:
        """From now on, `at` does not hear `sources`; who is no node stands for all clients."""
        with self._lock:
            for name, rules in wanted(self._hosts, at, sources).items():
                known = self._rules.setdefault(name, [])
                new = [rule for rule in dict.fromkeys(rules) if rule not in known]
                known += new  # first: what may be there has to be removed
                if new:
                    self._add(name, new)

    def heal(self) -> None:
        """Remove every rule. Raises ClusterTrouble; then it may be repeated."""
        with self._lock:
            hit = list(self._rules)
            with ThreadPoolExecutor(max(len(hit), 1)) as pool:
                list(pool.map(lambda name: self._ask(name, "heal"), hit))
            self._rules.clear()

    def dropped(self, at: str) -> int:
        """Packets that the rules at a node have dropped; 0 for a client."""
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
    """The rules, by the node where they belong, after which `at` does not hear `sources`."""
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
    """Everything that a host may send by, but for what the receiver has too (a bridge of its own, say)."""
    every = {source.inside, source.address, *source.look.addresses}
    return sorted(every - at.look.addresses - {at.inside, at.address})


def counted(output: str) -> int:
    """Packets in the answer of nft, or of iptables."""
    return sum(int(count) for rows in (_NFT_COUNT, _IPTABLES_COUNT) for count in rows.findall(output))
