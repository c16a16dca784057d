"""Linux namespaces through the C library, because Python 3.11 has neither unshare nor setns.

A network namespace is kept as a file descriptor, so it needs no name and no mount. It disappears when its last process
has ended and its last descriptor has been closed.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_CLONE_NEWPID = 0x20000000
_CLONE_NEWNET = 0x40000000
_MS_NOSUID_NODEV_NOEXEC = 0x2 | 0x4 | 0x8
_MS_REC = 0x4000
_MS_PRIVATE = 0x40000
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

_PROBE_TIMEOUT_S = 20.0
HINT = "; to allow it: "

# Ways in which systems refuse user namespaces: (file, its content if they are refused, sysctl setting that allows them)
SWITCHES = (
    (
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0", "kernel.unprivileged_userns_clone=1"),
    ("/proc/sys/user/max_user_namespaces", "0", "user.max_user_namespaces=15000"),
)

_libc = ctypes.CDLL(None, use_errno=True)


class Refused(OSError):
    """Raised when the system refuses a namespace. `step` names what was refused."""

    def __init__(self, step: str, error: OSError) -> None:
        super().__init__(error.errno, error.strerror)
        self.step = step

    def __str__(self) -> str:
        return f"{self.step}: {self.strerror}"


def _call(name: str, *args: object) -> None:
    if getattr(_libc, name)(*args) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def die_with_parent() -> None:
    """Makes the kernel send SIGKILL to this process when the thread that forked it ends.

    The setting survives exec, but children of this process do not inherit it.
    """
    _call("prctl", _PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def adopt_orphans() -> None:
    """Makes this process the new parent of each descendant whose parent ends."""
    _call("prctl", _PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def enter() -> None:
    """Moves this process into new network and mount namespaces, and its future children into a new pid namespace.

    If the process is not root, it also gets a user namespace. Must run while the process has one thread. Raises
    Refused.
    """
    if os.geteuid() != 0:
        _enter_user()
    else:
        try:
            _call("unshare", _CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWPID)
        except OSError:
            # Root without CAP_SYS_ADMIN, as in a container, may still create a user namespace.
            _enter_user()
        else:
            return _private_mounts()
    try:
        _call("unshare", _CLONE_NEWNET | _CLONE_NEWNS | _CLONE_NEWPID)
    except OSError as error:
        raise Refused("network, mount and pid namespaces", error) from error
    return _private_mounts()


def _enter_user() -> None:
    uid, gid = os.geteuid(), os.getegid()
    try:
        _call("unshare", _CLONE_NEWUSER)
        # Without privilege the group map may be written only once setgroups is off.
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {uid} 1")
        Path("/proc/self/gid_map").write_text(f"0 {gid} 1")
    except OSError as error:
        raise Refused("user namespace", error) from error


def _private_mounts() -> None:
    """Makes mounts in this namespace private, so that the rest of the system does not see them."""
    try:
        _call("mount", b"none", b"/", None, _MS_REC | _MS_PRIVATE, None)
    except OSError as error:
        raise Refused("private mounts", error) from error


def mount_proc() -> bool:
    """Mounts a /proc that shows this pid namespace; returns whether that worked. The cluster works without it, too."""
    try:
        _call("mount", b"proc", b"/proc", b"proc", _MS_NOSUID_NODEV_NOEXEC, None)
    except OSError:
        return False
    return True


def current_network() -> int:
    """Returns a descriptor of this thread's network namespace."""
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)


def new_network() -> int:
    """Returns a descriptor of a new, empty network namespace. This thread stays in its own namespace."""
    home = current_network()
    try:
        _call("unshare", _CLONE_NEWNET)
        try:
            return current_network()
        finally:
            join(home)
    finally:
        os.close(home)


def join(network: int) -> None:
    """Moves this thread to another network namespace."""
    _call("setns", network, _CLONE_NEWNET)


@contextmanager
def inside(network: int) -> Iterator[None]:
    """Runs the block in another network namespace: sockets created in the block belong to that network.

    Do not fork in the block.
    """
    home = current_network()
    try:
        join(network)
        try:
            yield
        finally:
            join(home)
    finally:
        os.close(home)


def available() -> tuple[bool, str]:
    """Returns whether this user may create what the local cluster needs, and if not, why.

    To find out, a separate process creates namespaces, a bridge, a link and a packet filter.
    """
    argv = [sys.executable, "-m", "harness.cluster.local.supervisor", "--probe"]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PROBE_TIMEOUT_S,
            env={**os.environ, "PYTHONPATH": python_path()},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return False, str(error)
    if done.returncode == 0:
        return True, ""
    last = (done.stderr.strip() or done.stdout.strip() or f"exit code {done.returncode}").splitlines()[-1]
    return False, last + hint()


def hint() -> str:
    """Returns what to do if namespaces are refused; an empty text if the cause cannot be determined."""
    for path, bad, setting in SWITCHES:
        with suppress(OSError):
            if Path(path).read_text().strip() == bad:
                return f"{HINT}sudo sysctl -w {setting}"
    return ""


def python_path() -> str:
    """Returns a PYTHONPATH with which a child process can import this package, whatever its working directory."""
    root = str(Path(__file__).resolve().parents[3])
    inherited = os.environ.get("PYTHONPATH")
    return f"{root}:{inherited}" if inherited else root
