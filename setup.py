"""The wheel's packages: modescope, and below it the folders that lie beside it in a checkout.

Everything else is in pyproject.toml, which cannot put found packages below another package.
"""

from setuptools import find_namespace_packages, setup

FOLDERS = ("bench", "models", "analysis", "conf")

setup(
    packages=[
        "modescope",
        *(
            f"modescope.{name}"
            for folder in FOLDERS
            for name in find_namespace_packages(include=[folder, f"{folder}.*"])
        ),
    ],
    package_dir={f"modescope.{folder}": folder for folder in FOLDERS},
    package_data={"": ["*.yaml", "*.j2", "*.css", "*.js", "*.cpp", "*.h", "py.typed"]},
)
