"""A real S3 server for tests: versitygw, a Go module, which is built once and stores objects as files in a folder.

It was chosen over s3proxy because it needs no Java, and verifies signatures and checksums as S3 does. `busy` is a proxy
in front of it that answers some requests with 503, as S3 does when it is overloaded.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from harness.cluster.distribution import download_cache
from tests.conftest import absent

MODULE = "github.com/versity/versitygw/cmd/versitygw"
VERSION = "v1.8.0"
BUCKET = "bucket"
BUILD_S = 1200


@dataclass(frozen=True)
class S3:
    """A running server: its address, its credentials, and the folder with its objects."""

    address: str
    access_key: str
    secret_key: str
    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables that give access."""
        return {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret_key,
            "AWS_ENDPOINT_URL": f"http://{self.address}",
            "AWS_REGION": "us-east-1",
            "AWS_EC2_METADATA_DISABLED": "true",
        }

    @property
    def runs(self) -> Path:
        """The folder with the runs at s3://bucket/runs."""
        return self.folder / BUCKET / "runs"


def program() -> Path:
    """The server's program, which is built if it is not in the cache."""
    folder = download_cache.root() / f"versitygw-{VERSION}"
    found = folder / "versitygw"
    if found.is_file():
        return found
    path = os.pathsep.join((os.environ["PATH"], str(Path(sys.executable).parent)))  # `make compilers` installs it there
    if (go := shutil.which("go", path=path)) is None:
        absent("go is not installed; it builds the S3 server")
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not found.is_file():
            build = folder / "build"
            environment = {**os.environ, "GOBIN": str(build), "PATH": path}
            subprocess.run([go, "install", f"{MODULE}@{VERSION}"], env=environment, check=True, timeout=BUILD_S)
            (build / "versitygw").replace(found)
    return found


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@contextmanager
def running(folder: Path, host: str = "127.0.0.1") -> Iterator[S3]:
    """A server with an empty bucket."""
    server = S3(f"{host}:{free_port()}", secrets.token_hex(10).upper(), secrets.token_hex(20), folder)
    folder.mkdir(parents=True)
    credentials = {"ROOT_ACCESS_KEY": server.access_key, "ROOT_SECRET_KEY": server.secret_key}
    command = [str(program()), "--port", server.address, "--quiet", "posix", str(folder)]
    with (folder.parent / "s3.log").open("wb") as log:
        child = subprocess.Popen(command, env={**os.environ, **credentials}, stdout=log, stderr=log)
    try:
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with suppress(OSError), socket.create_connection(tuple_of(server.address), 1):
                break
            time.sleep(0.1)
        create_bucket(server)
        yield server
    finally:
        child.terminate()
        child.wait(30)


def tuple_of(address: str) -> tuple[str, int]:
    host, _, port = address.partition(":")
    return host, int(port)


def create_bucket(server: S3) -> None:
    from pyarrow import fs

    made = fs.S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        endpoint_override=server.address,
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    made.create_dir(BUCKET)


@contextmanager
def busy(server: S3, every: int, host: str = "127.0.0.1") -> Iterator[tuple[S3, list[str]]]:
    """A proxy that answers every n-th request with 503. Yields its S3, and the paths of the requests refused."""
    refused: list[str] = []
    count = [0]
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def sized(self) -> bytes:
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))

        def chunks(self) -> bytes:
            """The body as it was sent, with the sizes of its chunks."""
            raw = b""
            while True:
                line = self.rfile.readline()
                size = int(line.split(b";")[0], 16)
                raw += line
                if size == 0:
                    break
                raw += self.rfile.read(size + 2)
            while (line := self.rfile.readline()) not in (b"\r\n", b""):
                raw += line
            return raw + b"\r\n"

        def do_any(self) -> None:
            body = self.chunks() if "chunked" in self.headers.get("Transfer-Encoding", "") else self.sized()
            with lock:
                count[0] += 1
                refuse = count[0] % every == 0
            if refuse:
                refused.append(f"{self.command} {self.path}")
                self.send_response(503, "Slow Down")
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            host, port = tuple_of(server.address)
            connection = HTTPConnection(host, port, timeout=60)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in self.headers.items():
                if name.lower() != "expect":  # answered by this proxy
                    connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(answer.status, answer.reason)
            for name, value in answer.getheaders():
                if name.lower() not in ("transfer-encoding", "connection", "date", "server", "content-length"):
                    self.send_header(name, value)
            length = answer.getheader("Content-Length") if self.command == "HEAD" else str(len(content))
            self.send_header("Content-Length", length or "0")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(content)
            connection.close()

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = do_any

        def log_message(self, *arguments: object) -> None:
            pass

    proxy = ThreadingHTTPServer((host, 0), Handler)
    thread = threading.Thread(target=proxy.serve_forever, daemon=True)
    thread.start()
    try:
        address = f"{host}:{proxy.server_address[1]}"
        yield S3(address, server.access_key, server.secret_key, server.folder), refused
    finally:
        proxy.shutdown()
        thread.join()
        proxy.server_close()


@contextmanager
def running_inside(folder: Path, enter: Sequence[str], host: str, every: int = 0) -> Iterator[S3]:
    """A server in a network namespace.

    enter  the beginning of a command line that runs a command in the namespace
    every  which requests are answered with 503 (every n-th); 0: none
    """
    command = [*enter, sys.executable, "-m", "tests.e2e.s3_server", str(folder), host, str(every)]
    child = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None and child.stdout is not None
    try:
        yield S3(**{**json.loads(child.stdout.readline()), "folder": folder})
    finally:
        child.stdin.close()
        child.wait(60)


def serve(folder: Path, host: str, every: int) -> None:
    """Runs a server until the standard input ends. Prints how to reach it, and then the refused requests."""
    with running(folder, host) as server, busy(server, every or 1 << 62, host) as (proxy, refused):
        used = proxy if every else server
        access = {"address": used.address, "access_key": used.access_key, "secret_key": used.secret_key}
        print(json.dumps(access), flush=True)
        sys.stdin.read()
        (folder.parent / "refused.json").write_text(json.dumps(refused))


if __name__ == "__main__":
    if sys.argv[1:]:
        serve(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
    else:
        print(program())
