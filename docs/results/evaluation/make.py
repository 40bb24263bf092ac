"""Makes the pictures and tables of docs/evaluation.md: python docs/results/evaluation/make.py"""

from pathlib import Path

import downside as ds

HERE = Path(__file__).parent


def main() -> None:
    """Train five thresholds with three seeds each on the portfolio, judge and draw them."""
    portfolio = ds.Portfolio(discount=0.99)
    frontier = ds.frontier(
        portfolio,
        target=ds.Centralised(),
        thresholds=[0.05, 0.1, 0.2, 0.4, 0.6],
        n_seeds=3,
        total_timesteps=100_000,
        progress_bar=False,
    )
    shy, bold = frontier.evaluations.blocks[1], frontier.evaluations.blocks[3]
    texts = {
        "frontier": frontier,
        "evaluation": bold,
        "comparison": ds.compare(bold, shy, names=("0.4", "0.1")),
        "check": ds.check_env("Pendulum-v1"),
    }
    for name, found in texts.items():
        (HERE / f"{name}.txt").write_text(f"{found}\n")
    frontier.plot(HERE / "frontier.png")
    for kind in ("histogram", "fan", "underwater"):
        bold.plot(HERE / f"{kind}.png", kind)
    frontier.evaluations.plot(HERE / "probability.png", "probability")
    ds.plot_training(frontier.agent, HERE / "training.png")


if __name__ == "__main__":
    main()
