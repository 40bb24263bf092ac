import errno
import os
import shutil

import pytest

from downside.store import RunFolder, StoreError, files, read_newest
from store_samples import IDENTITY, arrays_of, check_promise, is_right, save_steps

CALLS = ["create", "write", "sync", "sync_folder", "make_folder", "rename"]
ERRORS = [errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES]


def fail_at(monkeypatch, call, n, number):
    """Let the n-th use of a call of the store fail, once."""
    real, uses = getattr(files, call), []

    def failing(*args):
        uses.append(args)
        if len(uses) == n:
            raise OSError(number, os.strerror(number))
        return real(*args)

    monkeypatch.setattr(files, call, failing)
    return uses


@pytest.mark.parametrize("number", ERRORS, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", CALLS)
def test_a_save_that_fails_leaves_the_last_one_and_the_next_succeeds(
    tmp_path, monkeypatch, call, number
):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1), {"seconds": 0.25})
        fail_at(monkeypatch, call, 1, number)
        words = rf"step 2 could not be saved in .*: {os.strerror(number)}.*step 1, is intact"
        with pytest.raises(StoreError, match=words):
            run.save(2, arrays_of(2), {"seconds": 0.5})
        assert run.newest().step == 1
        assert not list((tmp_path / "checkpoints").glob(".*"))
        run.save(2, arrays_of(2), {"seconds": 0.5})
        assert run.newest().step == 2
    check_promise(tmp_path, 2)


def test_what_a_failed_save_could_not_clear_away_is_cleared_later(tmp_path, monkeypatch):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1), {"seconds": 0.25})
        fail_at(monkeypatch, "sync", 1, errno.EIO)
        fail_at(monkeypatch, "remove_tree", 1, errno.EIO)
        with pytest.raises(StoreError, match="step 1, is intact"):
            run.save(2, arrays_of(2), {"seconds": 0.5})
        assert (tmp_path / "checkpoints/.saving-000000000002").exists()
        run.save(2, arrays_of(2), {"seconds": 0.5})
    check_promise(tmp_path, 2)


@pytest.mark.parametrize(("call", "n"), [("rename", 1), ("rename", 2), ("sync_folder", 2)])
def test_a_replacement_that_fails_keeps_one_of_the_two(tmp_path, monkeypatch, call, n):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1), {"seconds": 0.25})
        fail_at(monkeypatch, call, n, errno.EIO)
        with pytest.raises(StoreError, match="step 1, is intact"):
            run.save(1, arrays_of(1), {"seconds": 0.25})
    check_promise(tmp_path, 1)


def test_old_ones_that_cannot_be_removed_do_no_harm(tmp_path, monkeypatch):
    with RunFolder.open(tmp_path, IDENTITY, keep=1) as run:
        run.save(1, arrays_of(1))
        uses = fail_at(monkeypatch, "remove_tree", 1, errno.EACCES)
        run.save(2, arrays_of(2))
        run.save(3, arrays_of(3))
        assert len(uses) == 3  # the first one once more
    assert sorted(os.listdir(tmp_path / "checkpoints")) == ["000000000003"]


def test_a_system_that_takes_few_bytes_at_a_time(tmp_path, monkeypatch):
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[:100]))
    save_steps(tmp_path, [1])
    assert is_right(read_newest(tmp_path))


def test_an_interruption_leaves_nothing_behind(tmp_path, monkeypatch):
    def interrupt(*_):
        raise KeyboardInterrupt

    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1), {"seconds": 0.25})
        with monkeypatch.context() as patch:
            patch.setattr(files, "sync", interrupt)
            with pytest.raises(KeyboardInterrupt):
                run.save(2, arrays_of(2))
        assert os.listdir(tmp_path / "checkpoints") == ["000000000001"]
    check_promise(tmp_path, 1)


class Table:
    def write_parquet(self, file):
        file.write(b"rows")


@pytest.mark.parametrize("call", ["create", "write", "sync", "rename"])
def test_records_that_cannot_be_written(tmp_path, monkeypatch, call):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1))
        fail_at(monkeypatch, call, 1, errno.ENOSPC)
        with pytest.raises(StoreError, match=r"records.parquet could not.*No space.*is intact"):
            run.write_records(Table())
        assert sorted(os.listdir(tmp_path)) == ["checkpoints", "lock"]
        run.write_records(Table())
    assert (tmp_path / "records.parquet").read_bytes() == b"rows"


def test_a_folder_that_is_removed_while_in_use(tmp_path):
    with RunFolder.open(tmp_path / "a", IDENTITY) as run:
        run.save(1, arrays_of(1))
        shutil.rmtree(tmp_path / "a")
        with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
            run.save(2, arrays_of(2))
        save_steps(tmp_path / "a", [5])  # another run, at the same place
        with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
            run.save(2, arrays_of(2))
        with pytest.raises(StoreError, match="was removed or replaced while it was in use"):
            run.write_records(Table())
    assert is_right(read_newest(tmp_path / "a"))


def test_checkpoints_that_are_removed_while_in_use(tmp_path):
    with RunFolder.open(tmp_path, IDENTITY) as run:
        run.save(1, arrays_of(1))
        shutil.rmtree(tmp_path / "checkpoints")
        with pytest.raises(StoreError, match=r"No such file.*step 1, is gone too"):
            run.save(2, arrays_of(2))


def test_changing_the_working_folder_changes_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with RunFolder.open("a", IDENTITY) as run:
        (tmp_path / "b").mkdir()
        monkeypatch.chdir(tmp_path / "b")
        run.save(1, arrays_of(1), {"seconds": 0.25})
    assert is_right(read_newest(tmp_path / "a"))


@pytest.mark.parametrize("number", [errno.EACCES, errno.EMFILE])
def test_a_file_that_cannot_be_opened_now_is_not_taken_for_damage(tmp_path, monkeypatch, number):
    save_steps(tmp_path, [1, 2])
    real, uses = os.open, []

    def failing(path, *args, **options):
        uses.append(path)
        if path == "state.npz" and uses.count(path) == 1:
            raise OSError(number, os.strerror(number), path)
        return real(path, *args, **options)

    monkeypatch.setattr(os, "open", failing)
    with pytest.raises(StoreError, match=rf"{os.strerror(number)} \(state.npz\)"):
        read_newest(tmp_path)


def test_a_reader_looks_again_when_a_writer_has_thinned(tmp_path, monkeypatch):
    save_steps(tmp_path, [1])
    real, looks = files.open_file, []

    def thinned_meanwhile(name, inside):
        looks.append(name)
        if len(looks) == 1:
            save_steps(tmp_path, [2, 3], keep=1)
        return real(name, inside)

    monkeypatch.setattr(files, "open_file", thinned_meanwhile)
    found = read_newest(tmp_path)
    assert (found.step, found.skipped) == (3, ())
