import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from downside.bases import TileCoding

SQUARE = TileCoding([0.0, 10.0], [1.0, 20.0], n_tiles=4, n_tilings=8)


def test_two_dimensions_by_hand():
    basis = TileCoding([0.0, 0.0], [1.0, 1.0], n_tiles=2, n_tilings=4)
    # (0.3, 0.6) is (0.6, 1.2) in tiles; tiling t is shifted by (t/4, 3t/4 mod 1): 0 | 1/4, 3/4 |
    # 1/2, 1/2 | 3/4, 1/4, which gives the cells (0, 1), (0, 1), (1, 1), (1, 1)
    active = [name for name, x in zip(basis.names, basis(np.array([0.3, 0.6])), strict=True) if x]
    assert active == [
        "tiling 0, cell (0, 1)",
        "tiling 1, cell (0, 1)",
        "tiling 2, cell (1, 1)",
        "tiling 3, cell (1, 1)",
    ]
    assert basis.n_features == 4 * 3**2


@given(arrays(float, 2, elements=st.floats(-5.0, 25.0)))
def test_one_cell_of_every_tiling_is_active(obs):
    features = SQUARE(obs).reshape(8, 25)
    assert set(np.unique(features)) == {0.0, 1.0}
    assert features.sum(axis=1).tolist() == [1.0] * 8


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n_tilings", [7, 10, 64])
def test_the_far_corner_has_a_cell_in_every_tiling(dtype, n_tilings):
    basis = TileCoding([0.0, 0.1], [1.0, 0.7], n_tiles=10, n_tilings=n_tilings)
    assert basis(np.array([1.0, 0.7], dtype)).sum() == n_tilings


@given(st.floats(0.0, 0.95), st.floats(0.0, 0.05))
def test_neighbours_share_as_many_tiles_as_they_are_near(x, gap):
    # a step of a tile's fraction f leaves at most one boundary of each grid, in f n + 1 of n grids
    basis = TileCoding([0.0], [1.0], n_tiles=5, n_tilings=8)
    shared = basis(np.array([x])) @ basis(np.array([x + gap]))
    assert shared >= 8 - np.ceil(8 * 5 * gap + 1e-9) - 1e-9
    far = basis(np.array([0.1])) @ basis(np.array([0.1 + 2 / 5]))
    assert far == 0.0


def test_a_power_of_two_of_tilings_differs_in_every_direction():
    shifts = SQUARE._shifts
    assert [len(set(column)) for column in shifts.T] == [8, 8]
    assert shifts[1].tolist() == [1 / 8, 3 / 8]
