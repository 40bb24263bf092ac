import json
import os
import subprocess
import sys

import pytest

from downside.experiments.catalogue import EXPERIMENTS, LONGEST_FIRST


def downside(
    *arguments: str, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "downside", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def surroundings(**changed: str) -> dict[str, str]:
    """The environment variables of a user who has said nothing to JAX, but ``changed``."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")}
    return kept | changed


@pytest.mark.slow
def test_reproduce_leaves_figures_and_claims_and_names_them(tmp_path):
    done = downside("reproduce", "landscape", "--scale", "smoke", "--out", str(tmp_path))
    assert done.returncode == 0, done.stderr
    folder = tmp_path / "landscape"
    names = {path.name for path in folder.iterdir()}
    figures = {
        f"{stem}.{kind}"
        for stem in ("fig1_tree", "fig2_landscape", "bound")
        for kind in ("png", "svg", "pdf")
    }
    assert names == {"claims.json", "results.npz", *figures}
    assert json.loads((folder / "claims.json").read_text())["scale"] == "smoke"
    assert "fig2_landscape.png" in done.stdout
    assert str(tmp_path / "report.html") in done.stdout
    assert "landscape/fig2_landscape.pdf" in (tmp_path / "report.html").read_text()
    assert "verdict" in done.stdout
    assert "done landscape/scale=smoke/seed=0" in done.stderr
    manifest = tmp_path / "study/trials/landscape/scale=smoke/seed=0/manifest.json"
    before = manifest.read_bytes()
    again = downside(
        "reproduce", "landscape", "--scale", "smoke", "--out", str(tmp_path), "--resume"
    )
    assert (again.returncode, again.stderr) == (0, "")
    assert manifest.read_bytes() == before  # found, not made again


def test_bad_input_is_one_sentence_and_exit_code_2(tmp_path):
    done = downside("reproduce", "portfolios", "--out", str(tmp_path))
    assert done.returncode == 2
    assert "choose one of all, landscape" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_and_list_do_not_import_jax():
    script = (
        "import sys; from downside.cli import app\n"
        "for words in (['--help'], ['list']):\n"
        "    try: app(words)\n"
        "    except SystemExit as stop: assert not stop.code, stop.code\n"
        "assert 'jax' not in sys.modules and 'numpy' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "reproduce" in done.stdout
    assert "landscape" in done.stdout


def test_doctor_tells_what_a_report_needs():
    done = downside("doctor")
    assert done.returncode == 0
    for word in ("jax", "devices", "float width", "free disk"):
        assert word in done.stdout


def test_compiled_programs_are_kept_for_the_next_start(tmp_path):
    environment = surroundings(XDG_CACHE_HOME=str(tmp_path))
    assert downside("doctor", environment=environment).returncode == 0
    programs = list((tmp_path / "downside" / "jax").glob("*-cache"))
    assert programs
    downside("doctor", environment=environment)
    assert list((tmp_path / "downside" / "jax").glob("*-cache")) == programs


def test_a_cache_that_the_user_names_is_used(tmp_path):
    own = tmp_path / "own"
    environment = surroundings(XDG_CACHE_HOME=str(tmp_path), JAX_COMPILATION_CACHE_DIR=str(own))
    downside("doctor", environment=environment)
    assert list(own.glob("*-cache"))
    assert not list(own.glob("*-atime"))  # which a limit would make, and others would miss
    assert not list((tmp_path / "downside" / "jax").glob("*-cache"))


def test_where_nothing_can_be_kept_everything_works_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    done = downside("doctor", environment=surroundings(XDG_CACHE_HOME=str(tmp_path / "file")))
    assert done.returncode == 0
    assert not done.stderr


def test_the_status_of_a_run(tmp_path):
    folder = tmp_path / "run"
    script = (
        "import sys, downside as ds\n"
        "ds.NAC(ds.Bandit(), folder=sys.argv[1]).learn(4000, progress_bar=False)"
    )
    subprocess.run([sys.executable, "-c", script, str(folder)], check=True)
    status = json.loads(downside("status", str(folder), "--json").stdout)
    assert status["steps"] == "4,000 of 4,000 (100%)"
    assert status["process"] == "none; it is done"
    assert "4,000 of 4,000" in downside("status", str(folder)).stdout
    missing = downside("status", str(tmp_path / "nowhere"))
    assert missing.returncode == 2
    assert "nowhere" in missing.stderr
    assert "Traceback" not in missing.stderr


def test_every_experiment_has_its_turn():
    assert set(LONGEST_FIRST) == set(EXPERIMENTS)
