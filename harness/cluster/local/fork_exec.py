"""Starts a process in a network namespace with chosen file descriptors, from a single-threaded process.

This module calls fork and exec directly, because `subprocess` cannot give descriptors chosen numbers. (The precautions
of `subprocess` for threads are not needed in a single-threaded process.)
"""

from __future__ import annotations

import fcntl
import os
import signal
from collections.abc import Mapping, Sequence

from harness.cluster.local import namespaces


def spawn(argv: Sequence[str], env: Mapping[str, str], cwd: str | None, fds: Sequence[int], network: int | None) -> int:
    """Starts `argv`; returns the pid.

    fds      these become descriptors 1, 2, 3, ... of the child; descriptor 0 is /dev/null. The child has no other
             descriptors, because Python opens every descriptor with close-on-exec
    network  descriptor of the network namespace in which the child runs; None: the namespace of this process

    Raises OSError if the process cannot be started.
    """
    report_fd, failure_fd = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.fork()
        if pid == 0:
            _become(argv, env, cwd, fds, network, failure_fd)
        os.close(failure_fd)
        failure_fd = -1
        failure = os.read(report_fd, 4096)
    finally:
        os.close(report_fd)
        if failure_fd >= 0:
            os.close(failure_fd)
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
    failure_fd: int,
) -> None:
    """In the child: sets everything up and execs `argv`; never returns.

    On failure, reports the reason on `failure_fd`.
    """
    what = "start"
    try:
        namespaces.die_with_parent()
        os.setsid()
        if network is not None:
            namespaces.join(network)
        # Move the descriptors out of the way first, so that none is overwritten before it has been placed.
        floor = len(fds) + 1
        moved = [_above(fd, floor) for fd in fds]
        failure_fd = _above(failure_fd, floor)
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
        os.write(failure_fd, f"{error.errno or 0} {what}".encode())
    finally:
        os._exit(127)


def _above(fd: int, floor: int) -> int:
    """Returns a duplicate of `fd` with a number above `floor` and with close-on-exec."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, floor + 1)
