"""The Ray engine: a task per trial, on Ray started here or on a cluster that is there already.

A task supervises a worker process, as a thread of the local engine does, and keeps it for the next
task: the trial itself runs in the same kind of process with the same environment, so that its bits
are the same. Ray brings the tasks to the machines, and starts a task again when its own process
dies. Every machine must see the study's folder.
"""

import importlib
import importlib.util
import os
import secrets
import tempfile
import threading
import time
from collections import deque
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from downside.store.errors import StoreError, explaining
from downside.studies.documents import read_document
from downside.studies.folder import STUDY, Fate, is_running, trial_folder
from downside.studies.local import cache_folder
from downside.studies.study import Limits, Trial
from downside.studies.supervising import MOST_KILLS, Event, StoppedError, Supervisor

_SOCKETS = 40  # characters; Ray puts about 65 more behind, and a socket's path has at most 107
_LOCAL = "127.0.0.1"
_LOOK_SECONDS = 1.0
_HEAD_SECONDS = "RAY_gcs_rpc_server_reconnect_timeout_s"
_QUIET: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}


def run_ray(
    path: Path,
    trials: Sequence[Trial],
    limits: Limits,
    workers: int | None,
    address: str | None,
    stop: threading.Event,
) -> Generator[Event | None]:
    """Run trials as Ray tasks; None comes when nothing has happened for a while.

    Ray is given more tasks than it has room for, so that none of it waits for the driver; a trial
    is said to have begun when its lock is held.
    """
    if importlib.util.find_spec("ray") is None:
        raise ValueError("the engine 'ray' needs Ray; install it: pip install 'downside[ray]'")
    with _connected(path, address, workers) as ray:
        for trial in trials:
            _check_room(ray.nodes(), trial)
        yield from _run(ray, path, trials, limits, workers, stop)


def _run(
    ray: Any,
    path: Path,
    trials: Sequence[Trial],
    limits: Limits,
    workers: int | None,
    stop: threading.Event,
) -> Generator[Event | None]:
    task = ray.remote(max_retries=MOST_KILLS)(run_task)
    waiting = deque(trials)
    running: dict[Any, Trial] = {}
    queued: dict[str, Trial] = {}  # Ray has them, and may not have begun them
    looked = 0.0
    most = workers or max(4, 2 * int(ray.cluster_resources().get("CPU", 1)))
    while waiting or running:
        while waiting and len(running) < most and not stop.is_set():
            trial = waiting.popleft()
            options = task.options(
                num_cpus=trial.devices,
                num_gpus=trial.specification["gpus"],
                name=trial.id,
            )
            place = trial_folder(path, trial)
            running[options.remote(asdict(trial), str(path), str(place), asdict(limits))] = trial
            queued[trial.id] = trial
        if time.monotonic() > looked + _LOOK_SECONDS:
            looked = time.monotonic()
            for trial in [t for t in queued.values() if is_running(trial_folder(path, t))]:
                yield queued.pop(trial.id), None
        if stop.is_set():
            for reference, trial in running.items():
                with suppress(Exception):
                    ray.cancel(reference, force=True)
                if trial.id not in queued:
                    yield trial, StoppedError()
            return
        done, _ = ray.wait(list(running), num_returns=1, timeout=0.2)
        if not done:
            yield None
        for reference in done:
            trial = running.pop(reference)
            queued.pop(trial.id, None)
            yield trial, _fate(ray, reference)


def _check_room(nodes: list[dict[str, Any]], trial: Trial) -> None:
    """Refuse a trial for which Ray would wait for ever."""
    asked = {"CPU": trial.devices, "GPU": trial.specification["gpus"]}
    alive = [node["Resources"] for node in nodes if node["Alive"]]
    if not any(all(node.get(what, 0) >= n for what, n in asked.items()) for node in alive):
        raise ValueError(
            f"{trial.id} asks for {asked['CPU']} CPUs and {asked['GPU']} GPUs, and no machine of "
            "Ray has them; give fewer devices and gpus, or more --workers"
        )


