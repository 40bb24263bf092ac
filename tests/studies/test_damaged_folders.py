"""Folders of studies that are damaged, in the way of a trial, or not to be used."""

import shutil

import numpy as np
import pytest

from downside.store import RunFolder, StoreError
from downside.studies.collecting import collect
from downside.studies.driving import run_study
from downside.studies.folder import StudyFolder, fates, read_study
from downside.studies.mending import set_aside
from downside.studies.study import Study
from study_squares import digests, fate_of, squares


@pytest.mark.parametrize("name", ["manifest.json", "results.parquet"])
def test_a_damaged_trial_is_made_again_with_the_same_bits(tmp_path, name):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(3)))
    before = digests(folder)
    damaged = folder / "trials/square/x=1" / name
    damaged.write_bytes(damaged.read_bytes()[:-9] + b"nonsense\n")
    assert fates(folder, read_study(folder))["square/x=1"].state == "damaged"
    assert sorted(set(collect(folder).collect()["x"])) == [0, 2]  # left out
    assert run_study(folder).left == []
    assert digests(folder) == before


def test_what_stands_in_the_way_of_a_trial_is_set_aside(tmp_path):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(4)))
    before, places = digests(folder), [folder / f"trials/square/x={i}" for i in range(4)]
    shutil.rmtree(places[0])
    places[0].write_text("mine")
    for place, name in zip(
        places[1:], ("manifest.json", "log.txt", "results.parquet"), strict=True
    ):
        (place / name).unlink()
        (place / name).mkdir()
        (place / name / "mine").touch()
    (places[2] / "manifest.json").unlink()
    found = fates(folder, read_study(folder))
    assert [found[f"square/x={i}"].state for i in range(4)] == [
        *["damaged"] * 2,
        "stopped",
        "damaged",
    ]
    assert found["square/x=0"].reason == f"{places[0]} is not a folder"
    assert run_study(folder).left == []
    assert digests(folder) == before
    assert places[0].with_name("x=0.damaged-0").read_text() == "mine"
    assert (places[2] / "log.txt.damaged-0" / "mine").exists()


def test_a_file_in_place_of_a_folder_above_a_trial_is_set_aside(tmp_path):
    folder = tmp_path / "study"
    (folder / "trials").mkdir(parents=True)
    (folder / "trials/square").write_text("mine")
    assert set_aside(folder / "trials/square/x=1") == [folder / "trials/square.damaged-0"]
    assert run_study(folder, Study(*squares(2))).fates["square/x=1"].state == "done"


def test_a_run_without_a_sound_checkpoint_is_set_aside(tmp_path):
    arrays = {"weights": np.array([1.5, 2.5])}
    with RunFolder.open(tmp_path / "run", {"seed": 3}) as run:
        states = [run.save(step, arrays) / "state.npz" for step in (200, 400)]
    states[1].write_bytes(b"nonsense")
    assert set_aside(tmp_path) == []  # the older one will do
    states[0].write_bytes(b"nonsense")
    assert set_aside(tmp_path) == [tmp_path / "run.damaged-0"]
    assert set_aside(tmp_path) == []


def test_folders_that_cannot_be_used(tmp_path):
    with pytest.raises(StoreError, match="holds no study; start one with: downside study run"):
        run_study(tmp_path / "nowhere")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="file"):
        run_study(tmp_path / "file", Study(*squares(1)))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").write_text("")
    with pytest.raises(StoreError, match="not empty and holds no study"):
        run_study(tmp_path / "other", Study(*squares(1)))


def test_a_file_of_somebody_else_does_not_block_a_study(tmp_path):
    with StudyFolder.open(tmp_path, Study(*squares(1))):
        (tmp_path / "notes.txt").touch()
    with StudyFolder.open(tmp_path) as folder:
        assert len(folder.study.trials) == 1


def test_a_folder_that_refuses_to_be_written(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(30, "Read-only file system", "study")

    monkeypatch.setattr("downside.store.files.make_folder", refuse)
    with pytest.raises(StoreError, match=r"could not be opened for writing: Read-only"):
        run_study(tmp_path / "study", Study(*squares(1)))


def test_the_folder_of_another_trial_is_damaged(tmp_path):
    folder = tmp_path / "study"
    run_study(folder, Study(*squares(3)))
    shutil.rmtree(folder / "trials/square/x=1")
    shutil.copytree(folder / "trials/square/x=2", folder / "trials/square/x=1")
    assert fate_of(folder, "square/x=1").state == "damaged"
    assert "holds another trial, square/x=2" in fate_of(folder, "square/x=1").reason
    assert run_study(folder).fates["square/x=1"].state == "done"
    assert collect(folder).collect()["value"].to_list() == [0.0, 1.0, 4.0]
