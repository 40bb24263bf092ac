"""What the portfolio's other methods say: who is better at equal risk, and what is held."""

from collections.abc import Callable

import numpy as np

from downside.exact.portfolio import Hull, concave_hull, hull_value
from downside.experiments.base import OURS, Claim, Results, Verdict

N_BOOTSTRAP = 2000
NEAR = 0.01  # a distance of an LPM from its bound that we call held
SAME = 0.01  # a change of the proxy that we call none
SCALE = "12 scale", "NRCPO needs no calibration: the same settings serve rewards of another scale"
ON_LPM = "10 bound on the LPM", f"{OURS} the LPM itself can be held at a bound"
VARIED = SCALE, ON_LPM
_OF_LPM = ": LPM measured", ": LPM itself", "less LPM measured", "less LPM itself"

Statistic = Callable[[np.ndarray], np.ndarray]


def bootstrap(statistic: Statistic, n_seeds: int) -> tuple[float, float, float]:
    """A statistic of the seeds' places (..., seeds), and its 95% interval by resampling them.

    >>> bootstrap(lambda seeds: np.full(seeds.shape[:-1], 2.0), n_seeds=5)
    (2.0, 2.0, 2.0)
    """
    places = np.random.default_rng(0).integers(n_seeds, size=(N_BOOTSTRAP, n_seeds))
    low, high = np.quantile(statistic(places), [0.025, 0.975])
    return float(statistic(np.arange(n_seeds))), float(low), float(high)


def intervals(what: str, name: str, found: tuple[float, float, float]) -> dict[str, float]:
    """A number and its interval, by their names in the evidence.

    >>> intervals("gap", "figure", (2.0, 1.0, 3.0))
    {'gap: figure': 2.0, 'gap, low: figure': 1.0, 'gap, high: figure': 3.0}
    """
    parts = zip(("", ", low", ", high"), found, strict=True)
    return {f"{what}{part}: {name}": value for part, value in parts}


def binding(results: Results, name: str) -> np.ndarray:
    """Which bounds bind: they lie below what the risk-neutral agent has."""
    bounds = results.get(f"sweep: {name}", results["thresholds"])
    measure = str(results.get(f"measure: {name}", "proxy"))
    return bounds < results[f"{measure}: {name}"][np.isinf(bounds)].mean()


def two_number_hull(results: Results) -> Hull:
    """What mixtures of the two-number policies reach."""
    return concave_hull(results["proxy: two numbers"], results["discounted: two numbers"])


def best_known(results: Results) -> Hull:
    """What mixtures of all policies of a run reach: two numbers, and learnt ones as seed means."""
    names = [*results["presets"].tolist(), *np.atleast_1d(results.get("variants", [])).tolist()]
    risk, mean = (
        [results[f"{what}: two numbers"], *(results[f"{what}: {n}"].mean(axis=1) for n in names)]
        for what in ("proxy", "discounted")
    )
    return concave_hull(np.concatenate(risk), np.concatenate(mean))


def hull_gaps(results: Results, name: str, hull: Hull) -> np.ndarray:
    """Discounted mean less that of a hull at the same proxy: (thresholds, seeds)."""
    return results[f"discounted: {name}"] - hull_value(hull, results[f"proxy: {name}"])


def compare(results: Results, name: str, other: str) -> dict[str, float]:
    """One frontier less another at equal proxy and at equal mean, with intervals.

    Seed means of the other are held against the line through those of the first, where it reaches;
    as distances from the hull where that is known, since a line is below a curve.
    """
    found: dict[str, float] = {}
    hull = two_number_hull(results)
    gaps = {f"gap: {each}": hull_gaps(results, each, hull) for each in (name, other)}
    for what, y, x in (
        ("mean at equal proxy", "gap", "proxy"),
        ("LPM at equal mean", "lpm", "mean"),
        ("shortfall at equal mean", "shortfall", "discounted"),
    ):
        values = {**results, **gaps}
        (xs, ys), (other_xs, other_ys) = (
            (values[f"{x}: {each}"], values[f"{y}: {each}"]) for each in (name, other)
        )
        line, points = xs.mean(axis=1), other_xs.mean(axis=1)
        inside = (points >= line.min()) & (points <= line.max())
        if inside.any():
            tables = [(xs, ys), (other_xs[inside], other_ys[inside])]
            n_seeds = min(xs.shape[1], other_xs.shape[1])
            difference = bootstrap(_difference(tables), n_seeds)
            found |= intervals(what, f"{name} less {other}", difference)
    return found


def _difference(tables: list[tuple[np.ndarray, np.ndarray]]) -> Statistic:
    """Of two tables (x, y), each (points, seeds): the first's line less the second's points."""

    def one(seeds: np.ndarray) -> float:
        (xs, ys), (at, others) = (
            [each[:, seeds].mean(axis=1) for each in table] for table in tables
        )
        order = np.argsort(xs)
        return float(np.mean(np.interp(at, xs[order], ys[order]) - others))

    return lambda seeds: np.apply_along_axis(one, -1, seeds)


