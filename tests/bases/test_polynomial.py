from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from downside.bases import Polynomial


def test_order_one_is_affine():
    basis = Polynomial(3)
    assert basis(np.array([4.0, -5.0, 0.5])).tolist() == [1.0, 4.0, -5.0, 0.5]
    assert basis.names == ("1", "x1", "x2", "x3")


def test_order_three_by_hand():
    basis = Polynomial(2, order=3)
    assert basis.names[6:] == ("x1^3", "x1^2 x2", "x1 x2^2", "x2^3")
    # x = 2, y = 3: 1 | 2 3 | 4 6 9 | 8 12 18 27
    assert basis(np.array([2.0, 3.0])).tolist() == [1, 2, 3, 4, 6, 9, 8, 12, 18, 27]


@settings(max_examples=30)
@given(st.integers(1, 4), st.integers(1, 4), st.data())
def test_features_are_all_monomials_in_the_order_of_their_names(n_inputs, order, data):
    x = data.draw(arrays(float, n_inputs, elements=st.floats(-3.0, 3.0)))
    basis = Polynomial(n_inputs, order)
    by_name = {}
    for powers in product(range(order + 1), repeat=n_inputs):
        if sum(powers) <= order:
            terms = [f"x{i + 1}" + (f"^{n}" if n > 1 else "") for i, n in enumerate(powers) if n]
            by_name[" ".join(terms) or "1"] = np.prod(x ** np.array(powers))
    assert set(basis.names) == set(by_name)
    expected = [by_name[name] for name in basis.names]
    np.testing.assert_allclose(basis(x), expected, rtol=1e-12, atol=1e-300)
