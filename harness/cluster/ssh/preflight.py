"""Checks, before anything is installed, whether the hosts of an ssh cluster are suitable.

The output of a command on a host has sections: see host_commands.sh. The functions that parse and judge the output are
pure.
"""

from __future__ import annotations

import platform
import re
import shlex
import socket
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.cluster.distribution import java
from harness.cluster.distribution.java import Java
from harness.cluster.ssh.commands_on_hosts import Link
from harness.cluster.ssh.hosts import Host
from harness.cluster.ssh.log_in import resolve
from harness.model.errors_and_exit_codes import ClusterTrouble, HarnessError, Missing

_SCRIPT: Final = Path(__file__).with_name("host_commands.sh")
_LOOK_S: Final = 30.0
_SPACE_MB: Final = 1024
_MEMORY_MB: Final = 600
_LISTEN: Final = "0A"  # a socket's state in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Look:
    """What was found on a host.

    system     operating system and machine type, as `uname -sm` prints them
    folder     where runs are stored
    lacking    required tools that are not installed
    java       (path, "") of a Java that is new enough; if there is none, ("", what was found instead)
    filters    ("nft", "") or ("iptables", ""), the tool that works; if none does, ("", reason)
    listening  TCP ports that are in use
    addresses  the host's own IPv4 addresses
    seen_as    this machine's address, as the host sees it
    """

    system: str
    folder: str
    writable: bool
    space_mb: int
    memory_mb: int
    lacking: tuple[str, ...]
    java: tuple[str, str]
    filters: tuple[str, str]
    listening: frozenset[int]
    addresses: frozenset[str]
    seen_as: str


@dataclass(frozen=True, slots=True)
class Ready:
    """A suitable host.

    address  the host's IPv4 address for clients
    inside   the host's IPv4 address for the other brokers
    """

    host: Host
    link: Link
    look: Look
    address: str
    inside: str


def script() -> bytes:
    """Returns the content of host_commands.sh, the script that runs on the hosts."""
    return _SCRIPT.read_bytes()


def command(host: Host, name: str, folder: str, *arguments: str) -> str:
    """Returns a command line for a host: a shell that executes the command `name` of host_commands.sh.

    The shell reads host_commands.sh from standard input.
    """
    return shlex.join(["sh", "-s", "--", name, folder, "1" if host.sudo else "0", *arguments])


def ask(link: Link, timeout_s: float, name: str, folder: str, *arguments: str) -> str:
    """Runs the command `name` of host_commands.sh; returns its output.

    Raises ClusterTrouble with the host's error message.
    """
    host = link.host
    done = link.run(command(host, name, folder, *arguments), timeout_s, script())
    if done.code:
        raise ClusterTrouble(f"{host.name} ({host.at}): {name}: {done.err or f'exit code {done.code}'}")
    return done.out


def ready(links: Sequence[Link], table: str, filters: bool) -> list[Ready]:
    """Checks all hosts in parallel, and returns them. Raises Missing, with everything that is wrong with any host.

    table    name of the packet filter that each host creates and removes as a test; must not be in use
    filters  whether the run's faults need packet filters
    """

    def one(link: Link) -> Ready | list[str]:
        try:
            link.connect()
            host = link.host
            look = read(ask(link, _LOOK_S, "look", host.folder, table))
            address = resolve(host.address)
            inside = resolve(host.internal) if host.internal else address
        except socket.gaierror as error:
            return [f"{link.host.name}: internal {link.host.internal}: {error.strerror}"]
        except HarnessError as error:
            return [str(error)]
        return problems(host, look, inside, filters) or Ready(host, link, look, address, inside)

    with ThreadPoolExecutor(len(links)) as pool:
        found = list(pool.map(one, links))
    wrong = [text for each in found if isinstance(each, list) for text in each]
    if wrong:
        raise Missing("; ".join(wrong) if len(wrong) == 1 else "\n".join(["the hosts are not suitable:", *wrong]))
    return [each for each in found if isinstance(each, Ready)]


