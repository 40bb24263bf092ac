"""A process is killed, or the system refuses, at each call that a save makes (with strace)."""

import os
import re
import shutil
import signal
from collections import Counter

import pytest

from store_samples import check_promise
from traced_runs import Server, why_not

CALLS = "mkdir,openat,write,fsync,rename,unlink,unlinkat,rmdir,getdents64"
CHANGES = {"mkdir", "write", "fsync", "rename", "unlink", "unlinkat", "rmdir"}
REFUSED = {
    "ENOSPC": {"mkdir", "openat", "write", "fsync", "rename"},
    "EIO": {"openat", "write", "fsync", "rename", "unlink", "unlinkat", "rmdir", "getdents64"},
}
pytestmark = pytest.mark.skipif(why_not() != "", reason=why_not())


@pytest.fixture(scope="module")
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="module")
def calls(server, tmp_path_factory):
    """The calls of the saves after the first: (name, how many-th of that name, text)."""
    folder = tmp_path_factory.mktemp("traced")
    trace = folder / "trace"
    ended, log = server.run(folder / "run", "-o", str(trace), "-e", f"trace={CALLS}")
    assert (ended, log) == (0, "acknowledged 1\nacknowledged 2\nacknowledged 2\n")
    counts, found = Counter(), []
    for line in trace.read_text().splitlines():
        name = line.partition("(")[0]
        counts[name] += 1
        found.append((name, counts[name], line))
    first = next(i for i, (*_, line) in enumerate(found) if "acknowledged 1" in line)
    return [call for call in found[first + 1 :] if "acknowledged" not in call[2]]


def runs_with(fault, chosen, server, folder):
    """Run once for each chosen call, with the fault there."""
    for name, n, line in chosen:
        path = folder / f"{name}-{n}"
        inject = ["-o", os.devnull, "-e", f"trace={name}", "-e", f"inject={name}:{fault}:when={n}"]
        ended, log = server.run(path, *inject)
        yield f"{line}\n{log}", ended, log, path
        shutil.rmtree(path)


def acknowledged(log):
    return max(int(step) for step in re.findall(r"^acknowledged (\d)$", log, re.MULTILINE))


def test_a_kill_at_any_call_loses_nothing(server, calls, tmp_path):
    chosen = [call for call in calls if call[0] in CHANGES or "O_CREAT" in call[2]]
    assert {name for name, *_ in chosen} >= {"mkdir", "openat", "write", "fsync", "rename"}
    for story, ended, log, path in runs_with("signal=KILL", chosen, server, tmp_path):
        assert os.WIFSIGNALED(ended), story
        assert os.WTERMSIG(ended) == signal.SIGKILL, story
        check_promise(path, acknowledged(log))


@pytest.mark.parametrize("error", REFUSED)
def test_a_system_that_refuses_any_call_loses_nothing(server, calls, tmp_path, error):
    chosen = [call for call in calls if call[0] in REFUSED[error]]
    n_refused = 0
    for story, ended, log, path in runs_with(f"error={error}", chosen, server, tmp_path):
        assert ended == 0, story
        assert len(re.findall("^acknowledged", log, re.MULTILINE)) == 3, story
        n_refused += "refused" in log
        check_promise(path, 2)
    assert n_refused > len(chosen) / 3  # the others only keep old ones from being removed
