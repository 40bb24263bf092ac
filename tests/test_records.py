import dataclasses

import jax
import jax.numpy as jnp
import pytest

from downside.records import record, static


@record
class Spring:
    stiffness: object
    coils: int = static(default=7)

    def __post_init__(self):
        if isinstance(self.stiffness, float) and self.stiffness < 0:
            raise ValueError(f"stiffness is {self.stiffness}; it is not negative")


def test_numbers_are_leaves_and_sizes_are_structure():
    spring = Spring(2.5, coils=3)
    assert jax.tree.leaves(spring) == [2.5]
    assert jax.tree.structure(spring) != jax.tree.structure(Spring(2.5, coils=4))
    assert jax.tree.map(lambda x: 2 * x, spring) == Spring(5.0, coils=3)


def test_leaves_have_names():
    [(path, value)] = jax.tree_util.tree_leaves_with_path(Spring(2.5))
    assert jax.tree_util.keystr(path) == ".stiffness"
    assert value == 2.5


def test_construction_checks_but_rebuilding_from_leaves_does_not():
    with pytest.raises(ValueError, match="stiffness is -1"):
        Spring(-1.0)
    assert jax.tree.map(lambda x: -x, Spring(1.5)).stiffness == -1.5


def test_a_batch_of_records_can_be_vmapped():
    springs = Spring(jnp.array([1.5, 2.5]))
    forces = jax.vmap(lambda spring: spring.stiffness * spring.coils)(springs)
    assert forces.tolist() == [10.5, 17.5]


def test_records_are_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Spring(1.5).stiffness = 2.0
