import gc
import os
from pathlib import Path

# Before JAX is imported: what one test has compiled, no other compiles again, in no process.
os.environ.setdefault(
    "JAX_COMPILATION_CACHE_DIR", str(Path(__file__).parents[1] / ".pytest_cache" / "programs")
)
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import hypothesis
import jax
import jaxtyping
import pytest

# The types of all calls are checked, except where Python environments are stepped one by one:
# there the checks would take most of the time.
STEPPED = {
    "downside.environments.python",
    "downside.environments.vectors",
    "downside.training.collecting",
    "downside.training.experience",
    "downside.training.host",
    "downside.training.lockstep",
    "downside.training.sampling",
    "downside.training.streams",
}
SOURCE = Path(__file__).parents[1] / "src"
MODULES = {
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if path.name != "__init__.py"  # a package would stand for all that is in it
}
assert MODULES > STEPPED
jaxtyping.install_import_hook(
    sorted(MODULES - STEPPED), "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
)

hypothesis.settings.register_profile("fixed", derandomize=True)
hypothesis.settings.load_profile("fixed")  # the same cases every time

jax.config.update("jax_numpy_dtype_promotion", "strict")

# What make quick runs: the exact mathematics, which neither simulates nor compiles much.
QUICK = {
    "bases/test_bad_input.py",
    "exact/test_bandit.py",
    "exact/test_constrained.py",
    "exact/test_tabular.py",
    "exact/test_tree.py",
    "policies/test_bad_input.py",
    "store/test_failures.py",
    "store/test_folder.py",
    "store/test_identity.py",
    "test_arrays.py",
    "test_docs.py",
    "test_package.py",
    "test_records.py",
    "test_signals.py",
}


MOST_MAPS = 30_000


@pytest.fixture(autouse=True, scope="module")
def room_for_programs():
    """A process of Linux has at most 65,530 maps of memory, and every program takes some."""
    yield
    maps = Path("/proc/self/maps")
    if maps.exists() and maps.read_text().count("\n") > MOST_MAPS:
        jax.clear_caches()
        gc.collect()


def pytest_collection_finish():
    """What was imported stays: no search for garbage goes through it again."""
    gc.freeze()


def pytest_collection_modifyitems(items):
    tests = Path(__file__).parent
    for item in items:
        inside = item.path.is_relative_to(tests)
        if not inside or item.path.relative_to(tests).as_posix() not in QUICK:
            item.add_marker(pytest.mark.slow)
