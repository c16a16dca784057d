"""The Docker engine: connects to it, finds its images, and translates its errors.

The engine is the one named in DOCKER_HOST, or the system's (/var/run/docker.sock). The Docker SDK is
imported on use.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

from harness.model.errors_and_exit_codes import ClusterTrouble, Missing

Say = Callable[[str], None]

VERSION_LABEL: Final = "harness.kafka"
OFFICIAL: Final = "apache/kafka"
OWN: Final = "kafka-log-harness"
_TIMEOUT_S: Final = 60.0
_BROKER_BYTES: Final = 512 << 20


def connect(timeout_s: float = _TIMEOUT_S) -> Any:
    """Returns a client of the Docker engine, which is known to answer.

    Raises Missing, with the address that was tried, if the engine does not answer.
    """
    import docker
    import requests

    where = os.environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
    try:
        engine = docker.from_env(timeout=timeout_s)
        engine.ping()
    except (docker.errors.DockerException, requests.exceptions.RequestException, OSError) as error:
        raise Missing(
            f"no Docker engine answers at {where} ({_reason(error)}): start it (`systemctl start docker`), "
            "or set DOCKER_HOST to another one; `make system-deps` installs one on Debian"
        ) from None
    return engine


def is_local() -> bool:
    """Returns whether the engine is reached through a Unix socket on this machine."""
    return os.environ.get("DOCKER_HOST", "unix://").startswith("unix://")


@contextmanager
def trouble(what: str) -> Iterator[None]:
    """Context manager that turns errors of the Docker SDK into ClusterTrouble. `what` describes the action."""
    import docker
    import requests

    try:
        yield
    except docker.errors.APIError as error:
        raise ClusterTrouble(f"{what}: {error.explanation or error}") from error
    except (docker.errors.DockerException, requests.exceptions.RequestException) as error:
        raise ClusterTrouble(f"{what}: the Docker engine does not answer ({_reason(error)})") from error


def local_tag(version: str) -> str:
    """Returns the tag that `harness image build` gives its image if the user names no other tag."""
    return f"{OWN}:{version}"


def image(engine: Any, wanted_image: str, version: str) -> str:
    """Returns the name of an image that the engine already has. Fetches nothing.

    The image is `wanted_image` if that is given, else the official image of `version`, or the image of `version` that
    `harness image build` made. Raises Missing, with the two ways to get an image, if the engine has none of them.
    """
    wanted = [wanted_image] if wanted_image else [f"{OFFICIAL}:{version}", local_tag(version)]
    for name in wanted:
        if _has(engine, name):
            return name
    get = wanted_image or wanted[0]
    build = f"harness image build --kafka-version {version}" + (f" --tag {wanted_image}" if wanted_image else "")
    raise Missing(
        f"the Docker engine has no image {' or '.join(wanted)}: fetch it with `docker pull {get}`, or, if "
        f"no registry is reachable, build one from the cached jars with `{build}`"
    )


def fetched(engine: Any, name: str) -> str:
    """Returns `name` if the engine has this image; raises Missing if not.

    Used for images that the harness cannot build.
    """
    if not _has(engine, name):
        raise Missing(
            f"the Docker engine has no image {name}: fetch it with `docker pull {name}`, or choose one that it "
            "has with --image"
        )
    return name


def _has(engine: Any, name: str) -> bool:
    import docker

    with trouble(f"looking for the image {name}"):
        try:
            engine.images.get(name)
        except docker.errors.ImageNotFound:
            return False
    return True


def check_room(engine: Any, brokers: int) -> None:
    """Raises Missing if the engine's machine has too little memory or disk space for the brokers."""
    with trouble("querying the Docker engine's machine"):
        info = engine.info()
    needed = brokers * _BROKER_BYTES
    total = int(info.get("MemTotal") or needed)
    if total < needed:
        raise Missing(
            f"the Docker engine's machine has {total >> 20} MiB of memory, and {brokers} brokers need "
            f"{needed >> 20} MiB: give it more memory"
        )
    root = str(info.get("DockerRootDir", ""))
    if is_local() and os.path.isdir(root):  # noqa: PTH112  its parent may not be readable for us
        status = os.statvfs(root)
        free = status.f_bavail * status.f_frsize
        if free < _BROKER_BYTES:
            raise Missing(
                f"only {free >> 20} MiB are free in {root}, where the Docker engine stores its containers, "
                f"and {_BROKER_BYTES >> 20} MiB are needed: free some space (`docker system df`)"
            )


def _reason(error: BaseException) -> str:
    """Returns the root cause of an error, on one line."""
    seen = [error]
    while (inner := seen[-1].__cause__ or seen[-1].__context__) is not None and inner not in seen:
        seen.append(inner)
    system = next((found.strerror for found in reversed(seen) if isinstance(found, OSError) and found.strerror), None)
    return system or str(error).splitlines()[0][:200]
