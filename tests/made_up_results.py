"""Results of made-up experiments, in the form that the real ones leave."""

import json
from pathlib import Path

import numpy as np

THRESHOLDS = np.array([0.05, 0.1, np.inf])


def consumption(n_seeds: int = 3, n_evaluations: int = 40) -> dict[str, np.ndarray]:
    """Curves that rise to their optimum and risks that rise to nu, each preset at its own speed."""
    rng = np.random.default_rng(5)
    episodes = 100 * np.arange(1, n_evaluations + 1)
    optimum = np.array([1.465, 1.486, 2.001])
    results: dict[str, np.ndarray] = {
        "thresholds": THRESHOLDS,
        "presets": np.array(["printed", "figure", "recommended"]),
        "optimum": optimum,
        "even consumer": np.array([1.44, 0.0, 0.11]),
    }
    for preset, speed in {"printed": 0.02, "figure": 1.0, "recommended": 3.0}.items():
        part = 1.0 - np.exp(-speed * episodes / episodes[-1])
        noise = 0.02 * rng.normal(size=(3, n_seeds, n_evaluations))
        risk = np.minimum(THRESHOLDS, 0.3)[:, None, None] * part
        pressure = np.array([0.42, 0.4, 0.0])[:, None, None] * part
        results |= {
            f"mean: {preset}": 1.0 + (optimum - 1.0)[:, None, None] * part + noise,
            f"risk: {preset}": np.abs(risk + 0.1 * noise),
            f"multiplier: {preset}": pressure + np.abs(noise) * (pressure > 0),
            f"steps: {preset}": 200 * episodes,
            f"episodes: {preset}": episodes,
            f"failed: {preset}": np.array(0),
        }
        for what in ("mean", "risk"):
            results[f"final {what}: {preset}"] = results[f"{what}: {preset}"][..., -1]
        results[f"final lpm: {preset}"] = 0.1 + np.abs(noise[..., -1])
        results[f"final share: {preset}"] = 0.9 - np.abs(noise[..., -1])
    return results


def portfolio(n_seeds: int = 2) -> dict[str, np.ndarray]:
    """Two presets at three thresholds; a bolder policy of two numbers has more of everything."""
    nu = np.array([0.1, 0.5, np.inf])
    orders = np.array([(i, j) for i in range(11) for j in range(11)])
    bold = orders.sum(axis=1)
    results: dict[str, np.ndarray] = {
        "thresholds": nu,
        "presets": np.array(["printed", "figure"]),
        "episodes": np.array(1000),
        "orders: two numbers": orders,
        "mean: two numbers": 0.25 + 0.1 * bold,
        "discounted: two numbers": 0.2 + 0.1 * np.sqrt(bold),
        "proxy: two numbers": 0.1 * bold,
        "lpm: two numbers": 0.03 * bold,
        "minimum: two numbers": 0.2 - 0.3 * bold,
    }
    for preset, more in {"printed": 0.0, "figure": 0.07}.items():
        proxy = np.minimum(nu, 0.9)[:, None] + 0.01 * np.arange(n_seeds) + more
        results |= {
            f"steps: {preset}": np.array(2_500_000),
            f"mean: {preset}": 0.3 + proxy,
            f"discounted: {preset}": 0.2 + 0.7 * proxy,
            f"proxy: {preset}": proxy,
            f"path shortfall: {preset}": 0.4 * proxy,
            f"lpm: {preset}": 0.2 * proxy,
            f"minimum: {preset}": -2.0 * proxy,
            f"quantile: {preset}": 0.2 - proxy,
        }
    return results


def bandit() -> dict[str, np.ndarray]:
    """Five methods, three goals; the right arm takes over at a speed of its own for each."""
    counts = 100 * np.arange(1, 31)
    goals = np.array(["mean", "order 1", "order 2"])
    long_names = "Monte-Carlo, least squares", "Monte-Carlo, plain average"
    speeds = {"figure": 8.0, "printed": 0.3, "fast": 9.0, **dict.fromkeys(long_names, 2.0)}
    results = {"methods": np.array(list(speeds)), "goals": goals}
    for method, speed in speeds.items():
        curves = []
        for j in range(3):
            right = 1.0 - (2 / 3) * np.exp(-(speed + j) * counts / counts[-1])
            others = (1.0 - right) / 2
            curves.append(np.stack([others, right if j == 0 else others, others], axis=-1))
            curves[-1][:, 1 if j == 0 else 2] = right
        mean = np.stack(curves)
        results |= {
            f"counts: {method}": counts,
            f"mean: {method}": mean,
            f"band: {method}": np.stack([0.9 * mean, np.minimum(1.05 * mean, 1.0)], axis=1),
            f"share: {method}": mean.max(axis=-1),
        }
    return results


def claim(name: str, verdict: str = "holds", measured: float | None = 0.5, **others):
    """A judgement as claims.json has it."""
    plain = {
        "paper": f"the paper on {name}",
        "note": "First. Then more.",
        "what": f"number of {name}",
    }
    empty = {"low": None, "high": None, "evidence": {"some number": 2.0, "far away": None}}
    return {"id": name, "verdict": verdict, "measured": measured, **plain, **empty, **others}


def leave(folder: Path, name: str, results: dict[str, np.ndarray], claims: list[dict]) -> None:
    """Write what ``downside reproduce NAME`` leaves for the report."""
    (folder / name).mkdir(parents=True)
    np.savez_compressed(folder / name / "results.npz", **results)
    document = {
        "schema": 1,
        "experiment": name,
        "preset": None,
        "scale": "smoke",
        "seed": 3,
        "command": "downside reproduce all --scale smoke --seed 3",
        "seconds": 61.0,
        "versions": {"python": "3.11.7", "downside": "0.1.0"},
        "claims": claims,
    }
    (folder / name / "claims.json").write_text(json.dumps(document))
