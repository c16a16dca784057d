"""The checker's version: part of every result."""

from typing import Final

VERSION: Final = "0.1.0"