def problems(host: Host, look: Look, inside: str, filters: bool) -> list[str]:
    """Returns everything that prevents a broker from running on a host. Each text says what to do.

    inside   the host's IPv4 address for the other brokers
    filters  whether the run's faults need packet filters
    """
    name = f"{host.name} ({host.at})"
    kind = look.system.split(" ")[0]
    if kind != "Linux":
        return [f"{name} runs {kind or 'an unknown system'}: brokers can be started on Linux only"]
    found = []
    if look.lacking:
        found.append(f"{name} lacks {', '.join(look.lacking)}: install what is missing there")
    if not look.writable:
        found.append(f"{name}: {look.folder} is not writable: choose another `folder` in the hosts file")
    elif look.space_mb < _SPACE_MB:
        found.append(
            f"{name}: {look.space_mb} MB are free for {look.folder}, but {_SPACE_MB} are needed: free some space, or "
            "choose another `folder` in the hosts file"
        )
    if look.memory_mb < _MEMORY_MB:
        found.append(
            f"{name}: {look.memory_mb} MB of memory are available, but a broker needs {_MEMORY_MB}: free memory"
        )
    if not look.java[0] and look.system != here():
        found.append(
            f"{name}: {look.java[1]}, and this machine's Java does not run on {look.system}: install Java "
            f"{java.MINIMUM} or newer there"
        )
    for port in sorted(look.listening & set(host.ports)):
        found.append(
            f"{name}: port {port} is in use already (`ss -ltnp` there shows by what): stop that program, or choose "
            "another kafka_port in the hosts file"
        )
    if inside not in look.addresses:
        theirs = ", ".join(sorted(look.addresses)) or "none"
        found.append(
            f"{name}: {inside} is not an address of the host itself, which has {theirs}: set `internal` to the address "
            "at which the other hosts reach it"
        )
    if filters and not look.filters[0]:
        found.append(
            f"{name}: packets cannot be dropped ({look.filters[1]}): install nftables there, and be root or "
            "set `sudo: true` with passwordless sudo"
        )
    return found


def here() -> str:
    """Returns this machine's operating system and machine type, in the format of `uname -sm`."""
    return f"{platform.system()} {platform.machine()}"


def read(answer: str) -> Look:
    """Parses the output of the command `look` of host_commands.sh."""
    parts = sections(answer)
    space = parts.get("space", "").split()
    memory = parts.get("memory", "").split()
    folder = parts.get("folder", "").splitlines()
    return Look(
        system=parts.get("system", "").strip(),
        folder=folder[0] if folder else "",
        writable=folder[-1:] == ["writable"],
        space_mb=_number(space, 3) >> 10,
        memory_mb=_number(memory, 1) >> 10,
        lacking=tuple(parts.get("tools", "").split()),
        java=_java(parts),
        filters=_filters(parts),
        listening=_listening(parts.get("sockets", "")),
        addresses=_addresses(parts.get("addresses", "")),
        seen_as=(parts.get("connection", "").split() or [""])[0],
    )


def sections(answer: str) -> dict[str, str]:
    """Splits a command's output into its sections: title -> text."""
    found: dict[str, str] = {}
    title = ""
    for line in answer.splitlines():
        if line.startswith("== "):
            title = line[3:]
            found[title] = ""
        elif title:
            found[title] += f"{line}\n"
    return found


def _number(words: Sequence[str], at: int) -> int:
    return int(words[at]) if len(words) > at and words[at].isdigit() else 0


def _java(parts: Mapping[str, str]) -> tuple[str, str]:
    why = "it has no Java on the PATH and JAVA_HOME is not set"
    for title, text in parts.items():
        if title.startswith("java "):
            path = title.removeprefix("java ")
            found = java.parse(path, text)
            if isinstance(found, Java) and found.version >= java.MINIMUM:
                return path, ""
            reason = f"version {found.full} is too old" if isinstance(found, Java) else found
            why = f"its Java {path} cannot be used ({reason})"
    return "", why


def _filters(parts: Mapping[str, str]) -> tuple[str, str]:
    why = "it has neither nft nor iptables"
    for tool in ("nft", "iptables"):
        output = parts.get(f"filter {tool}", "").strip().splitlines()
        if output[-1:] == ["yes"]:
            return tool, ""
        if output:
            why = f"{tool}: {output[0]}"
    if parts.get("root", "").strip().splitlines()[-1:] != ["yes"]:
        output = parts.get("root", "").strip().splitlines()
        why = output[0] if output else "the user is not root, and the hosts file does not set `sudo: true`"
    return "", why


def _listening(text: str) -> frozenset[int]:
    """Returns the TCP ports on which sockets listen, from the text of /proc/net/tcp."""
    rows = (line.split() for line in text.splitlines())
    return frozenset(int(row[1].rpartition(":")[2], 16) for row in rows if len(row) > 3 and row[3] == _LISTEN)


def _addresses(text: str) -> frozenset[str]:
    """Returns the host's own addresses, from the text of /proc/net/fib_trie.

    In that text, `/32 host LOCAL` follows each of these addresses.
    """
    found = re.findall(r"\|-- ([\d.]+)\s+/32 host LOCAL", text)
    return frozenset(address for address in found if not address.startswith("127."))
