"""The power may go at any instant: what was not synced may be there, in part, or not at all."""

import os
import shutil

import pytest

from disk_model import Disk, build
from downside.store import RunFolder, files
from store_samples import IDENTITY, arrays_of, check_promise

RECORDED = ["create", "write", "sync", "sync_folder", "make_folder", "rename", "remove_tree"]
STEPS = [1, 2, 2, 3, 4]  # with keep=1: plain saves, one replacement, three removals
TABLES = [f"{step} rows".encode() for step in STEPS]


class Table:
    def __init__(self, step):
        self.content = f"{step} rows".encode()

    def write_parquet(self, file):
        file.write(self.content)


@pytest.fixture
def events(tmp_path, monkeypatch):
    """All that a run asks of the disk, in order, and the steps that it acknowledged."""
    log, names = [], {}

    def recording(call, real):
        def record(subject, *args):
            if call == "remove_tree":
                log.extend(("remove", child) for child in subject.iterdir())
                log.append(("remove", subject))
                return real(subject)
            answer = real(subject, *args)
            if call == "create":
                names[answer] = subject
            path = names[subject] if call in ("write", "sync") else subject
            log.append((call, path, *args))
            return answer

        return record

    with monkeypatch.context() as patch:
        for call in RECORDED:
            patch.setattr(files, call, recording(call, getattr(files, call)))
        with RunFolder.open(tmp_path / "recorded/a", IDENTITY, keep=1) as run:
            for step in STEPS:
                run.save(step, arrays_of(step), {"seconds": step / 4})
                log.append(("acknowledged", step))
                if step in (1, 3):
                    run.write_records(Table(step))
    return log


def test_every_power_cut_leaves_what_was_acknowledged(tmp_path, events, monkeypatch):
    promises = {}
    disk, acknowledged = Disk(tmp_path), None
    for event in events:
        if event[0] == "acknowledged":
            acknowledged = event[1]
        else:
            disk.apply(*event)
        for found in disk.after_cut():
            promises[found] = acknowledged  # the same disk later: it must keep the later promise
    assert len(promises) > 100
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power cut while we look
    for number, (found, acknowledged) in enumerate(promises.items()):
        root = tmp_path / str(number)
        build(found, root)
        if acknowledged is not None or (root / "recorded/a").exists():
            check_promise(root / "recorded/a", acknowledged)
        records = root / "recorded/a/records.parquet"
        assert not records.exists() or records.read_bytes() in TABLES
        shutil.rmtree(root)
