"""Methods of Java: a machine that runs is asked for their names; of one that has ended the page
says how to get them."""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

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


@pytest.fixture(scope="module")
def java(tmp_path_factory) -> list[str]:
    if any(shutil.which(tool) is None for tool in ("java", "javac", "jcmd")):
        pytest.skip("no JDK")
    folder = tmp_path_factory.mktemp("java")
    (folder / "Main.java").write_text(PROGRAM)
    subprocess.run(["javac", "Main.java"], cwd=folder, check=True)
    return ["java", "-cp", str(folder), "Main"]


def names(result: dict) -> set[str]:
    return {site["function"] for line in result["lines"] for site in line["sites"]}


def test_a_java_machine_that_runs_is_asked_for_its_methods(sampling, java, found) -> None:
    with subprocess.Popen([*java, "600"], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "runs\n"
        result = found("--pid", process.pid, "--for", "3s")
        process.kill()
    if "lock" not in str(result["lines"]):
        pytest.skip("the method was not compiled yet")
    assert any("Main.count" in name for name in names(result)), names(result)
    assert not any("Methods of Java" in note for note in result["notes"])
    assert not os.path.exists(f"/tmp/perf-{process.pid}.map")


def test_of_a_java_machine_that_has_ended_a_line_says_how_to_get_names(
    sampling, java, found
) -> None:
    result = found("--", *java, "3")
    unnamed = any("code without a file" in name for name in names(result))
    assert unnamed == any("Methods of Java" in note for note in result["notes"])
    assert unnamed or not result["lines"]
