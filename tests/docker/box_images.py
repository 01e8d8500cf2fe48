"""The images of the boxed-agent tests, made on this machine without a registry.

A small Debian root is copied from the packages installed here and imported; the helper image that
verifiers closes the network with is a tag of it. In the box image the harness' own program is
already set up (its packages, their bytecode, a lock beside the script), so that a rollout needs no
package index. Made once: the tag names what the image was made from.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from box_engine import docker

from commands import BIN

NETWORK = "localhost/verifiers-network:1"
"""Where verifiers looks before it builds one from a registry's image."""
PACKAGES = (
    "base-files base-passwd bash coreutils dash debianutils diffutils findutils grep gzip hostname "
    "libc-bin mawk procps sed tar util-linux ca-certificates curl python3 iptables iproute2"
)
BARE = {"media-types", "mailcap", "openssl", "perl", "perl-base", "debconf", "adduser"}
"""Named by those packages, and not needed to run them."""
LINKS = [
    *(f"/{name}" for name in ("bin", "sbin", "lib", "lib64")),
    *(f"/usr/bin/{name}" for name in ("awk", "python3", "which")),
    *(f"/usr/sbin/{name}" for name in ("iptables", "iptables-nft")),
    *(f"/etc/alternatives/{name}" for name in ("awk", "iptables")),
    *(f"/etc/{name}" for name in ("passwd", "group", "nsswitch.conf", "ld.so.cache")),
    "/etc/ssl/certs/ca-certificates.crt",
]
"""What belongs to a running system and to no package's list of files."""
LEFT_OUT = re.compile(
    r"/(usr/share/(doc|man|locale|lintian|bug|info|zoneinfo|bash-completion|i18n)|var/lib/dpkg"
    r"|usr/lib/python3/dist-packages|usr/lib/x86_64-linux-gnu/gconv)(/|$)"
)
FOLDERS = ("tmp", "app", "root", "run", "proc", "sys", "dev", "var/tmp", "home")
INDEX_VARIABLES = ("UV_INDEX", "UV_DEFAULT_INDEX", "UV_EXTRA_INDEX", "UV_FIND_LINKS", "PIP_INDEX")


class NoImage(Exception):
    """Why the image cannot be made here, in words for the one who runs the tests."""


def box_image() -> str:
    """The tag of the box image; it is made if it is not there.

    Raises
    ------
    NoImage
        If this is no Debian machine, or one of `PACKAGES` is not installed.
    """
    # verifiers' own parts, asked for only where an engine is: they may move between versions.
    from verifiers.v1.harnesses.utils.launch import CHAT_PROGRAM_SOURCE

    made_from = Path(__file__).read_bytes() + CHAT_PROGRAM_SOURCE.encode()
    tag = f"nowcast-box:{hashlib.sha256(made_from).hexdigest()[:12]}"
    base = tag.replace("box", "base", 1)
    if not _exists(base):
        _import_root(base)
    if not _exists(NETWORK):
        docker("tag", base, NETWORK)
    if not _exists(tag):
        asyncio.run(_warm(base, tag, CHAT_PROGRAM_SOURCE))
    return tag


def _exists(tag: str) -> bool:
    return bool(docker("images", "--quiet", tag))


