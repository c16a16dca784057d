"""Every error that a user can meet, and the exit codes.

    HarnessError                  255
    |-- BadInput                  254   arguments, plan, names, a run folder that is not one
    |-- Missing                   254   something the run needs is not there: Java, jars, namespaces, a port
    |-- BadHistory                  2   a history whose content cannot be used
    `-- ClusterTrouble              2   the system under test could not be brought up or healed

A message says what was wrong, where, and what to do.
"""

from __future__ import annotations

import errno
from typing import Final

EXIT_VALID: Final = 0
EXIT_INVALID: Final = 1
EXIT_UNKNOWN: Final = 2
EXIT_BAD_INPUT: Final = 254
EXIT_CRASH: Final = 255
EXIT_INTERRUPTED: Final = 130

# Of OSError. A full or read-only disk, a permission: the machine's, not a bug.
NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class HarnessError(Exception):
    """Root of the tree. `exit_code` is what the command line returns."""

    exit_code = EXIT_CRASH


class BadInput(HarnessError):
    """The user asked for something that makes no sense."""

    exit_code = EXIT_BAD_INPUT


class Missing(HarnessError):
    """Something that the run needs is not on this machine."""

    exit_code = EXIT_BAD_INPUT


class BadHistory(HarnessError):
    """The content of a history cannot be used."""

    exit_code = EXIT_UNKNOWN


class ClusterTrouble(HarnessError):
    """The system under test could not be started, reached or healed: no verdict can be given."""

    exit_code = EXIT_UNKNOWN
