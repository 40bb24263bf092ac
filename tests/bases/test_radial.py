import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from downside.bases import Radial


def test_two_dimensions_by_hand():
    basis = Radial([0.0, -1.0], [4.0, 1.0], n_centres=3, width=0.5)
    # centres 2 apart in the first input and 1 in the second; (3, -0.5) is (1.5, 0.5) centres along
    features = dict(zip(basis.names, basis(np.array([3.0, -0.5])), strict=True))
    assert len(features) == 10
    assert features["1"] == 1.0
    assert features["near (2, -1)"] == pytest.approx(np.exp(-(0.5**2 + 0.5**2) / (2 * 0.5**2)))
    assert features["near (4, 1)"] == pytest.approx(np.exp(-(0.5**2 + 1.5**2) / (2 * 0.5**2)))


@given(st.floats(0.0, 1.0), st.floats(0.1, 5.0))
def test_the_nearest_centre_is_the_most_active(x, width):
    bumps = Radial([0.0], [1.0], n_centres=6, width=width)(np.array([x]))[1:]
    assert np.all((bumps >= 0.0) & (bumps <= 1.0))
    distances = np.abs(np.linspace(0.0, 1.0, 6) - x)
    assert distances[bumps.argmax()] == pytest.approx(distances.min(), abs=1e-6)