def _import_root(tag: str) -> None:
    """Import a small Debian root, with uv, as an image."""
    files = list(_files())
    uv = shutil.which("uv", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
    if uv is None:
        raise NoImage("there is no uv on PATH")
    changes = ["ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"]
    changes += ["ENV SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt", 'CMD ["bash"]']
    line = ["docker", "import", *(part for change in changes for part in ("-c", change)), "-", tag]
    with subprocess.Popen(
        line, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as importer:
        assert importer.stdin is not None
        assert importer.stderr is not None
        _write_root(importer.stdin, files, uv)
        importer.stdin.close()
        said = importer.stderr.read().decode(errors="replace")
    if importer.returncode != 0:
        raise RuntimeError(f"{' '.join(line)}: {said}")


def _write_root(out: IO[bytes], files: list[str], uv: str) -> None:
    with tarfile.open(fileobj=out, mode="w|") as root:
        for path in files:
            root.add(path, arcname=path.lstrip("/"), recursive=False)
        for name in FOLDERS:
            if f"/{name}" not in files:
                folder = tarfile.TarInfo(name)
                folder.type, folder.mode = tarfile.DIRTYPE, 0o1777 if "tmp" in name else 0o755
                root.addfile(folder)
        root.add(os.path.realpath(uv), arcname="usr/local/bin/uv")


def _files() -> Iterator[str]:
    """Every file of the wanted packages and of what they depend on, each once, links resolved."""
    names = sorted(_closure())
    listed = subprocess.run(["dpkg", "-L", *names], capture_output=True, text=True, check=True)
    seen = set()
    for path in sorted({*listed.stdout.splitlines(), *LINKS}):
        if not path.startswith("/") or path == "/." or LEFT_OUT.match(path):
            continue
        place = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
        if place not in seen and os.path.lexists(place):
            seen.add(place)
            yield place


def _closure() -> set[str]:
    """The wanted packages and, of those installed here, all they depend on."""
    try:
        status = Path("/var/lib/dpkg/status").read_text()
    except OSError:
        raise NoImage("the image is copied from Debian packages, and this is no Debian") from None
    depends: dict[str, list[list[str]]] = {}
    provider: dict[str, str] = {}
    for paragraph in status.split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))
        if " installed" in fields.get("Status", ""):
            name = fields["Package"]
            wants = f"{fields.get('Depends', '')},{fields.get('Pre-Depends', '')}"
            depends[name] = [_names(choice, "|") for choice in wants.split(",") if choice.strip()]
            for other in _names(fields.get("Provides", ""), ","):
                provider.setdefault(other, name)
    missing = [name for name in PACKAGES.split() if name not in depends]
    if missing:
        raise NoImage(f"packages are missing: {' '.join(missing)} (install_engine.sh has them)")
    todo, closure = PACKAGES.split(), set[str]()
    while todo:
        name = todo.pop()
        name = name if name in depends else provider.get(name, name)
        if name in closure or name not in depends or name in BARE:
            continue
        closure.add(name)
        for choice in depends[name]:
            todo += [one for one in choice if one in depends or one in provider][:1]
    return closure


def _names(field: str, separator: str) -> list[str]:
    """The package names of a field, without versions and architectures."""
    return [re.split(r"[ :(]", part.strip())[0] for part in field.split(separator) if part.strip()]


async def _warm(base: str, tag: str, program: str) -> None:
    """Set the harness' program up in a box as its first rollout would, and keep the box."""
    from verifiers.v1.runtimes import make_runtime
    from verifiers.v1.runtimes.docker import DockerConfig

    variables = os.environ.items()
    env = {
        k: v for k, v in variables if k.startswith(INDEX_VARIABLES) or k.lower().endswith("_proxy")
    }
    box = make_runtime(DockerConfig(image=base))
    await box.start()
    try:
        python, script = await box.prepare_uv_script(program, env, activate=False)
        # With a lock beside it, uv asks no index; without bytecode each start compiles for seconds.
        lines = [
            f"uv lock -q --no-config --script {script}",
            f"{python} -m compileall -q -j 0 $(dirname {python})/../lib",
            "rm -rf /root/.cache/uv/archive-v0 /root/.cache/uv/wheels-v*",
        ]
        done = await box.run(["sh", "-ec", "\n".join(lines)], env)
        if done.exit_code != 0:
            raise RuntimeError(f"cannot set up the box image: {done.stderr[-1000:]}")
        docker("commit", "-c", "ENTRYPOINT []", "-c", 'CMD ["bash"]', str(box.info.id), tag)
    finally:
        await box.stop()
