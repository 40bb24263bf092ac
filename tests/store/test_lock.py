import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from downside.store import RunFolder, StoreError, holder
from store_samples import IDENTITY, arrays_of, save_steps

TESTS = Path(__file__).parents[1]
HOLD = """
import sys
from store_samples import IDENTITY, arrays_of
from downside.store import RunFolder
with RunFolder.open(sys.argv[1], IDENTITY) as run:
    run.save(2, arrays_of(2))
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def other(tmp_path):
    """Another process that holds the folder until its input ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=TESTS,
    )
    assert process.stdout.readline() == "held\n"
    with process:
        yield process
        process.kill()


def test_a_folder_that_another_process_holds_is_refused_by_name(tmp_path, other):
    words = rf"is in use by process {other.pid} on .* since 20.*sys.argv.*; wait until it ends"
    with pytest.raises(StoreError, match=words):
        RunFolder.open(tmp_path, IDENTITY)
    found = holder(tmp_path)
    assert found.pid == other.pid
    assert "sys.argv" in found.command
    assert found.host
    other.communicate()
    assert holder(tmp_path) is None
    save_steps(tmp_path, [3])


def test_the_lock_of_a_killed_process_is_free(tmp_path, other):
    other.send_signal(signal.SIGKILL)
    other.wait()
    assert str(other.pid) in (tmp_path / "lock").read_text()
    assert holder(tmp_path) is None
    with RunFolder.open(tmp_path, IDENTITY) as run:
        assert run.newest().step == 2
        assert holder(tmp_path).pid == os.getpid()


def test_a_process_does_not_open_a_folder_twice(tmp_path):
    with (
        RunFolder.open(tmp_path, IDENTITY) as run,
        pytest.raises(StoreError, match=f"is in use by process {os.getpid()}"),
    ):
        RunFolder.open(tmp_path, IDENTITY)
    run.close()
    with pytest.raises(StoreError, match="is closed; open it again"):
        run.save(2, arrays_of(2))


def test_a_forked_child_does_not_keep_the_lock(tmp_path):
    script = """
import os, sys
from store_samples import IDENTITY
from downside.store import RunFolder
run = RunFolder.open(sys.argv[1], IDENTITY)
forked, tell = os.pipe()
if os.fork() == 0:
    os.write(tell, b".")
    sys.stdin.read()
    os._exit(0)
os.read(forked, 1)
print("held", flush=True)
os.kill(os.getpid(), 9)
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=TESTS,
    )
    with process:
        assert process.stdout.readline() == b"held\n"
        process.wait()  # the child lives on, waiting for its input
        assert holder(tmp_path) is None
        save_steps(tmp_path, [2])
        process.stdin.close()


def test_asking_who_holds_a_folder_does_not_keep_a_run_out(tmp_path):
    save_steps(tmp_path, [1])
    stop = threading.Event()

    def ask():
        while not stop.is_set():
            holder(tmp_path)

    asking = threading.Thread(target=ask)
    asking.start()
    try:
        for step in range(2, 15):
            save_steps(tmp_path, [step])
    finally:
        stop.set()
        asking.join()


def test_nobody_holds_what_is_not_there(tmp_path):
    assert holder(tmp_path) is None
    assert holder(tmp_path / "nowhere") is None


@pytest.mark.parametrize("text", [b"", b"\x00\xff", b"[1]", b'{"pid": "x"}', b"[" * 9000])
def test_a_lock_without_a_readable_text_still_holds(tmp_path, text):
    with RunFolder.open(tmp_path, IDENTITY):
        (tmp_path / "lock").write_bytes(text)
        assert holder(tmp_path).host == "an unknown host"
        with pytest.raises(StoreError, match="in use by process 0 on an unknown host"):
            RunFolder.open(tmp_path, IDENTITY)


def test_the_text_of_a_lock_cannot_move_the_cursor(tmp_path):
    text = b'{"pid": 3, "host": "h\\u001b[2J", "command": "c\\n", "started": "now"}'
    with RunFolder.open(tmp_path, IDENTITY):
        (tmp_path / "lock").write_bytes(text)
        assert str(holder(tmp_path)) == "process 3 on h?[2J since now: c?"


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir, lambda path: path.symlink_to("elsewhere")])
def test_a_lock_that_is_no_plain_file_is_refused(tmp_path, make):
    save_steps(tmp_path, [2])
    (tmp_path / "lock").unlink()
    make(tmp_path / "lock")
    for use in (holder, lambda path: RunFolder.open(path, IDENTITY)):
        with pytest.raises(StoreError, match="lock"):
            use(tmp_path)
    assert not (tmp_path / "elsewhere").exists()
