import subprocess
import sys

import gymnasium
import pytest

from downside.registration import register_environments

NAMES = ("Tree", "Bandit", "Portfolio", "Consumption")


def run(*lines: str) -> None:
    """Run ``lines`` in a process that has imported nothing yet."""
    subprocess.run([sys.executable, "-W", "error", "-c", "\n".join(lines)], check=True)


def test_all_four_are_registered_and_a_second_time_is_silent():
    register_environments()
    register_environments()
    ours = [spec for spec in gymnasium.registry if spec.startswith("downside/")]
    assert sorted(ours) == sorted(f"downside/{name}-v0" for name in NAMES)


@pytest.mark.parametrize("first", ["downside", "gymnasium"])
def test_importing_both_registers_in_either_order(first: str):
    second = {"downside": "gymnasium", "gymnasium": "downside"}[first]
    run(
        f"import {first}, {second}, sys",
        "import gymnasium",
        "assert gymnasium.spec('downside/Portfolio-v0').max_episode_steps is None",
        "assert not any(type(f).__module__ == 'downside.registration' for f in sys.meta_path)",
        "assert 'jax' not in sys.modules",
    )


def test_the_id_can_name_the_module_that_registers_it():
    run(
        "import gymnasium",
        "env = gymnasium.make('downside:downside/Portfolio-v0', default_probability=0.2)",
        "assert env.unwrapped.environment.default_probability == 0.2",
        "assert gymnasium.make_vec('downside:downside/Tree-v0', num_envs=3).num_envs == 3",
    )


def test_importing_the_package_imports_neither_gymnasium_nor_jax():
    run(
        "import downside, sys",
        "assert not {'gymnasium', 'jax'} & set(sys.modules)",
    )


def test_looking_for_gymnasium_is_not_importing_it():
    run(
        "import importlib.util, sys",
        "from downside.registration import register_with_gymnasium",
        "register_with_gymnasium()",
        "register_with_gymnasium()",
        "waiting = [f for f in sys.meta_path if type(f).__module__ == 'downside.registration']",
        "assert len(waiting) == 1",
        "assert importlib.util.find_spec('gymnasium') is not None",
        "assert 'gymnasium' not in sys.modules",
        "import gymnasium",
        "assert 'downside/Tree-v0' in gymnasium.registry",
        "assert waiting[0] not in sys.meta_path",
    )
