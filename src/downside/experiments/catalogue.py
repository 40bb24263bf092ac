"""Which experiments there are; light enough for the command line's help."""

from typing import Literal, NamedTuple

Scale = Literal["smoke", "default", "full"]

EXPERIMENTS = {
    "landscape": "Figs. 1 and 2: the tree and its landscape of mean and risk; claims 1 to 6",
    "bandit": "Fig. 3: three agents on the bandit, beside Monte-Carlo gradients; claim 7",
    "portfolio": "Fig. 4: mean against risk as the threshold grows; claims 10 and 12",
    "consumption": "Fig. 5: learning to consume under a bound, beside the optimum; claim 11",
    "prediction": "Sample efficiency of risk estimates, measured; claims 2, 3, 4, 8, 9",
}

LONGEST_FIRST = ("consumption", "portfolio", "bandit", "prediction", "landscape")
"""The order in which they are begun, so that no core waits long for the last."""


class PaperClaim(NamedTuple):
    """A claim of the paper: a name, what it says, and the experiments that judge it."""

    name: str
    says: str
    judged_by: tuple[str, ...]


CLAIMS = {
    1: PaperClaim(
        "subadditivity", "Lemma 1: both partial moments of order 1 are subadditive", ("landscape",)
    ),
    2: PaperClaim("bound", "the proxy bounds the LPM from above", ("landscape", "prediction")),
    3: PaperClaim(
        "contraction",
        "the proxy's Bellman operator is a contraction",
        ("landscape", "prediction"),
    ),
    4: PaperClaim(
        "variance",
        "Lemma 2: V[(c - X)+] <= V[X]; and the Bellman targets follow it",
        ("landscape", "prediction"),
    ),
    5: PaperClaim(
        "landscape",
        "Fig. 2: mean-variance has local optima at deterministic policies, "
        "the LPM has a single optimum at (1, 1)",
        ("landscape",),
    ),
    6: PaperClaim(
        "compatible",
        "Theorem 1: the weights of compatible critics are the natural gradient of the Lagrangian",
        ("landscape",),
    ),
    7: PaperClaim(
        "bandit",
        "Fig. 3: after about 5,000 samples both risk-averse policies have converged on arm C; "
        "Monte-Carlo needs about 1e5",
        ("bandit",),
    ),
    8: PaperClaim(
        "efficiency",
        "TD estimates of the proxy are more sample-efficient than Monte-Carlo",
        ("prediction",),
    ),
    9: PaperClaim(
        "higher orders", "higher-order moments suffer from more variance", ("prediction",)
    ),
    10: PaperClaim(
        "frontier",
        "Fig. 4: as nu grows, mean and LPM grow and the minimum falls; "
        "lowering the proxy lowers the LPM",
        ("portfolio",),
    ),
    11: PaperClaim(
        "consumption",
        "Fig. 5: smaller nu gives a lower mean and a lower J_C; every run finds a feasible "
        "solution; learning is stable",
        ("consumption",),
    ),
    12: PaperClaim(
        "no calibration",
        "NRCPO removes the need to tune the multiplier, and does not depend on the reward's scale",
        ("portfolio",),
    ),
}