def _fate(ray: Any, reference: Any) -> Fate | Exception:
    try:
        return Fate(**ray.get(reference))
    except ray.exceptions.RayTaskError as error:
        return StoreError(str(error.cause))
    except ray.exceptions.RayError as error:
        return StoreError(f"Ray gave up: {str(error).splitlines()[0]}")


_supervisors: dict[str, Supervisor] = {}


def run_task(
    trial: dict[str, Any], path: str, folder: str, limits: dict[str, float]
) -> dict[str, Any]:
    """What a Ray task does: run the trial in a worker process that outlives the task."""
    if read_document(Path(path) / STUDY) is None:
        raise StoreError(
            f"{os.uname().nodename} does not see {path}; give a folder on a disk that all machines "
            "of the cluster share"
        )
    supervisor = _supervisors.setdefault(path, Supervisor(cache_folder(Path(path))))
    return vars(supervisor.run(Trial(**trial), Path(folder), Limits(**limits), lambda: False))


@contextmanager
def _connected(path: Path, address: str | None, workers: int | None) -> Generator[Any]:
    """A connection to Ray that ends with the drive; Ray itself ends too if it was started here."""
    if address is not None:
        import ray

        ray.init(address=address, runtime_env={"py_modules": _shipped()}, **_QUIET)
        try:
            yield ray
        finally:
            ray.shutdown()
        return
    with _own_files(path) as files, _environment(_settings(path)):
        import ray  # it looks at the environment when it is imported

        config = importlib.import_module("ray._raylet").Config
        config.initialize("")  # and here once more, if it was imported long ago
        ray.init(
            address="local",
            num_cpus=workers,
            include_dashboard=False,
            **_QUIET,
            _node_ip_address=_LOCAL,
            _temp_dir=str(files),
        )
        try:
            if (here := ray.util.get_node_ip_address()) != _LOCAL:
                raise ValueError(
                    f"Ray would listen at {here}, since it was imported before; run the study in a "
                    "process of its own, such as: downside study run FILE --engine ray"
                )
            yield ray
        finally:
            ray.shutdown()


def _settings(path: Path) -> dict[str, str]:
    """Token authentication with a token of this drive, kept where only its owner reads it."""
    token = path / "ray" / "token"
    with explaining(f"{token} could not be written"):
        descriptor = os.open(token, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        os.fchmod(descriptor, 0o600)
        with os.fdopen(descriptor, "w") as file:
            file.write(secrets.token_hex(32))
    return {
        "RAY_AUTH_MODE": "token",
        "RAY_AUTH_TOKEN_PATH": str(token),
        "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # this machine alone: bound to 127.0.0.1
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
        _HEAD_SECONDS: os.environ.get(_HEAD_SECONDS, "15"),  # a head of our own never comes back
        "RAY_worker_niceness": "0",  # its own is 15: on a busy machine nearly nothing
    }


@contextmanager
def _own_files(path: Path) -> Generator[Path]:
    """Ray's own files, in the study's folder; by a short name, since sockets allow no long one."""
    folder = path / "ray" / "files"
    with explaining(f"{folder} could not be made"):
        folder.parent.mkdir(mode=0o700, exist_ok=True)  # Ray opens its own to everybody
        folder.parent.chmod(0o700)
        folder.mkdir(exist_ok=True)
    if len(str(folder)) <= _SOCKETS:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="ds-") as short:
        link = Path(short) / "ray"
        link.symlink_to(folder)
        yield link


@contextmanager
def _environment(changes: dict[str, str]) -> Generator[None]:
    before = {name: os.environ.get(name) for name in [*changes, "RAY_AUTH_TOKEN"]}
    os.environ.update(changes)
    os.environ.pop("RAY_AUTH_TOKEN", None)  # it would count more than the file
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _shipped() -> list[str]:
    """The package itself; its dependencies must be there already."""
    spec = importlib.util.find_spec("downside")
    assert spec is not None
    assert spec.origin is not None
    return [str(Path(spec.origin).parent)]
