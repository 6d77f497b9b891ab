# SPDX-License-Identifier: MIT
"""Code that is compiled at run time: a Java machine that runs is asked for its methods. Where names
are missing, those of JavaScript too, what the page says brings them."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import pytest

from linewright.find import mapped_files
from support.finding import sampled

PROGRAM = """
import java.util.concurrent.atomic.AtomicLong;
public class Main {
    static final AtomicLong hits = new AtomicLong();
    static void count(long until) {
        while (System.nanoTime() < until) for (int i = 0; i < 1000; i++) hits.incrementAndGet();
    }
    public static void main(String[] given) throws Exception {
        long until = System.nanoTime() + Long.parseLong(given[0]) * 1000000000L;
        Thread other = new Thread(() -> count(until));
        other.start();
        System.out.println("runs");
        count(until);
        other.join();
    }
}
"""


@pytest.fixture(autouse=True)
def no_list_is_left():
    """Both compilers leave their lists in /tmp."""
    before = {*Path("/tmp").glob("perf-*.map")}
    yield
    for path in {*Path("/tmp").glob("perf-*.map")} - before:
        if not Path("/proc", path.stem.removeprefix("perf-")).exists():
            path.unlink()


@pytest.fixture(scope="module")
def java(tmp_path_factory) -> list[str]:
    if any(shutil.which(tool) is None for tool in ("java", "javac", "jcmd")):
        pytest.skip("no JDK")
    folder = tmp_path_factory.mktemp("java")
    (folder / "Main.java").write_text(PROGRAM)
    subprocess.run(["javac", "Main.java"], cwd=folder, check=True)
    return ["java", "-cp", str(folder), "Main"]


def names(result: dict) -> set[str]:
    """Of functions on shared lines, and of what called them."""
    sites = [site for line in result["lines"] for site in line["sites"]]
    return {site[of] for site in sites for of in ("function", "caller")} - {""}


def test_a_java_machine_that_runs_is_asked_for_its_methods(sampling, java, found) -> None:
    with subprocess.Popen([*java, "600"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        result = sampled(lambda seconds: found("--pid", process.pid, "--for", seconds), "3s")
        process.kill()
    if "lock" not in str(result["lines"]):
        pytest.skip("the method was not compiled yet")
    assert any("Main.count" in name for name in names(result)), names(result)
    assert not any("Methods of Java" in note for note in result["notes"])
    assert not os.path.exists(f"/tmp/perf-{process.pid}.map")


def hint(result: dict, about: str) -> str:
    """The remark about names that are missing; without one, what is asked cannot be seen here."""
    remarks = [note for note in result["notes"] if about in note]
    unnamed = [name for name in names(result) if re.match("code without a file|Builtins_", name)]
    assert bool(unnamed) == bool(remarks) and (unnamed or not result["lines"])
    if not remarks:
        pytest.skip("the functions were not compiled yet")
    return remarks[0]


def test_a_java_machine_is_started_with_what_the_page_says(sampling, java, found) -> None:
    said = hint(found("--", *java, "3"), "Methods of Java")
    (options,) = re.findall(r"JAVA_TOOL_OPTIONS='[^']*'", said)
    given = ("--", "env", *shlex.split(options), *java)
    result = sampled(lambda seconds: found(*given, seconds.rstrip("s")), "3s")
    assert any("Main.count" in name for name in names(result)), names(result)
    assert not any("Methods of Java" in note for note in result["notes"])


def test_a_java_machine_that_runs_is_asked_as_the_page_says(
    sampling, java, found, monkeypatch
) -> None:
    """Where `find` has no `jcmd`, as in another's container."""
    with subprocess.Popen([*java, "600"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        monkeypatch.setattr(mapped_files.shutil, "which", lambda name: None)
        said = hint(found("--pid", process.pid, "--for", "3s"), "Methods of Java")
        monkeypatch.undo()
        (asked,) = re.findall(r"jcmd \d+ [\w.]+", said)
        subprocess.run(asked.split(), check=True, stdout=subprocess.DEVNULL)
        result = sampled(lambda seconds: found("--pid", process.pid, "--for", seconds), "3s")
        process.kill()
    assert any("Main.count" in name for name in names(result)), names(result)


JAVASCRIPT = """
const { Worker, isMainThread, workerData } = require('worker_threads');
function count(words, own) {
    while (Math.min(Atomics.load(words, 32), Atomics.load(words, 48)) < 300) {
        for (let i = 0; i < 100000; i++) Atomics.add(words, 0, 1);
        Atomics.add(words, own, 1);
    }
}
const words = isMainThread ? new Int32Array(new SharedArrayBuffer(256)) : workerData;
if (isMainThread) new Worker(__filename, { workerData: words });
count(words, isMainThread ? 32 : 48);
"""
"""Both threads count until each has counted 30 million, however late the second one begins."""


def test_javascript_is_started_with_what_the_page_says(sampling, found, tmp_path) -> None:
    if shutil.which("node") is None:
        pytest.skip("no Node.js")
    (tmp_path / "count.js").write_text(JAVASCRIPT)
    said = hint(found("--", "node", tmp_path / "count.js"), "Functions of JavaScript")
    (line,) = re.findall(r"node --[\w-]+", said)
    result = found("--", *line.split(), tmp_path / "count.js")
    assert any(re.match("JS:.?count ", name) for name in names(result)), names(result)
    assert not any("Functions of JavaScript" in note for note in result["notes"])
