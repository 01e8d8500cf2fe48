"""A store in an object store: the same answers as from the folder it was copied from."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
import pyarrow.fs as pafs
import pytest
from moto.server import ThreadedMotoServer

from nowcast_alfred.errors import StoreCorrupt, StoreError, StoreMismatch, StoreNotFound
from nowcast_alfred.store import open_store, publish, verify_store
from store_samples import large_series, levels_digest, output, point_cache_at, python, series

BUCKET = "vintages"
PREFIX = "made/large"
KEY, SECRET = "AKIAXEXAMPLEXKEY", "sEcReTsEcReTsEcReT"
ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": KEY,
    "AWS_SECRET_ACCESS_KEY": SECRET,
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
}
LARGE_DAYS = ("1970-06-01", "1985-05-05", "2000-01-01", "2030-01-01")
READER = """
import sys
from store_samples import levels_digest
from nowcast_alfred.store import open_store
store = open_store(sys.argv[1])
print(store.fingerprint, levels_digest(store, sys.argv[2:]))
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path) -> Iterator[None]:
    patch = point_cache_at(tmp_path / "cache")
    for name, value in ENVIRONMENT.items():
        patch.setenv(name, value)
    yield
    patch.undo()


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    """Address of a local S3 server with the bucket."""
    logging.getLogger("werkzeug").setLevel(logging.WARNING)
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    client_of(f"{host}:{port}").create_bucket(Bucket=BUCKET)
    yield f"{host}:{port}"
    server.stop()


def client_of(endpoint: str):  # type: ignore[no-untyped-def]  # boto3 has no types
    return boto3.client(
        "s3",
        endpoint_url=f"http://{endpoint}",
        region_name="us-east-1",
        aws_access_key_id=KEY,
        aws_secret_access_key=SECRET,
    )


def uri_of(endpoint: str, prefix: str = PREFIX, bucket: str = BUCKET) -> str:
    return f"s3://{bucket}/{prefix}?endpoint_override={endpoint}&scheme=http&region=us-east-1"


def upload(folder: Path, endpoint: str, prefix: str) -> None:
    client = client_of(endpoint)
    for path in folder.rglob("*"):
        if path.is_file() and path.name != ".lock":
            key = f"{prefix}/{path.relative_to(folder).as_posix()}"
            client.put_object(Bucket=BUCKET, Key=key, Body=path.read_bytes())


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory, endpoint: str) -> Path:
    """A store of several megabytes, which is also in the bucket."""
    folder = tmp_path_factory.mktemp("large") / "store"
    publish(folder, [large_series(f"S{n:02d}", n) for n in range(12)])
    assert sum(path.stat().st_size for path in folder.rglob("*.parquet")) > 3_000_000
    remote, root = pafs.FileSystem.from_uri(
        uri_of(endpoint).replace("s3://", f"s3://{KEY}:{SECRET}@")
    )
    pafs.copy_files(str(folder), root, pafs.LocalFileSystem(), remote)
    return folder


@pytest.fixture
def small(tmp_path: Path, endpoint: str) -> Iterator[str]:
    """Prefix of a store of two versions, of its own in the bucket."""
    folder = tmp_path / "store"
    publish(folder, [series("PAY", [("2020-01-01", "2020-02-01", 1.0)])])
    publish(folder, [series("PAY", [("2020-01-01", "2020-03-01", 2.0)])])
    prefix = tmp_path.name
    upload(folder, endpoint, prefix)
    return prefix


def message_of(kind: type[StoreError], uri: str) -> str:
    with pytest.raises(StoreError) as caught:
        open_store(uri)
    assert type(caught.value) is kind
    said = str(caught.value)
    assert KEY not in said
    assert SECRET not in said
    assert SECRET not in repr(caught.value.__cause__)
    return said


def test_concurrent_readers_of_a_bucket_read_what_the_folder_holds(
    large: Path, endpoint: str, tmp_path: Path
) -> None:
    uri = uri_of(endpoint)
    caches = ["shared", "shared", "own-1", "own-2"]
    readers = [
        python(READER, uri, *LARGE_DAYS, NOWCAST_ALFRED_CACHE=str(tmp_path / cache))
        for cache in caches
    ]
    local = open_store(large)
    expected = f"{local.fingerprint} {levels_digest(local, LARGE_DAYS)}"
    assert [output(reader) for reader in readers] == [expected] * len(readers)
    for cache in caches:
        assert len(list((tmp_path / cache).glob("*.arrow"))) == 1


def test_a_bucket_and_its_folder_share_one_cache(
    large: Path, endpoint: str, tmp_path: Path
) -> None:
    remote = open_store(uri_of(endpoint))
    local = open_store(large)
    assert remote.fingerprint == local.fingerprint
    assert len(list((tmp_path / "cache").glob("*.arrow"))) == 1


