import math
import re

import pytest

from downside.studies.study import Study, Trial, complete

PORTFOLIO = {
    "env": "downside/Portfolio-v0",
    "settings": {"target": "centralised"},
    "total_timesteps": 4000,
}
SQUARES = {"function": "study_trials:square"}

TOML = """
name = "frontier"

[base]
env = "downside/Portfolio-v0"
env_arguments = { discount = 0.98 }
settings = { target = "centralised" }
total_timesteps = 4_000
devices = 2

[grid]
threshold = [0.2, inf]
order = [1, 2]

[limits]
seconds = 60
"""


def ids(base, grid):
    return [trial.id for trial in Study(base, grid).trials]


def test_a_grid_of_settings_arguments_and_keys():
    study = Study(
        PORTFOLIO,
        {"threshold": [0.2], "env_arguments.unit_cost": [0.02, 0.03], "seed": [7], "n_seeds": [2]},
    )
    assert [trial.id for trial in study.trials] == [
        "portfolio/threshold=0.2/unit_cost=0.02/seed=7/n_seeds=2",
        "portfolio/threshold=0.2/unit_cost=0.03/seed=7/n_seeds=2",
    ]
    found = study.trials[1].specification
    assert found["settings"] == {"target": "centralised", "threshold": 0.2}
    assert found["env_arguments"] == {"unit_cost": 0.03}
    assert (found["seed"], found["n_seeds"], found["devices"], found["gpus"]) == (7, 2, 1, 0)
    assert study.trials[1].values["unit_cost"] == 0.03
    assert PORTFOLIO["settings"] == {"target": "centralised"}


def test_environments_targets_and_experiments_have_readable_ids():
    base = {**PORTFOLIO, "settings": {"threshold": 0.2}}
    assert ids(base, {"env": ["downside/Portfolio-v0", "downside/Tree-v0"], "target": [1.5]}) == [
        "portfolio/target=1.5",
        "tree/target=1.5",
    ]
    assert (
        ids(base, {"target": ["centralised", {"fixed": 1.5}]})[1] == "portfolio/target=fixed(1.5)"
    )
    assert ids({"experiment": "bandit"}, {"scale": ["smoke"]}) == ["bandit/scale=smoke"]
    assert ids({"experiment": "bandit"}, {}) == ["bandit"]


def test_ids_are_safe_folders():
    grid = {"notes": ["../../etc", ".hidden", "a/b", "n\x00", "x" * 400, "x" * 401]}
    found = ids({**SQUARES, "arguments": {"x": 3}}, grid)
    assert found[:3] == ["square/notes=..%2F..%2Fetc", "square/notes=.hidden", "square/notes=a%2Fb"]
    assert all(len(part) <= 120 for each in found for part in each.split("/"))
    assert len(set(found)) == 6
    grid = {"notes": ["ü ñ", "風/2", "\u212a", "u\u0308", "風" * 60, "x" * 400]}  # Kelvin; NFD
    found = [
        each.removeprefix("square/notes=") for each in ids({**SQUARES, "arguments": {"x": 3}}, grid)
    ]
    assert found[:4] == ["ü ñ", "風%2F2", "%E2%84%AA", "u%CC%88"]
    assert len("notes=" + found[5]) == 120
    assert found[5].startswith("x" * 105 + "-")
    assert found[4].startswith("風" * 35 + "-")
    assert all(len(f"notes={each}".encode()) <= 120 for each in found)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"base": 3}, "base is 3; give a table"),
        ({"grid": "x"}, "grid is 'x'; give a table"),
        ({"name": "a/b"}, "name is 'a/b'; give a text"),
    ],
)
def test_what_is_no_study_is_refused_in_python_too(arguments, words):
    with pytest.raises(ValueError, match=words):
        Study(**{"base": SQUARES, **arguments})


