import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from downside.bases import Fourier

UNIT = st.floats(0.0, 1.0)


def test_order_three_in_two_dimensions_has_sixteen_features():
    basis = Fourier([0.0, -1.0], [2.0, 1.0], order=3)
    features = basis(np.array([0.5, 0.2]))  # (1/4, 3/5) in the unit square
    # feature 4 i + j has the frequencies (i, j)
    assert features.shape == (16,)
    assert features[0] == 1.0
    assert features[2] == pytest.approx(np.cos(2 * np.pi * 0.6))
    assert features[4] == pytest.approx(np.cos(np.pi / 4))
    assert features[13] == pytest.approx(np.cos(np.pi * (3 / 4 + 3 / 5)))


def test_names():
    names = Fourier([0.0, 0.0], [1.0, 1.0], order=2).names
    assert names[:3] == ("cos(0)", "cos(pi x2)", "cos(pi 2 x2)")
    assert names[5] == "cos(pi (x1 + 2 x2))"


@given(UNIT, UNIT)
def test_features_are_chebyshev_polynomials_of_the_first_cosine(x, y):
    # cos(2 t) = 2 cos(t)^2 - 1 and cos(3 t) = 4 cos(t)^3 - 3 cos(t)
    one, c1, c2, c3 = Fourier([0.0], [1.0], order=3)(np.array([x]))
    assert one == 1.0
    assert c2 == pytest.approx(2 * c1**2 - 1, abs=1e-12)
    assert c3 == pytest.approx(4 * c1**3 - 3 * c1, abs=1e-12)
    # cos(a + b) + cos(a - b) = 2 cos(a) cos(b), with b negative where x - y is
    both = Fourier([0.0, 0.0], [1.0, 1.0], order=1)(np.array([x, y]))[3]
    assert both + np.cos(np.pi * (x - y)) == pytest.approx(
        2 * np.cos(np.pi * x) * np.cos(np.pi * y), abs=1e-12
    )