def distances(results: Results, name: str, bounds: np.ndarray) -> np.ndarray:
    """|measure - bound| at some of the bounds of a method: (bounds, seeds)."""
    sweep = results.get(f"sweep: {name}", results["thresholds"])
    measure = str(results.get(f"measure: {name}", "proxy"))
    rows = [int(np.flatnonzero(sweep == bound)[0]) for bound in bounds]
    return np.abs(results[f"{measure}: {name}"][rows] - bounds[:, None])


def judge_variants(results: Results) -> list[Claim]:
    """Does the scale of the reward matter, and is a bound on the LPM itself held?"""
    evidence: dict[str, float] = {}
    for name in results["variants"].tolist():
        evidence |= compare(results, str(results[f"like: {name}"]), name)
        if (bounds := _bounds(results, name)).size:
            each = distances(results, name, bounds)
            found = bootstrap(lambda seeds, d=each: d[:, seeds].mean(axis=(0, -1)), each.shape[1])
            evidence |= intervals("distance from the bound", name, found)
    return [_scale(results, evidence), _lpm(evidence)]


def _bounds(results: Results, name: str) -> np.ndarray:
    """The bounds of a method that bind; none where it has none."""
    if not str(results[f"measure: {name}"]):
        return np.zeros(0)
    return results[f"sweep: {name}"][binding(results, name)]


def _changes(results: Results, name: str) -> dict[float, tuple[float, float, float]]:
    """Proxy of a variant less that of what it is like, at each bound of both that binds."""
    both = name, str(results[f"like: {name}"])
    sweeps = [results.get(f"sweep: {each}", results["thresholds"]) for each in both]
    found: dict[float, tuple[float, float, float]] = {}
    for bound in np.intersect1d(_bounds(results, name), sweeps[1]).tolist():
        rows = [int(np.flatnonzero(sweep == bound)[0]) for sweep in sweeps]
        pair = [results[f"proxy: {each}"][row] for each, row in zip(both, rows, strict=True)]
        n_seeds = min(map(len, pair))
        gaps = pair[0][:n_seeds] - pair[1][:n_seeds]
        found[bound] = bootstrap(lambda seeds, g=gaps: np.asarray(g[seeds].mean(axis=-1)), n_seeds)
    return found


def _scale(results: Results, evidence: dict[str, float]) -> Claim:
    numbers = dict(evidence)
    largest: dict[str, tuple[float, float, float]] = {}
    for name in ("figure, rewards x 10", "rewards x 10"):
        changes = _changes(results, name)
        for nu, found in changes.items():
            numbers |= intervals(f"change of the proxy at nu = {nu:g}", name, found)
        largest[name] = max(changes.values(), key=lambda f: abs(f[0]), default=(0.0, 0.0, 0.0))
    measured, low, high = largest["figure, rewards x 10"]
    verdict: Verdict = "fails" if low > SAME or high < -SAME else "not reached at this scale"
    if low >= -SAME and high <= SAME:
        verdict = "holds"
    return Claim(
        id=SCALE[0],
        paper=SCALE[1],
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        what=(
            "largest change of the mean proxy at a binding threshold with rewards and nu times 10 "
            "(divided back), preset figure at fewer steps"
        ),
        note=(
            "The step of the policy is normalised, that of the multiplier is not: with rewards "
            "times 10 it moves ten times as fast. The largest change of preset recommended, whose "
            "multiplier follows the relative excess, is {:.3f} [{:.3f}, {:.3f}].".format(
                *largest["rewards x 10"]
            )
        ),
        evidence=numbers,
    )


def _lpm(evidence: dict[str, float]) -> Claim:
    title = "distance from the bound"
    keys = [f"{title}{x}: LPM measured" for x in ("", ", low", ", high")]
    measured, low, high = (evidence.get(key, 0.0) for key in keys)
    other = evidence.get(f"{title}: LPM itself", 0.0)
    verdict: Verdict = "fails" if low > NEAR else "not reached at this scale"
    if high <= NEAR:
        verdict = "holds"
    return Claim(
        id=ON_LPM[0],
        paper=ON_LPM[1],
        measured=measured,
        low=low,
        high=high,
        verdict=verdict,
        what=(
            "mean |LPM - nu| (discounted, about the mean) over the binding bounds, where the "
            'multiplier follows the sampled LPM, measure="lpm"'
        ),
        note=(
            "Where the signal is the shortfall of the whole return below a constant, the LPM about "
            f"that constant ends {other:.3f} from its bound on average."
        ),
        evidence={k: v for k, v in evidence.items() if title in k or k.endswith(_OF_LPM)},
    )
