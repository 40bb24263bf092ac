import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from downside.bases import Box, Polynomial

NUMBERS = st.floats(-1e6, 1e6)


@given(arrays(float, 3, elements=NUMBERS))
def test_clipping_lands_in_the_box_and_changes_only_what_is_outside(obs):
    box = Box([-1.0, 0.0, 5.0], [1.0, 0.25, 50.0])
    clipped, unit = box.clip(obs), box.unit(obs)
    assert box.outside(clipped) == 0
    assert np.sum(clipped != obs) == box.outside(obs)
    assert np.all((unit >= 0.0) & (unit <= 1.0))
    np.testing.assert_array_equal(box.clip(clipped), clipped)


def test_the_unit_cube_by_hand():
    assert Box([-2.0, 10.0], [2.0, 20.0]).unit([-1.0, 14.0]).tolist() == [0.25, 0.4]


def test_one_number_is_for_every_dimension():
    assert Box(0.0, [1.0, 2.0]) == Box([0.0, 0.0], [1.0, 2.0])
    assert Polynomial(3, low=-1.0).low == (-1.0, -1.0, -1.0)