def test_the_endpoint_and_the_region_may_come_from_the_environment(
    large: Path, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{endpoint}")
    store = open_store(f"s3://{BUCKET}/{PREFIX}/")
    assert store.fingerprint == verify_store(large)[0].fingerprint


def test_a_bucket_is_verified_like_a_folder(large: Path, endpoint: str) -> None:
    assert verify_store(uri_of(endpoint)) == verify_store(large)


def test_old_versions_open_from_a_bucket(small: str, endpoint: str, tmp_path: Path) -> None:
    uri = uri_of(endpoint, small)
    newest = open_store(uri).fingerprint
    (old,) = {path.stem for path in (tmp_path / "store" / "manifests").iterdir()} - {newest}
    assert open_store(uri, old).view("2021-01-01").observations("PAY").value.tolist() == [1.0]
    assert open_store(uri).view("2021-01-01").observations("PAY").value.tolist() == [2.0]
    with pytest.raises(StoreMismatch, match=f"s3://{BUCKET}/{small} is at version {newest[:12]}"):
        open_store(uri, "0" * 64)


@pytest.mark.parametrize("what", ["vintages", "series-", "manifest.json"])
@pytest.mark.parametrize("damage", ["flipped", "truncated", "empty"])
def test_a_damaged_object_is_named(small: str, endpoint: str, what: str, damage: str) -> None:
    client = client_of(endpoint)
    manifest, _ = verify_store(uri_of(endpoint, small))
    named = {"vintages": manifest.series["PAY"].file, "series-": manifest.meta_file}
    name = named.get(what, what)
    data = client.get_object(Bucket=BUCKET, Key=f"{small}/{name}")["Body"].read()
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    bad = {"flipped": flipped, "truncated": data[:-7], "empty": b""}[damage]
    client.put_object(Bucket=BUCKET, Key=f"{small}/{name}", Body=bad)
    said = message_of(StoreCorrupt, uri_of(endpoint, small))
    assert said.startswith(f"s3://{BUCKET}/{small}/{name}")


def test_a_deleted_object_is_named(small: str, endpoint: str) -> None:
    manifest, _ = verify_store(uri_of(endpoint, small))
    name = manifest.series["PAY"].file
    client_of(endpoint).delete_object(Bucket=BUCKET, Key=f"{small}/{name}")
    said = message_of(StoreCorrupt, uri_of(endpoint, small))
    assert said.startswith(f"s3://{BUCKET}/{small}/{name} is missing")
    assert any(name in fault for fault in verify_store(uri_of(endpoint, small))[1])


@pytest.mark.parametrize("user", ["", f"{KEY}:{SECRET}@"])
def test_a_missing_bucket_or_prefix_is_a_missing_store(endpoint: str, user: str) -> None:
    for bucket, prefix in ((BUCKET, "nowhere"), ("no-such-bucket", PREFIX)):
        uri = uri_of(endpoint, prefix, bucket).replace("s3://", f"s3://{user}")
        said = message_of(StoreNotFound, uri)
        assert said.startswith(f"no store at s3://{bucket}/{prefix} (no manifest.json)")


def test_credentials_in_a_uri_are_never_shown(small: str, endpoint: str) -> None:
    uri = uri_of(endpoint, small).replace("s3://", f"s3://{KEY}:{SECRET}@")
    store = open_store(uri)
    with pytest.raises(Exception, match="no series 'NONE'") as caught:
        store.outcome("NONE", "2020-01-01", "lin")
    assert SECRET not in str(caught.value)
    with pytest.raises(StoreMismatch) as mismatch:
        open_store(uri, "0" * 64)
    assert SECRET not in str(mismatch.value)
    name = verify_store(uri)[0].series["PAY"].file
    client_of(endpoint).put_object(Bucket=BUCKET, Key=f"{small}/{name}", Body=b"")
    (fault,) = verify_store(uri)[1]
    assert fault.startswith(f"s3://{BUCKET}/{small}/{name} is damaged")
    assert SECRET not in fault


class _Refusal(BaseHTTPRequestHandler):
    """A server that lets nobody in."""

    def do_GET(self) -> None:
        body = f"<Error><Code>InvalidAccessKeyId</Code><K>{KEY}</K></Error>".encode()
        self.send_response(403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def test_a_refusal_of_the_server_is_a_clear_error() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Refusal)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        endpoint = f"127.0.0.1:{server.server_address[1]}"
        for user in ("", f"{KEY}:{SECRET}@"):
            said = message_of(StoreError, uri_of(endpoint).replace("s3://", f"s3://{user}"))
            assert said.startswith(f"cannot read s3://{BUCKET}/{PREFIX}/manifest.json: ")
            assert "ACCESS_DENIED" in said
    finally:
        server.shutdown()
        server.server_close()
