"""Runs a shell or a command on a node's host, attached to this terminal.

The command is started on the host through `python -m harness.cluster.local.shell_on_a_node ARGV...`. Descriptors 3, 4
and 5 of that process become standard input, output and error of the command. If the harness has a terminal, the three
descriptors are one end of a pseudo-terminal, and the harness copies between the other end and its own terminal. A
pseudo-terminal is needed because a process in a namespace cannot use the terminal of a session outside it.
"""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import tty
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from harness.model.capabilities import Child

Spawn = Callable[[Sequence[str], Sequence[int]], Child]


def run(spawn: Spawn, argv: Sequence[str]) -> int:
    """Runs the command `argv` on a host, with this process's input and output; returns the command's exit code.

    spawn  function (argv, fds) that starts a process on the host, with `fds` as descriptors 3, 4, ..., and returns it
    """
    inside = [sys.executable, "-m", "harness.cluster.local.shell_on_a_node", *argv]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        return _plainly(spawn, inside)
    ours, theirs = pty.openpty()
    _same_size(ours)
    try:
        child = spawn(inside, [theirs, theirs, theirs])
    finally:
        os.close(theirs)
    before = termios.tcgetattr(sys.stdin)
    resized = signal.signal(signal.SIGWINCH, lambda *_: _same_size(ours))
    tty.setraw(sys.stdin)
    try:
        _copy(ours)
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
        signal.signal(signal.SIGWINCH, resized)
        os.close(ours)
    return _code(child)


def _plainly(spawn: Spawn, inside: Sequence[str]) -> int:
    child = spawn(inside, [sys.stdin.fileno(), sys.stdout.fileno(), sys.stderr.fileno()])
    try:
        return _code(child)
    except KeyboardInterrupt:
        child.signal(signal.SIGINT)
        raise


def _code(child: Child) -> int:
    while (code := child.wait(1.0)) is None:
        pass
    return code if code >= 0 else 128 - code


def _copy(ours: int) -> None:
    """Copies between this terminal and the pseudo-terminal, until the pseudo-terminal is closed."""
    here, out = sys.stdin.fileno(), sys.stdout.fileno()
    while True:
        ready = select.select([here, ours], [], [])[0]
        if ours in ready:
            data = b""
            with suppress(OSError):  # the last process inside has closed the pseudo-terminal
                data = os.read(ours, 1 << 16)
            if not data:
                return
            os.write(out, data)
        if here in ready:
            os.write(ours, os.read(here, 1 << 12))


def _same_size(other: int) -> None:
    with suppress(OSError):
        size = fcntl.ioctl(sys.stdout.fileno(), termios.TIOCGWINSZ, struct.pack("HHHH", 0, 0, 0, 0))
        fcntl.ioctl(other, termios.TIOCSWINSZ, size)


def main(argv: Sequence[str]) -> Any:
    """On the host: makes descriptors 3 to 5 the standard streams and the terminal, if any, the controlling terminal.

    Then replaces this process by the command. Exit code 127: the command cannot be started.
    """
    for number in range(3):
        os.dup2(number + 3, number)
        os.close(number + 3)
    if os.isatty(0):
        with suppress(OSError):
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    try:
        os.execvp(argv[0], list(argv))
    except OSError as error:
        print(f"{argv[0]}: {error.strerror}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
