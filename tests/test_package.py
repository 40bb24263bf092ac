import subprocess
import sys

import downside


def test_every_public_name_resolves_and_has_a_docstring():
    for name in downside.__all__:
        assert getattr(downside, name).__doc__, name


def test_importing_the_package_imports_nothing_heavy():
    script = "import sys, downside; print({'jax', 'numpy', 'gymnasium'} & set(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "set()"
