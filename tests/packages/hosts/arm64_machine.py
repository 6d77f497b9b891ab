# SPDX-License-Identifier: MIT
"""An emulated arm64 machine that ssh reaches: Debian's kernel, C library, busybox and dropbear, all
in memory."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.append(str(ROOT / "tests/system"))

from run_arm64 import apt_options, call, cpio_entry, tool, unpacked_kernel  # noqa: E402

PACKAGES = (
    "busybox-static",
    "dropbear-bin",
    "libc6",
    "libcrypt1",
    "libtomcrypt1",
    "libtommath1",
    "libgmp10",
    "zlib1g",
)
MODULES = ("virtio_ring", "virtio", "virtio_mmio", "failover", "net_failover", "virtio_net")
KEPT = ("lib/", "usr/lib/", "usr/sbin/", "bin/", "usr/bin/dropbear")
"""What of the packages goes into the machine, kernel modules apart."""
INIT = """\
#!/bin/busybox sh
/bin/busybox --install -s /bin
export PATH=/bin:/usr/sbin HOME=/root
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev
mkdir -p /dev/pts /dev/shm; mount -t devpts pts /dev/pts; mount -t tmpfs shm /dev/shm
for module in {modules}; do insmod /modules/$module.ko || echo "no $module"; done
ip link set lo up; ip link set eth0 up; ip address add 10.0.2.15/24 dev eth0
chmod 700 /root /root/.ssh
echo starting dropbear
exec dropbear -F -E -s -R
"""
BOOT_S = 300
"""Far above the 20 s that it takes on a machine that does nothing else."""


def unpacked(folder: Path) -> Path:
    """The packages' files below an empty folder; nothing of this system is touched."""
    tree = unpacked_kernel("linux-image-cloud-arm64", "arm64", folder)
    options = apt_options(folder / "more", "arm64")
    call(["apt-get", *options, "update"], folder)
    call(["apt-get", *options, "download", *PACKAGES], folder)
    for package in folder.glob("*.deb"):
        if not package.name.startswith("linux-image"):
            call(["dpkg-deb", "-x", str(package), str(tree)], folder)
    return tree


def archive(tree: Path, key: Path, programs: dict[str, Path]) -> bytes:
    """The initial file system: the packages' files, `programs` by name in /root, and the key that
    may log in."""
    modules = {path.stem: path for path in tree.glob("lib/modules/**/*.ko")}
    files: dict[str, bytes] = {f"modules/{name}.ko": modules[name].read_bytes() for name in MODULES}
    links: dict[str, str] = {}
    for path in sorted(tree.rglob("*")):
        name = path.relative_to(tree).as_posix()
        if not name.startswith(KEPT) or name.startswith("lib/modules/") or path.is_dir():
            continue
        if path.is_symlink():
            links[name] = os.readlink(path)
        else:
            files[name] = path.read_bytes()
    files["init"] = INIT.format(modules=" ".join(MODULES)).encode()
    files["etc/passwd"] = b"root:x:0:0:root:/root:/bin/sh\n"
    files["etc/shells"] = b"/bin/sh\n"
    files["root/.ssh/authorized_keys"] = key.read_bytes()
    files |= {f"root/{name}": path.read_bytes() for name, path in programs.items()}
    folders = {parent.as_posix() for name in (*files, *links) for parent in Path(name).parents} - {
        "."
    }
    folders |= {"dev", "proc", "sys", "tmp", "etc/dropbear"}
    entries = [(name, stat.S_IFDIR | 0o755, b"") for name in sorted(folders)]
    entries += [(name, stat.S_IFLNK | 0o777, to.encode()) for name, to in links.items()]
    entries += [
        (name, stat.S_IFREG | (0o600 if ".ssh" in name or name.startswith("etc/") else 0o755), data)
        for name, data in files.items()
    ]
    made = b"".join(
        cpio_entry(name, mode, data, number) for number, (name, mode, data) in enumerate(entries, 1)
    )
    return made + cpio_entry("TRAILER!!!", 0, b"", 0)


class Arm64Machine:
    """Booted and listening; `port` is on the loopback interface here."""

    def __init__(self, folder: Path, key: Path, programs: dict[str, Path]) -> None:
        state = folder / "packages"
        state.mkdir()
        tree = unpacked(state)
        initrd = folder / "initrd.cpio"
        initrd.write_bytes(archive(tree, key, programs))
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self.port = found.getsockname()[1]
        self.console = (folder / "console").open("w+b")
        command = [
            tool("qemu-system-aarch64", "qemu-system-arm"),
            "-M",
            "virt",
            "-cpu",
            "max,pauth-impdef=on",
            "-smp",
            "2",
        ]
        command += [
            "-m",
            "1024",
            "-nographic",
            "-no-reboot",
            "-append",
            "console=ttyAMA0 quiet panic=-1",
        ]
        command += ["-kernel", str(next((tree / "boot").glob("vmlinuz-*"))), "-initrd", str(initrd)]
        command += ["-netdev", f"user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:{self.port}-:22"]
        command += ["-device", "virtio-net-device,netdev=net"]
        streams = {"stdin": subprocess.DEVNULL, "stdout": self.console, "stderr": subprocess.STDOUT}
        self.process = subprocess.Popen(command, **streams)
        self._wait()

    def _wait(self) -> None:
        """Until the server greets: the emulator itself takes connections long before."""
        end = time.monotonic() + BOOT_S
        while time.monotonic() < end:
            try:
                with socket.create_connection(("127.0.0.1", self.port), 5) as connection:
                    connection.settimeout(5)
                    if connection.recv(4) == b"SSH-":
                        return
            except OSError:
                pass
            time.sleep(0.5)
        self.close()
        sys.exit(f"no ssh in {BOOT_S} s; the console ends with:\n{self.said()[-2000:]}")

    def said(self) -> str:
        self.console.seek(0)
        return self.console.read().decode(errors="replace")

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
