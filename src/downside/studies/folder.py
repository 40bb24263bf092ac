"""A study on disk: its trials, what has become of each, and the lock of its driver."""

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, final

from downside.store import StoreError, files, holder
from downside.store.errors import DamagedError, explaining
from downside.store.lock import Lock
from downside.store.plain import differences, encode
from downside.studies.documents import read_document, write_document
from downside.studies.study import Study, Trial

_VIEWS = {"results.parquet", "results.csv", "summary.csv", "report.html"}
STUDY, MANIFEST = "study.json", "manifest.json"
State = Literal["waiting", "stopped", "running", "done", "failed", "damaged"]


@dataclass(frozen=True)
class Fate:
    """What has become of a trial, as its manifest says.

    ``kept`` says whether a failed trial may go on from its checkpoint: a limit or a crash leaves
    a sound one, an error or a number that is not finite does not.
    """

    state: State
    reason: str = ""
    seconds: float = 0.0
    attempts: int = 0
    kept: bool = True
    files: dict[str, str] = field(default_factory=dict[str, str])


@final
class StudyFolder:
    """A study's folder that this process drives; no other one may meanwhile.

    >>> import tempfile
    >>> study = Study({"experiment": "landscape", "scale": "smoke"}, {"seed": [0, 1]})
    >>> with tempfile.TemporaryDirectory() as path, StudyFolder.open(path, study) as folder:
    ...     {id: fate.state for id, fate in folder.fates().items()}
    {'landscape/seed=0': 'waiting', 'landscape/seed=1': 'waiting'}
    """

    def __init__(self, path: Path, study: Study, lock: Lock) -> None:
        self.path, self.study, self._lock = path, study, lock

    @classmethod
    def open(cls, path: str | Path, study: Study | None = None) -> "StudyFolder":
        """Make a study's folder, or go on with one; a study may grow, never change."""
        path = Path(path).absolute()
        if study is None and not (path / STUDY).exists():
            raise StoreError(f"{path} holds no study; start one with: downside study run FILE")
        with explaining(f"{path} could not be opened for writing"):
            _make(path)
            lock = Lock(path / "lock")
            try:
                return cls(path, _settle(path, study), lock)
            except BaseException:
                lock.release()
                raise

    def fates(self) -> dict[str, Fate]:
        """What has become of every trial so far, by id."""
        return fates(self.path, self.study)

    def forget_failures(self, trials: Sequence[Trial]) -> None:
        """Let failed trials begin again, or go on where their checkpoint is sound."""
        for trial in trials:
            folder = trial_folder(self.path, trial)
            fate = read_fate(folder, trial)
            with explaining(f"{folder} could not be cleared"):
                if not fate.kept and (folder / "run").exists():
                    files.rename(folder / "run", _unused(folder))
                with suppress(FileNotFoundError):
                    files.remove_tree(folder / MANIFEST)
                files.sync_folder(folder)

    def forget(self, trials: Sequence[Trial]) -> None:
        """Let trials begin again from nothing, whatever has become of them."""
        for trial in trials:
            folder = trial_folder(self.path, trial)
            with explaining(f"{folder} could not be cleared"), suppress(FileNotFoundError):
                files.remove_tree(folder)

    def __enter__(self) -> "StudyFolder":
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def read_study(path: str | Path) -> Study:
    """The study of a folder."""
    document = read_document(Path(path) / STUDY)
    if document is None:
        raise StoreError(f"{path} holds no study; start one with: downside study run FILE")
    return Study.from_dict(document)


def trial_folder(path: str | Path, trial: Trial) -> Path:
    """Where a trial lives: its id is its path."""
    return Path(path) / "trials" / trial.id


def fates(path: str | Path, study: Study) -> dict[str, Fate]:
    """What has become of every trial of a study, by id."""
    return {trial.id: read_fate(trial_folder(path, trial), trial) for trial in study.trials}


def read_fate(folder: Path, trial: Trial) -> Fate:
    """What has become of the trial in a folder; "running" is asked for with `is_running`."""
    for path, is_right in ((folder, Path.is_dir), (folder / MANIFEST, Path.is_file)):
        if path.exists() and not is_right(path):
            return Fate("damaged", f"{path} is not a {'folder' if path == folder else 'file'}")
    try:
        document = read_document(folder / MANIFEST)
    except DamagedError as error:
        return Fate("damaged", str(error))
    if document is None:
        return Fate("stopped" if (folder / "log.txt").exists() else "waiting")
    theirs, ours = (encode("trial", x) for x in (document["specification"], trial.specification))
    if document["id"] != trial.id or theirs != ours:
        return Fate("damaged", f"{folder} holds another trial, {document['id']}")
    names = ("state", "reason", "seconds", "attempts", "kept", "files")
    fate = Fate(**{name: document[name] for name in names})
    for name, sha256 in fate.files.items():
        with explaining(f"{folder / name} could not be read"):
            try:
                content = (folder / name).read_bytes()
            except (FileNotFoundError, IsADirectoryError):
                return Fate("damaged", f"{folder / name} is missing")
        if hashlib.sha256(content).hexdigest() != sha256:
            return Fate("damaged", f"{folder / name} does not have the SHA-256 of its manifest")
    return fate


def is_intact(folder: Path, trial: Trial) -> bool:
    """Whether the trial in a folder has ended, and its files are those that it left."""
    return read_fate(folder, trial).state in ("done", "failed")


def write_fate(folder: Path, trial: Trial, fate: Fate, facts: dict[str, Any]) -> None:
    """The last thing that is written for a trial."""
    document = {"id": trial.id, "specification": trial.specification, **vars(fate), **facts}
    write_document(folder / MANIFEST, document)


def is_running(folder: Path) -> bool:
    """Whether a process is at work on a trial."""
    return holder(folder) is not None


def _make(path: Path) -> None:
    files.make_folders(path)
    if not path.is_dir():
        raise StoreError(f"{path} is not a folder; give another name")
    found = {name for name in os.listdir(path) if not name.startswith(".")}
    if STUDY not in found and found - {"lock", "trials", "cache", "ray", *_VIEWS}:
        raise StoreError(f"{path} is not empty and holds no study; give a new folder")


def _settle(path: Path, study: Study | None) -> Study:
    document = read_document(path / STUDY)
    found = Study.from_dict(document) if document is not None else None
    if study is None:
        assert found is not None  # looked for before
        return found
    if found is not None:
        _check_growth(path, found, study)
    if found is None or found.to_dict() != study.to_dict():
        write_document(path / STUDY, study.to_dict())
    files.make_folders(path / "trials")
    return study


def _check_growth(path: Path, found: Study, study: Study) -> None:
    here = {trial.id: trial for trial in study.trials}
    for trial in found.trials:
        if trial.id not in here:
            raise StoreError(
                f"{path} holds another study, with a trial {trial.id}; give another folder"
            )
        there, new = (encode("trial", t.specification) for t in (trial, here[trial.id]))
        if differing := differences(there, new):
            raise StoreError(
                f"{path} holds another study: in {trial.id}, {'; '.join(differing)}; "
                "give another folder"
            )


def _unused(folder: Path) -> Path:
    return next(p for i in range(10**6) if not (p := folder / f"failed-{i}").exists())
