"""The errors that are reported to users, and the exit codes.

    HarnessError                  255
    |-- BadInput                  254   invalid arguments, plan or names; a folder that is not a run folder
    |-- Missing                   254   a prerequisite of the run is missing: Java, jars, namespaces, a port
    |-- BadHistory                  2   a history whose content is invalid
    `-- ClusterTrouble              2   the system under test could not be started or healed

The message of each error says what is wrong, where, and what to do.
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

# Error numbers of an OSError that the machine causes (a full or read-only disk, a permission), not a bug.
NOT_OURS: Final = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT)


class HarnessError(Exception):
    """The base class of all errors that are reported to users.

    `exit_code` is the exit code of the command that reports the error.
    """

    exit_code = EXIT_CRASH


class BadInput(HarnessError):
    """The user's input is not valid."""

    exit_code = EXIT_BAD_INPUT


class Missing(HarnessError):
    """A prerequisite of the run is missing on this machine."""

    exit_code = EXIT_BAD_INPUT


class BadHistory(HarnessError):
    """The content of a history is not valid."""

    exit_code = EXIT_UNKNOWN


class ClusterTrouble(HarnessError):
    """The system under test could not be started, reached or healed, so there is no verdict."""

    exit_code = EXIT_UNKNOWN
