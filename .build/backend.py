"""The build backend: that of setuptools, which runs `.build/setup.py`; Cython is needed for a checkout, not for an sdist."""

from pathlib import Path

from setuptools import build_meta

CYTHON = "Cython>=3.1"


class Backend(build_meta._BuildMetaBackend):
    """What pip calls."""

    def run_setup(self, setup_script: str = "setup.py") -> None:
        super().run_setup(f".build/{setup_script}")

    def get_requires_for_build_wheel(self, config_settings=None):
        return [*super().get_requires_for_build_wheel(config_settings), *_cython()]

    def get_requires_for_build_editable(self, config_settings=None):
        return [*super().get_requires_for_build_editable(config_settings), *_cython()]

    def get_requires_for_build_sdist(self, config_settings=None):
        return [*super().get_requires_for_build_sdist(config_settings), *_cython()]


def _cython() -> list[str]:
    return [] if Path("PKG-INFO").is_file() else [CYTHON]  # an sdist carries the C


_backend = Backend()
get_requires_for_build_wheel = _backend.get_requires_for_build_wheel
get_requires_for_build_editable = _backend.get_requires_for_build_editable
get_requires_for_build_sdist = _backend.get_requires_for_build_sdist
prepare_metadata_for_build_wheel = _backend.prepare_metadata_for_build_wheel
prepare_metadata_for_build_editable = _backend.prepare_metadata_for_build_editable
build_wheel = _backend.build_wheel
build_editable = _backend.build_editable
build_sdist = _backend.build_sdist
