"""A PostgreSQL server for tests: in a directory of its own, on a free port of the loopback interface."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def programs() -> Path:
    """The folder of initdb and pg_ctl: Debian keeps them out of the path."""
    debian = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda p: float(p.parts[-3]))
    found = str(debian[-1]) if debian else shutil.which("initdb")
    assert found, "there is no PostgreSQL: make postgres"
    return Path(found).parent


def unprivileged() -> dict[str, Any]:
    """Who runs the server: PostgreSQL refuses to be run by root."""
    if os.geteuid():
        return {}
    names = [user.pw_name for user in pwd.getpwall()]
    user = pwd.getpwnam("postgres" if "postgres" in names else "nobody")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def free_port() -> int:
    """A port that nobody listens to."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server() -> Iterator[str]:
    """A running server, as what psycopg connects to."""
    user, folder = unprivileged(), Path(tempfile.mkdtemp(prefix="muntin-postgres-"))
    if user:
        os.chown(folder, user["user"], user["group"])
    data, port = folder / "data", free_port()

    def run(program: str, *arguments: str) -> None:
        command = [str(programs() / program), "--pgdata", str(data), *arguments]
        # A server inherits what it is started with: pipes would be read until it ends.
        with (folder / "told.txt").open("wb") as told:
            done = subprocess.run(command, cwd=folder, stdout=told, stderr=told, check=False, **user)
        assert not done.returncode, (folder / "told.txt").read_text()

    try:
        run("initdb", "--username=tests", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync")
        settings = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories= -c fsync=off"
        run("pg_ctl", "--wait", "--options", settings, "start")
        try:
            yield f"host=127.0.0.1 port={port} user=tests dbname=postgres"
        finally:
            run("pg_ctl", "--wait", "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder)
