"""Paths of the order pages in a run folder: orders/index.html, and orders/key-<key>.html for each key."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any, Final

NAME: Final = "orders"
PLAIN: Final = re.compile(r"-?[\w]{1,40}", re.ASCII)


def folder(run: Path) -> Path:
    """Returns the folder of the pages."""
    return run / NAME


def index(run: Path) -> Path:
    """Returns the path of the index page, which lists the other pages."""
    return folder(run) / "index.html"


def file_name(key: Any) -> str:
    """Returns the file name of a key's page. It contains a digest if the key itself cannot be part of a file name."""
    text = str(key)
    if PLAIN.fullmatch(text) and (type(key) is int or not re.fullmatch(r"-?\d+", text)):
        return f"key-{text}.html"
    return f"key--{hashlib.sha256(repr(key).encode()).hexdigest()[:12]}.html"


def page(run: Path, key: Any) -> Path:
    """Returns the path of a key's page. The file may not exist."""
    return folder(run) / file_name(key)


def pages(run: Path) -> list[Path]:
    """Returns the paths of all existing order pages except the index."""
    return sorted(folder(run).glob("key-*.html"))
