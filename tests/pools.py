"""verifiers' env server as prime-rl runs it: a pool of worker processes behind one address.

A server is a process of its own, told its env as JSON; rollouts are asked for over the wire. What
it started (workers, and each worker's tool server) is read from /proc.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import boto3
import verifiers.v1 as vf
from moto.server import ThreadedMotoServer
from verifiers.v1.serve import EnvClient

from commands import environment
from nowcast_alfred.store.files import CACHE_VARIABLE

BUCKET = "vintages"
TOOL_SERVER = "nowcast_alfred.tools"
SERVE = """
import json, sys
import verifiers.v1 as vf
from verifiers.v1.serve import serve_env

class Told:
    def put(self, address):
        print(address, flush=True)

serve_env(
    address="tcp://127.0.0.1:0",
    address_queue=Told(),
    config_data=json.loads(sys.argv[1]),
    **vf.pool_serve_kwargs(vf.StaticPoolConfig(num_workers=int(sys.argv[2]))),
)
"""


class Server:
    """A running env server."""

    def __init__(self, process: subprocess.Popen[str], workers: int) -> None:
        self.pid = process.pid
        self.workers = workers
        assert process.stdout is not None
        self.address = process.stdout.readline().strip()
        assert self.address, "the env server ended at once; its error is on stderr"

    def worker_pids(self) -> list[int]:
        """The processes that run rollouts; with one worker there is no broker."""
        return [self.pid] if self.workers == 1 else [p for p in children(self.pid) if spawned(p)]

    def tool_servers(self) -> dict[int, list[int]]:
        """The tool servers below each worker."""
        return {
            pid: [one for one in below(pid) if command(one).endswith(f"-m {TOOL_SERVER}")]
            for pid in self.worker_pids()
        }

    def run(
        self, tasks: Iterable[vf.Task], model_url: str, at_once: int = 64
    ) -> list[vf.WireEpisode]:
        """One rollout of each task, at most `at_once` in flight; their episodes, in order."""
        return asyncio.run(self._run(list(tasks), model_url, at_once))

    async def _run(
        self, tasks: list[vf.Task], model_url: str, at_once: int
    ) -> list[vf.WireEpisode]:
        client = EnvClient(self.address)
        gate = asyncio.Semaphore(at_once)
        model = vf.EvalClientConfig(base_url=model_url, api_key_var="CANNED_API_KEY")

        async def one(task: vf.Task) -> vf.WireEpisode:
            async with gate:
                data = task.data.model_dump(mode="json")
                return await client.run(model, "canned/policy", vf.SamplingConfig(), data)

        try:
            await client.wait_for_server_startup(timeout=300)
            return list(await asyncio.gather(*map(one, tasks)))
        finally:
            await client.close()


@contextmanager
def serving(workers: int, store: str, **taskset: Any) -> Iterator[Server]:
    """An env server over the tools of a store, with the null harness, while the block runs."""
    env = {
        "taskset": {"id": "nowcast-alfred", "store": store, "closed_egress": False, **taskset},
        "agent": {"harness": {"id": "null"}, "runtime": {"type": "subprocess"}},
    }
    arguments = [sys.executable, "-c", SERVE, json.dumps(env), str(workers)]
    with subprocess.Popen(
        arguments, env=environment(), stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Server(process, workers)
        finally:
            process.terminate()
            process.communicate(timeout=60)


@contextmanager
def bucket(folder: Path, cache: Path) -> Iterator[str]:
    """URI of a folder's copy in a local S3 server, for processes with a cache of their own."""
    secrets = {"AWS_ACCESS_KEY_ID": "none", "AWS_SECRET_ACCESS_KEY": "none"}
    region = {"AWS_DEFAULT_REGION": "us-east-1", "AWS_EC2_METADATA_DISABLED": "true"}
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    address = "{}:{}".format(*server.get_host_and_port())
    with mock.patch.dict(os.environ, {**secrets, **region, CACHE_VARIABLE: str(cache)}):
        client = boto3.client("s3", endpoint_url=f"http://{address}")
        client.create_bucket(Bucket=BUCKET)
        for path in folder.rglob("*"):
            if path.is_file():
                key = path.relative_to(folder).as_posix()
                client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())
        yield f"s3://{BUCKET}?endpoint_override={address}&scheme=http&region=us-east-1"
    server.stop()


def children(pid: int) -> list[int]:
    """The child processes of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        found += map(int, task.read_text().split())
    return sorted(found)


def below(pid: int) -> list[int]:
    """All descendants of a process."""
    own = children(pid)
    return own + [one for child in own for one in below(child)]


def command(pid: int) -> str:
    """The command line of a process; empty if it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ").strip()
    except OSError:
        return ""


def spawned(pid: int) -> bool:
    """Whether a process is one that `multiprocessing` spawned to do work."""
    return "spawn_main" in command(pid)
