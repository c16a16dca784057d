"""The version of the checker, which every result contains."""

from typing import Final

VERSION: Final = "0.1.0"
