"""What the consumption problem's results say about claim 11."""

import numpy as np
from scipy import stats

from downside.experiments.base import OURS, Claim, Results, Verdict, left_out, too_early

WINDOW = 100  # evaluations in a moving average, as in the paper
LONG = {"figure": 8_000_000, "recommended": 3_000_000}  # steps from where on we judge
OFTEN = 0.9  # a share of runs or evaluations that we call all but a few
NEAR = 0.01  # a distance |J_C - nu| that we call at nu
STEADY = 0.1  # a drop below the best so far that we call stable
ENOUGH = 0.95  # a fraction of the exact optimum that we call near
CAPITAL = "11 capital", f"{OURS} with a target that sums to the initial wealth, nu limits losses"


def window_of(n_evaluations: int) -> int:
    """How many evaluations are averaged: the paper's 100, fewer in a short run."""
    return max(1, min(WINDOW, n_evaluations // 3))


def moving_average(curves: np.ndarray, window: int) -> np.ndarray:
    """The mean of the last ``window`` values along the last axis, of fewer at the start.

    >>> moving_average(np.array([1.0, 3.0, 8.0, 4.0]), 2).tolist()
    [1.0, 2.0, 5.5, 6.0]
    """
    sums = np.cumsum(curves.astype(float), axis=-1)
    sums[..., window:] -= sums[..., :-window].copy()
    return sums / np.minimum(np.arange(1, curves.shape[-1] + 1), window)


def judge(results: Results) -> list[Claim]:
    """The verdicts on the three parts of claim 11, on the losses, and on what was possible."""
    of_figure = [_ordering(results), _feasible(results), _stable(results)]
    of_ours = [_losses(results), _optimum(results)]
    of_ours.append(_capital(results) if "capital thresholds" in results else left_out(*CAPITAL))
    claims: list[Claim] = []
    for name, judged in (("figure", of_figure), ("recommended", of_ours)):
        steps = int(results[f"steps: {name}"][-1])
        claims += [
            too_early(c, name, steps, LONG[name]) if steps < LONG[name] else c for c in judged
        ]
    return claims


def ordered(results: Results, name: str, what: str) -> np.ndarray:
    """Whether a final quantity grows with nu, seed by seed: (seeds,)."""
    values = results[f"final {what}: {name}"]
    return np.all(np.diff(values, axis=0) > 0, axis=0)


def _by_threshold(results: Results, what: str, name: str) -> dict[str, float]:
    """The mean over seeds of a final quantity at each nu."""
    rows = zip(results["thresholds"], results[f"final {what}: {name}"], strict=True)
    return {f"{what} at nu = {nu:g}: {name}": float(values.mean()) for nu, values in rows}


def _by_seed(thresholds: np.ndarray, values: np.ndarray, what: str) -> dict[str, float]:
    """A number (thresholds, seeds) of every learner, where a mean would hide one of them."""
    return {
        f"{what} at nu = {nu:g}, seed {i}": float(value)
        for nu, row in zip(thresholds, values, strict=True)
        for i, value in enumerate(row)
    }


def _share(hits: np.ndarray) -> tuple[float, float, float]:
    """A share of runs with its interval (Wilson's)."""
    count, n = int(np.sum(hits)), int(np.size(hits))
    interval = stats.binomtest(count, n).proportion_ci(method="wilson")
    return count / n, float(interval.low), float(interval.high)


def _ordering(results: Results) -> Claim:
    evidence: dict[str, float] = {}
    for name in results["presets"].tolist():
        for what in ("mean", "risk", "lpm"):
            share = ordered(results, name, what).mean()
            evidence[f"share ordered by {what}: {name}"] = float(share)
            evidence |= _by_threshold(results, what, name)
    evidence |= _by_seed(results["thresholds"], results["final risk: figure"], "figure: J_C")
    both = ordered(results, "figure", "mean") & ordered(results, "figure", "risk")
    measured, low, high = _share(both)
    moved = (
        "printed" not in results["presets"] or evidence["share ordered by mean: printed"] >= OFTEN
    )
    verdict: Verdict = "fails" if high < OFTEN else "holds"
    if verdict == "holds" and not (moved and evidence["share ordered by lpm: figure"] >= OFTEN):
        verdict = "holds with a correction"
    return Claim(
        id="11 ordering",
        paper="Fig. 5: a smaller nu gives a lower mean and a lower J_C",
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        what="share of seeds whose final mean and J_C are in the order of nu, preset figure",
        note=(
            "With the printed constants the policy hardly moves: J_C stays at 0 and the three "
            "curves are one. With those of preset figure they separate as the text says. The LPM "
            "about the initial wealth is ordered by nu in "
            f"{evidence['share ordered by lpm: figure']:.0%} of the seeds."
        ),
        evidence=evidence,
    )


def _feasible(results: Results) -> Claim:
    bounded = np.isfinite(results["thresholds"])
    bounds = results["thresholds"][bounded][:, None, None]
    evidence: dict[str, float] = {}
    for name in results["presets"].tolist():
        risk = results[f"risk: {name}"][bounded]
        last = slice(-max(1, risk.shape[-1] // 5), None)
        average = moving_average(risk, window_of(risk.shape[-1]))
        evidence[f"share of evaluations: {name}"] = float(np.mean(risk[..., last] <= bounds))
        evidence[f"share of moving averages: {name}"] = float(np.mean(average[..., last] <= bounds))
        distance = np.abs(results[f"final risk: {name}"][bounded] - bounds[..., 0])
        evidence[f"|J_C - nu| of final policies: {name}"] = float(distance.mean())
    risk = results["risk: figure"][bounded]
    last = slice(-max(1, risk.shape[-1] // 5), None)
    per_seed = np.mean(risk[..., last] <= bounds, axis=(0, -1))
    low, high = (float(x) for x in np.quantile(per_seed, [0.025, 0.975]))
    measured = evidence["share of evaluations: figure"]
    verdict: Verdict = "fails"
    if measured >= OFTEN:
        verdict = "holds"
    elif evidence["|J_C - nu| of final policies: figure"] <= 2 * NEAR:
        verdict = "holds with a correction"
    return Claim(
        id="11 feasibility",
        paper="in all cases the algorithm identifies a feasible solution",
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        what=(
            "share of evaluations with J_C <= nu in the last fifth of the training, preset figure; "
            "the interval is that of the seeds"
        ),
        note=(
            "J_C hovers at nu instead of staying below it: the final policies are "
            f"{evidence['|J_C - nu| of final policies: figure']:.3f} away from it on average. Who "
            "needs the bound itself trains with a somewhat smaller nu."
        ),
        evidence=evidence,
    )


def _stable(results: Results) -> Claim:
    evidence: dict[str, float] = {}
    for name in results["presets"].tolist():
        drops = largest_drops(results[f"mean: {name}"])
        evidence[f"largest drop: {name}"] = float(drops.max())
        evidence[f"median drop: {name}"] = float(np.median(drops))
        evidence[f"learners that went non-finite: {name}"] = float(results[f"failed: {name}"])
    measured, lost = (
        evidence[f"{what}: figure"] for what in ("largest drop", "learners that went non-finite")
    )
    return Claim(
        id="11 stability",
        paper="learning is highly stable",
        measured=measured,
        verdict="holds" if measured <= STEADY and lost == 0 else "fails",
        what=(
            "largest drop of a run's moving average of J_R below its best so far, "
            "as a share of it, preset figure"
        ),
        note=(
            f"The worst of all runs loses {measured:.1%} at some time; the median run "
            f"{evidence['median drop: figure']:.1%}. Learners that went non-finite: {lost:.0f}."
        ),
        evidence=evidence,
    )


def largest_drops(curves: np.ndarray) -> np.ndarray:
    """How far each moving average falls below its best so far, as a share of that.

    >>> largest_drops(np.array([[1.0, 2.0, 1.5, 3.0]])).tolist()
    [0.25]
    """
    average = moving_average(curves, window_of(curves.shape[-1]))
    best = np.maximum.accumulate(average, axis=-1)
    return np.max((best - average) / best, axis=-1)


def _at_equal_steps(results: Results, name: str, other: str) -> dict[str, float]:
    """J_R and J_C of one preset less another, after the steps of the shorter run, paired by seed.

    Both are means over a tenth of the evaluations of the shorter run, up to its end.
    """
    end = min(int(results[f"steps: {each}"][-1]) for each in (name, other))
    found: dict[str, float] = {"steps compared: " + f"{name} less {other}": float(end)}
    for what in ("mean", "risk"):
        late = []
        for each in (name, other):
            steps = results[f"steps: {each}"]
            late.append(results[f"{what}: {each}"][..., (steps > 0.9 * end) & (steps <= end)])
        gaps = late[0].mean(axis=-1) - late[1].mean(axis=-1)
        error = gaps.std(axis=1, ddof=1) / np.sqrt(gaps.shape[1])
        for nu, row, spread in zip(results["thresholds"], gaps, error, strict=True):
            found[f"{what} at nu = {nu:g}: {name} less {other}"] = float(row.mean())
            found[f"{what} at nu = {nu:g}, standard error: {name} less {other}"] = float(spread)
    return found


def _losses(results: Results) -> Claim:
    mean, risk, lpm = results["even consumer"].tolist()
    evidence = {"even consumer: mean": mean, "even consumer: J_C": risk, "even consumer: LPM": lpm}
    for name in results["presets"].tolist():
        evidence |= _by_threshold(results, "share", name)
    note = (
        "False for this target: somebody who consumes evenly with all the rest at risk has J_C = 0 "
        f"and loses {lpm:.3f} of the initial wealth on average (LPM). The target falls with the "
        "wealth, so J_C penalises postponed consumption and never the share at risk."
    )
    return Claim(
        id="11 losses",
        paper="the target only penalises downside risk associated with losses",
        measured=lpm,
        verdict="fails" if risk == 0.0 and lpm > 0.05 else "holds",
        what="LPM about the initial wealth of a policy with J_C = 0",
        note=note,
        evidence=evidence,
    )


def _capital(results: Results) -> Claim:
    """The target that sums to the initial wealth on every path, so that J_C bounds the LPM."""
    bounds, lpm = results["capital thresholds"], results["final lpm: capital"]
    capital = {**results, "thresholds": bounds}
    evidence: dict[str, float] = {}
    for what in ("share", "risk", "lpm", "mean"):
        evidence |= _by_threshold(capital, what, "capital")
    evidence["share of policies with LPM <= J_C: capital"] = float(
        np.mean(lpm <= results["final risk: capital"])
    )
    if "capital optimum" in results:
        fractions = results["final mean: capital"].mean(axis=1) / results["capital optimum"]
        for nu, fraction in zip(bounds, fractions, strict=True):
            evidence[f"fraction of the optimum at nu = {nu:g}: capital"] = float(fraction)
    lost = int(np.sum(results["final risk: capital"] > 2 * bounds[:, None]))
    evidence["learners with J_C > 2 nu: capital"] = float(lost)
    evidence |= _by_seed(bounds, results["final risk: capital"], "capital: J_C")
    evidence |= _by_seed(bounds, results["multiplier: capital"][..., -1], "capital: multiplier")
    falls = ordered(capital, "capital", "share")
    evidence["share of seeds whose share at risk falls with nu: capital"] = float(falls.mean())
    measured, low, high = _share(lpm <= bounds[:, None])
    holds = measured >= OFTEN and falls.mean() >= OFTEN
    shares = " and ".join(
        f"{evidence[f'share at nu = {nu:g}: capital']:.2f}" for nu in (bounds[0], bounds[-1])
    )
    return Claim(
        id=CAPITAL[0],
        paper=CAPITAL[1],
        measured=measured,
        low=low,
        high=high,
        verdict="holds" if holds else "fails",
        what=(
            "share of final policies whose LPM about the initial wealth is at most nu, target "
            "capital, preset recommended"
        ),
        note=(
            f"The share at risk is {shares} at nu = {bounds[0]:g} and {bounds[-1]:g}; it grows "
            f"with nu in {falls.mean():.0%} of the seeds. {lost} of {lpm.size} learners end with "
            "J_C above twice their bound."
        ),
        evidence=evidence,
    )


def _optimum(results: Results) -> Claim:
    name = "recommended"
    fractions = results[f"final mean: {name}"] / results["optimum"][:, None]
    bounded = np.isfinite(results["thresholds"])
    evidence: dict[str, float] = {}
    for each in results["presets"].tolist():
        shares = results[f"final mean: {each}"] / results["optimum"][:, None]
        for nu, row in zip(results["thresholds"], shares, strict=True):
            evidence[f"fraction of the optimum at nu = {nu:g}: {each}"] = float(row.mean())
    evidence |= _by_threshold(results, "risk", name)
    for each in ("figure", name):
        if f"{each}, plain" in results["presets"]:
            evidence |= _at_equal_steps(results, each, f"{each}, plain")
    lowest = fractions[bounded].mean(axis=1).min()
    misses = results[f"final risk: {name}"][bounded].mean(axis=1) - results["thresholds"][bounded]
    evidence["largest |mean J_C - nu|: " + name] = float(np.abs(misses).max())
    is_near = lowest >= ENOUGH and np.abs(misses).max() <= NEAR
    spread = fractions[bounded].min(axis=0)
    return Claim(
        id="11 optimum",
        paper=f"{OURS} the learner comes near to the exact constrained optimum",
        measured=float(lowest),
        low=float(spread.min()),
        high=float(spread.max()),
        verdict="holds" if is_near else "fails",
        what=(
            "least fraction of the exact optimum J_R*(nu) over the bounded thresholds, mean over "
            "seeds, preset recommended; the interval is the range of the seeds; J_C must be at nu"
        ),
        note=(
            "Preset recommended has a policy of the clock alone and values proportional to wealth, "
            "and starts knowing nothing of the problem. Preset figure reaches "
            f"{evidence['fraction of the optimum at nu = 0.1: figure']:.0%} at nu = 0.1."
        ),
        evidence=evidence,
    )
