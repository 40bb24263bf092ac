"""Makes docs/results/environments/causes.json: what one setting changes, on seeds of their own.

python docs/results/environments/causes.py

Each row is a learner of the library with its defaults but for the settings that are named; risks
and means are those of 40 fresh episodes of each seed, and pairs of rows share their seeds.
"""

import json
from pathlib import Path

import downside as ds

FOUND = Path(__file__).parent / "causes.json"
PENDULUM = ("Pendulum-v1", 60_000, -200.0, 194.0)
CAR = ("MountainCarContinuous-v0", 40_000, 90.0, 70.0)
ROWS = {
    "Pendulum, NAC, not centred": (PENDULUM, False, {"centred": False}),
    "Pendulum, NRCPO, not centred": (PENDULUM, True, {"centred": False}),
    "Pendulum, NAC": (PENDULUM, False, {}),
    "Pendulum, NRCPO": (PENDULUM, True, {}),
    "MountainCarContinuous, NAC, not centred": (CAR, False, {"centred": False}),
    "MountainCarContinuous, NRCPO, not centred": (CAR, True, {"centred": False}),
    "MountainCarContinuous, NRCPO, not centred, an eighth of the entropy": (
        CAR,
        True,
        {"centred": False, "temperature": 1.25e-4},
    ),
}


def main() -> None:
    """Those rows that are not there yet."""
    for name, (problem, bounded, settings) in ROWS.items():
        found = json.loads(FOUND.read_text()) if FOUND.exists() else {}
        if name not in found:
            made = {name: judge(problem, bounded, settings)}
            FOUND.write_text(json.dumps(found | made, indent=1) + "\n")


def judge(problem, bounded, settings):
    """Learn with six seeds, and judge each."""
    env, steps, target, threshold = problem
    options = {"n_seeds": 6, "seed": 500, **settings}
    if bounded:
        agent = ds.NRCPO(env, target=target, threshold=threshold, **options)
    else:
        agent = ds.NAC(env, **options)
    agent.learn(steps, progress_bar=False)
    each = agent.evaluate(40) if bounded else agent.evaluate(40, target=target)
    measures = {"risk": "proxy", "mean": "mean"}
    return {
        word: [round(getattr(one, name).value, 3) for one in each]
        for word, name in measures.items()
    }


if __name__ == "__main__":
    main()
