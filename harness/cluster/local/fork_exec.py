"""Starting a process in a network namespace, with chosen descriptors, from a process of one thread.

fork and exec by hand: `subprocess` cannot place descriptors at chosen numbers, and what it does to be safe
with threads is not needed here.
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

from harness.cluster.local import namespaces


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, fds: Sequence[int], network: int | None) -> int:
    """Start `argv` and return its pid.

    fds      become 1, 2, 3, ... of the child; 0 is /dev/null; nothing else is inherited, since Python opens
             every descriptor to be closed on exec
    network  descriptor of the namespace to run in; None: this process's
    Raises OSError when it cannot be started.
    """
    report, tell = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _become(argv, env, cwd, fds, network, tell)
        os.close(tell)
        tell = -1
        failure = os.read(report, 4096)
    finally:
        os.close(report)
        if tell >= 0:
            os.close(tell)
    if failure:
        os.waitpid(pid, 0)
        number, _, what = failure.decode(errors="replace").partition(" ")
        raise OSError(int(number), f"{what}: {os.strerror(int(number))}")
    return pid


def _become(
    argv: Sequence[str],
    env: Mapping[str, str],
    cwd: str | None,
    fds: Sequence[int],
    network: int | None,
    tell: int,
) -> None:
    """In the child: arrange everything and exec; says why through `tell` if it cannot. Never returns."""
    what = "start"
    try:
        namespaces.die_with_parent()
        os.setsid()
        if network is not None:
            namespaces.join(network)
        # Out of the way first, so that no descriptor is overwritten before it has been placed.
        floor = len(fds) + 1
        moved = [_above(fd, floor) for fd in fds]
        tell = _above(tell, floor)
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        for number, fd in enumerate(moved, start=1):
            os.dup2(fd, number)
        if cwd is not None:
            what = cwd
            os.chdir(cwd)
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        for number in (signal.SIGPIPE, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        what = argv[0]
        os.execvpe(argv[0], list(argv), dict(env))
    except OSError as error:
        os.write(tell, f"{error.errno or 0} {what}".encode())
    finally:
        os._exit(127)


def _above(fd: int, floor: int) -> int:
    """A duplicate of `fd` at a number above `floor`, closed on exec."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor + 1)