def test_a_file_says_the_same(tmp_path):
    (tmp_path / "study.toml").write_text(TOML)
    study = Study.from_toml(tmp_path / "study.toml")
    assert (study.name, study.limits.seconds, study.limits.memory_gb) == ("frontier", 60, math.inf)
    assert study.trials[-1].id == "portfolio/threshold=Infinity/order=2"
    assert study.trials[-1].devices == 2
    assert Study.from_dict(study.to_dict()).to_dict() == study.to_dict()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("[grid]", "[gird]", "no key 'gird'; did you mean grid?"),
        ("threshold =", "treshold =", "no setting 'treshold'; did you mean threshold?"),
        ("total_timesteps", "total_timestep", "did you mean total_timesteps?"),
        ("seconds", "second", "no limit 'second'; did you mean seconds?"),
        ("seconds = 60", "seconds = -1", "seconds is -1"),
        ("seconds = 60", "seconds = '60'", "seconds is '60'; give a number"),
        ('"frontier"', "7", "name is 7; give a text"),
        ("discount", "dicount", "did you mean discount?"),
        ("[0.2, inf]", "0.2", "threshold is 0.2; give a list"),
        ("[0.2, inf]", "[0.2, 0.2]", "portfolio/threshold=0.2/order=1 is there twice"),
        ("devices = 2", "devices = 0", "devices is 0"),
        ("[base]", "[base", "is not TOML"),
        ("order = [1, 2]", "settings.order = [1]", "settings is {'order': [1]}; give a list"),
        (
            "order = [1, 2]",
            "env_arguments.discount = [1]",
            "the grid's env_arguments is {'discount': [1]}; give a list of values for a name in "
            'it, in quotes: "env_arguments.discount" = [...]',
        ),
        ("{ discount = 0.98 }", "3", "env_arguments is 3; give a table of names and values"),
        (TOML, "base = 'x'", "base is 'x'; give a table of names and values"),
        (TOML, "base = {}\ngrid = 'x'", "grid is 'x'; give a table of names and values"),
        (TOML, "base = {}\nlimits = 3", "limits is 3; give a table of names and values"),
        (TOML, "[base]\nfunction = 'study_trials:square'\narguments = 3", "arguments is 3; give"),
        (
            TOML,
            "[base]\nfunction = 'study_trials:square'\narguments = 3\n[grid]\nx = [1]",
            "arguments is 3; give a table",
        ),
        ("frontier", "\udcff", "is not text in UTF-8, as TOML must be"),
        ('"downside/Portfolio-v0"', '"nowhere:make"', "env is 'nowhere:make', and it cannot be"),
        (
            'env = "downside/Portfolio-v0"\nenv_arguments = { discount = 0.98 }',
            'env = "study_trials:broken_environment"',
            "env is 'study_trials:broken_environment', which raised RuntimeError: no data today",
        ),
        (
            'env = "downside/Portfolio-v0"\nenv_arguments = { discount = 0.98 }',
            'env = "study_trials:broken_environment"\nenv_arguments.error = "ValueError"',
            "env is 'study_trials:broken_environment', which raised ValueError: no data today",
        ),
    ],
)
def test_a_slip_in_a_file_is_named_with_what_is_meant(tmp_path, old, new, words):
    path = tmp_path / "slip.toml"
    path.write_text(TOML.replace(old, new), errors="surrogateescape")
    with pytest.raises(ValueError, match=rf"slip\.toml.*{re.escape(words)}"):
        Study.from_toml(path)


@pytest.mark.parametrize(
    ("specification", "words"),
    [
        ({}, "this one has none"),
        ({"functoin": "math:hypot"}, "no key 'functoin'; did you mean function?"),
        ({"env": "downside/Tree-v0", "experiment": "bandit"}, "experiment and env"),
        ({"experiment": "bandits"}, "did you mean bandit?"),
        ({"experiment": "bandit", "scale": "tiny"}, "choose one of 'smoke'"),
        (
            {
                "env": "downside/Bandit-v0",
                "algorithm": "nac",
                "total_timesteps": 9,
                "settings": {"kl": [0.1, 0.2]},
            },
            "kl is [0.1, 0.2], and a trial has one value of it; put the values into the grid",
        ),
        ({"function": "nowhere:f"}, "cannot be imported"),
        ({"function": "math:hypot", "argument": {}}, "did you mean arguments?"),
        ({**SQUARES, "arguments": {"x": 1, "note": 2}}, "square 'note'; did you mean notes?"),
        (SQUARES, "study_trials:square needs x; give it in arguments or in the grid"),
        ({"function": "os:getpid", "arguments": {"x": 1}}, "takes no arguments by name; it got x"),
    ],
)
def test_other_specifications_are_checked_too(specification, words):
    with pytest.raises(ValueError, match=re.escape(words)):
        complete(specification)


def test_the_grid_of_an_experiment_has_its_keys_only():
    with pytest.raises(ValueError, match="did you mean seed"):
        Study({"experiment": "bandit"}, {"seeds": [1]})
    with pytest.raises(ValueError, match="no key of the grid 'setting"):
        Study(PORTFOLIO, {"setting.kl": [1]})


def test_the_arguments_of_a_function_are_those_that_it_takes():
    with pytest.raises(ValueError, match=r"argument of study_trials:square 'sed'; did you mean se"):
        Study({**SQUARES, "arguments": {"x": 3}}, {"sed": [1]})
    assert ids({"function": "study_trials:anything"}, {"sed": [1]}) == ["anything/sed=1"]
    assert ids({"function": "math:fsum"}, {}) == ["fsum"]  # takes some, by place


def test_a_trial_knows_its_kind():
    assert Trial("a", complete({"experiment": "bandit"})).kind == "experiment"
