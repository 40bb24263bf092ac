"""Bad input is answered with one clear sentence: what came, what is allowed."""

import jaxtyping
import numpy as np
import pytest

from downside.bases import Custom, OneHot, Polynomial
from downside.policies import Beta, Gaussian, Gibbs, Product, SquashedGaussian

BASIS = Polynomial(2)
GIBBS, OBS = Gibbs(BASIS, 3), np.array([0.4, -1.3])
GAUSSIAN, BETA, SQUASHED = Gaussian(BASIS, size=2), Beta(BASIS), SquashedGaussian(BASIS)
TOO_SMALL = Custom(lambda obs: obs[..., :1], ["x1", "x2", "x3"])


@pytest.fixture(autouse=True)
def without_the_type_checker_of_the_tests(monkeypatch):
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


WHOLE = "it must be a whole number, at least"
BAD = {
    "one action": (lambda: Gibbs(BASIS, 1), f"n_actions is 1; {WHOLE} 2"),
    "half an action": (lambda: Gibbs(BASIS, 2.5), f"n_actions is 2.5; {WHOLE} 2"),
    "no hidden units": (lambda: Gibbs(BASIS, 3, hidden=(8, 0)), f"hidden is 0; {WHOLE} 1"),
    "hidden number": (lambda: Gibbs(BASIS, 3, hidden=8), r"hidden is 8; .* such as \(32, 32\)"),
    "no such action": (lambda: Gibbs(BASIS, 3, start=3), "start is 3; the actions are 0 to 2"),
    "half a start": (lambda: Gibbs(BASIS, 3, start=0.5), f"start is 0.5; {WHOLE} 0"),
    "certain start": (
        lambda: Gibbs(BASIS, 3, start=1, start_probability=1.0),
        "start_probability is 1.0; it must lie strictly between 0 and 1",
    ),
    "size 0": (lambda: Gaussian(BASIS, size=0), f"size is 0; {WHOLE} 1"),
    "negative floor": (lambda: Gaussian(BASIS, floor=-0.1), "floor is -0.1; it must be finite and"),
    "width below the floor": (
        lambda: Gaussian(BASIS, floor=0.5, width=0.4),
        r"width is \(0.4,\); it must be above the floor, 0.5",
    ),
    "no width": (lambda: Gaussian(BASIS, width=0.0), "must be above the floor, 0.0"),
    "unknown width": (lambda: Gaussian(BASIS, width=np.nan), "it must be finite"),
    "endless start": (
        lambda: Gaussian(BASIS, start=np.inf),
        r"start has the entry inf; it must be finite",
    ),
    "three starts for two": (
        lambda: Gaussian(BASIS, size=2, start=[1.0, 2.0, 3.0]),
        r"start is \[1.0, 2.0, 3.0\]; give one number, or one for each of 2",
    ),
    "beta, low above high": (lambda: Beta(BASIS, 2.0, 1.0), "low 2.0 and high 1.0 in dimension 0"),
    "beta, endless box": (lambda: Beta(BASIS, 0.0, np.inf), "Beta needs a finite box"),
    "beta, start outside": (
        lambda: Beta(BASIS, 1.0, 2.0, start=2.0),
        r"start is \(2.0,\); it must lie strictly between low \(1.0,\) and high \(2.0,\)",
    ),
    "beta, too wide": (
        lambda: Beta(BASIS, width=0.3),
        r"must be wider than 0 and narrower than \[0",
    ),
    "beta, no width": (lambda: Beta(BASIS, width=0.0), "must be wider than 0"),
    "beta, parameters": (
        lambda: Beta(BASIS, parameters="mode"),
        "parameters is 'mode'; choose one of 'shapes', 'mean'",
    ),
    "squashed, low above high": (lambda: SquashedGaussian(BASIS, [0, 2], [1, 1]), "in dimension 1"),
    "squashed, start outside": (lambda: SquashedGaussian(BASIS, start=-1.0), "strictly between"),
    "squashed, too wide": (
        lambda: SquashedGaussian(BASIS, width=0.5),
        r"between \[0.0\] and \[0.49",
    ),
    "squashed, no width": (lambda: SquashedGaussian(BASIS, width=0.0), "it must lie between"),
    "squashed, width below the floor": (
        lambda: SquashedGaussian(BASIS, width=0.1, floor=0.5),
        r"with a floor of 0.5 it must lie between \[0.11",
    ),
    "empty product": (lambda: Product([]), "a product of no policies has no action; give at least"),
    "mask forbids all": (
        lambda: GIBBS.sample(np.zeros(9), OBS, 0.5, mask=[False] * 3),
        "the mask forbids every action; allow at least one",
    ),
    "mask forbids all in one row": (
        lambda: GIBBS.mode(np.zeros(9), [OBS, OBS], mask=[[1, 0, 0], [0, 0, 0]]),
        "the mask forbids every action",
    ),
    "short mask": (
        lambda: GIBBS.entropy(np.zeros(9), OBS, mask=[True]),
        r"the mask has the shape \(1,\); its last axis must hold 3 entries, one per action",
    ),
    "action that is none": (
        lambda: GIBBS.log_prob(np.zeros(9), OBS, 3),
        "action is 3; the actions are 0 to 2",
    ),
    "basis of the wrong size": (
        lambda: Gibbs(TOO_SMALL, 2).mode(np.zeros(6), OBS),
        r"the basis function returned the shape \(1,\) for observations of shape \(2,\)",
    ),
    "short parameters": (
        lambda: GIBBS.mode(np.zeros(8), OBS),
        r"the parameters have the shape \(8,\); this policy has 9 of them in one vector",
    ),
    "parameters in a matrix": (lambda: GIBBS.mode(np.zeros((3, 3)), OBS), r"the shape \(3, 3\)"),
    "long parameters": (
        lambda: Product([GIBBS, BETA]).mode(np.zeros(16), OBS),
        r"the shape \(16,\); this policy has 15",
    ),
    "long observation": (
        lambda: GIBBS.mode(np.zeros(9), np.ones(3)),
        r"the observation has the shape \(3,\); its last axis must hold 2 numbers",
    ),
    "short action": (
        lambda: GAUSSIAN.log_prob(np.zeros(12), OBS, [0.3]),
        r"the action has the shape \(1,\); its last axis must hold 2 numbers",
    ),
    "long action": (lambda: BETA.log_prob(np.zeros(6), OBS, [0.3, 0.1]), "must hold 1 numbers"),
    "number for a vector": (
        lambda: SQUASHED.log_prob(np.zeros(6), OBS, 0.3),
        r"has the shape \(\)",
    ),
    "half a product's action": (
        lambda: Product([GIBBS, BETA]).log_prob(np.zeros(15), OBS, [1.0]),
        "its last axis must hold 2 numbers",
    ),
    "no constant": (
        lambda: Gaussian(Custom(lambda obs: obs, ["a", "b"]), start=1.0),
        r"this basis has none; add one, such as Concatenation\(\[Polynomial\(n\), basis\]\)",
    ),
    "no states": (lambda: Gibbs(OneHot(0), 2), f"size is 0; {WHOLE} 1"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_refused_in_one_sentence(name):
    build, message = BAD[name]
    with pytest.raises(ValueError, match=message) as caught:
        build()
    assert "\n" not in str(caught.value)
