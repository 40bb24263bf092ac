"""Make the paper's four environments known to Gymnasium, importing neither it nor JAX."""

import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, final

_NAMES = ("Tree", "Bandit", "Portfolio", "Consumption")


def register_environments() -> None:
    """Register ``downside/Tree-v0`` and the three others; a second call changes nothing.

    The problems end by themselves, so there is no limit on the steps of an episode.

    >>> register_environments()
    >>> import gymnasium
    >>> gymnasium.make("downside/Portfolio-v0", default_probability=0.2).action_space
    Discrete(11)
    """
    from gymnasium.envs.registration import register, registry

    for name in _NAMES:
        if f"downside/{name}-v0" not in registry:
            register(
                id=f"downside/{name}-v0",
                entry_point="downside.environments.gymnasium:GymnasiumEnv",
                vector_entry_point="downside.environments.gymnasium:GymnasiumVectorEnv",
                kwargs={"environment": name},
            )


def register_with_gymnasium() -> None:
    """Register now if Gymnasium is imported already, else as soon as it is.

    Gymnasium calls no plugins, and importing it takes longer than ``downside --help`` may.

    >>> register_with_gymnasium()
    """
    if "gymnasium" in sys.modules:
        register_environments()
    elif not any(isinstance(finder, _AfterImport) for finder in sys.meta_path):
        sys.meta_path.insert(0, _AfterImport())


@final
class _AfterImport(MetaPathFinder):
    """Lets the other finders find Gymnasium, and registers once it is loaded."""

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != "gymnasium":
            return None
        others = (finder for finder in sys.meta_path if finder is not self)
        found = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next((spec for spec in found if spec is not None), None)
        if spec is None or spec.loader is None:
            return None
        load = spec.loader.exec_module

        def load_and_register(module: ModuleType) -> None:
            load(module)
            sys.meta_path.remove(self)
            register_environments()

        spec.loader.exec_module = load_and_register
        return spec
