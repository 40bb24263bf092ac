"""Numbers in the sentences of the documentation that are not measured: settings, definitions, sums.

A phrase stands here as its page has it, line breaks apart; phrases of `ANYWHERE` are patterns. All
other numbers with a decimal point or a percent sign carry a mark, see prose.py.
"""

ANYWHERE = (r"nu = (0 and )?0\.\d+((,| and) 0\.\d+)*", r"95% (\w+ )?intervals?", r"Python 3\.11")
CONSTANTS = {
    "README.md": (),
    "docs/index.md": (),
    "docs/bound.md": (
        "The rows with 0% are theorems",
        "equal chance; g = 0.9",
        "tau = 1, g = 0.9",
        # worked out by hand, and tested beside the exact answers
        "(1-g) tau = 0.1 give a proxy of 0.1 + 0.9 x 0.1 = 0.19",
        "(1-g)/(1-g^2) = 0.526 it is 0.526 x 1.9 = 1",
        "share of the target, 0.526",
    ),
    "docs/paper/bandit.md": (
        "the middle 80%",
        "95% of 2,000 trials keep p(C) > 0.95",
        "95% of the trials keep p(right) > 0.95",
        "Share with p(right) > 0.95",
        "p(right) above 0.95",
        "steps of length 0.001",
        "Pareto(1, 1.5)",
        "a share of 96% in both rounds",
        "changed to 97% and 95.5%",
        "0.69 (arm C) from 0.20 (arm A)",  # exact, tested
    ),
    "docs/paper/consumption.md": (
        "middle 80%",
        "moves theta by at most 0.12",  # 1e-5 every 1,000 of 11,500,000 steps
        "1.8% of the wealth consumed",
        "At 0.1 and 0.15",
        "right to about 0.001",  # four times the shares at risk change it by less
    ),
    "docs/paper/landscape.md": ("a discount of 0.9",),
    "docs/paper/misprints.md": (
        # sums, tested
        "(1^2 + ... + 200^2)/200 = 67.2 W_0",
        "67.2/200 = 0.336 W_0",
    ),
    "docs/paper/portfolio.md": (
        "the middle 80%",
        "we call it held within 0.01",
        "Thresholds 0, 0.1, ..., 1",
        "the discount 0.99",
        "every binding threshold from 0.3 on",
        "(0.02, 0.05, 0.15: 0.05 was best",
        "(0.02, 0.1, 0.5, 2: 0.5)",
        "learnt mean reward (0.01)",
        "The 1% quantile",
        "a multiplier of 0.5",
    ),
    "docs/paper/prediction.md": (
        "samples for a 10% error",
        "It reaches 10% on every problem, but not 5%",
        "trace decay 0 or 0.9",
        "ridge 0.01 or 1",
        "from 0.003 to 3",
        "Samples for 10% error",
        "Samples for 5% error",
        "times as many for 10%",
        "samples for 10% against",
        "does not reach 5%",
    ),
    "docs/studies.md": (
        "127.0.0.1",
        # computed from the assumptions there
        "2.7 per second",
        "1.4 million files",
    ),
    "docs/benchmarks.md": (
        "95% of the trials keep the right arm above 0.95",
        "mean, LPM and minimum is 0.9",
        "damping of 1 instead of 0.1",
    ),
    "docs/real_environments.md": (
        "intervals are 95%",
        "discounted with 0.99",
        "deviation 0.1 on its actions",
        "half, or 0.8 or 0.9",
    ),
}
