"""Build the extensions: every .pyx of the package becomes one, on all cores, and only what changed is built again.

The C is written to `.build/c` (and goes into the sdist, which is then built without Cython). An editable install puts
the extensions beside their sources; there, objects and extensions that are newer than what they are made of stay.
`CFLAGS` is respected: it comes after the flags that are set here.
"""

import os
import sys
from compileall import compile_dir
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

C_FOLDER = ".build/c"
# Cython's own support code for memoryviews, generators and the like: once, not in each extension.
SHARED = "kproxy._shared"
FLAGS = "-DNDEBUG -fwrapv -O3 -g0"  # -g doubles the compiler's time; with -O2, records become columns 7 to 18 % slower
DIRECTIVES = {
    "language_level": 3,
    "annotation_typing": False,  # annotations are for the .pyi (stubs.py): they compile to no check
    "auto_pickle": False,  # no extension type is pickled
    "binding": False,  # functions as the C API has them: smaller than Cython's own function type, and faster to call ...
    "embedsignature": True,  # ... which then need their signatures in their docstrings, where inspect finds them
    "embedsignature.format": "clinic",
    "emit_code_comments": False,
}
JOBS = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
FROM_SDIST = Path("PKG-INFO").is_file()


def module_of(source: Path) -> str:
    return ".".join(source.with_suffix("").parts)


SOURCES = {module_of(path): path for path in sorted(Path("kproxy").rglob("*.pyx"))}


def c_file(name: str) -> str:
    return f"{C_FOLDER}/{name.replace('.', '/')}.c"


def write_sources() -> None:
    """Write each .pyi, and cythonize what is older than its .pyx, a .pxd of ours that it cimports, or this file."""
    if FROM_SDIST:
        return
    sys.path.insert(0, ".build")
    from stubs import write_stubs  # noqa: PLC0415 (Cython is not there when an sdist is built)

    write_stubs()
    from Cython.Build import cythonize  # noqa: PLC0415
    from Cython.Build.Dependencies import create_dependency_tree  # noqa: PLC0415
    from Cython.Utils import file_generated_by_this_cython  # noqa: PLC0415

    tree = create_dependency_tree(quiet=True)

    def is_current(name: str) -> bool:
        # Cython itself would also look at its own .pxd files, which pip installs anew for each build.
        sources = [path for path in map(str, tree.all_dependencies(str(SOURCES[name]))) if not Path(path).is_absolute()]
        written = Path(c_file(name))
        newest = max(Path(path).stat().st_mtime for path in (*sources, __file__))
        return file_generated_by_this_cython(str(written)) and written.stat().st_mtime > newest

    options = {"build_dir": C_FOLDER, "shared_utility_qualified_name": SHARED, "compiler_directives": DIRECTIVES}
    cythonize([Extension(SHARED, [f"{SHARED.replace('.', '/')}.c"])], **options)
    stale = [Extension(name, [str(source)]) for name, source in SOURCES.items() if not is_current(name)]
    cythonize(stale, force=True, nthreads=JOBS, **options)


class BuildPython(build_py):
    def run(self) -> None:
        write_sources()  # before build_py, which copies the .pyi
        super().run()


class BuildExtensions(build_ext):
    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or JOBS

    def run(self) -> None:
        write_sources()
        self.extensions.sort(key=lambda extension: -Path(extension.sources[0]).stat().st_size)  # the longest first
        os.environ["CFLAGS"] = f"{FLAGS} {os.environ.get('CFLAGS', '')}".strip()
        if self.inplace:
            self.remove_stale()
            super(build_ext, self).run()  # setuptools' own would build elsewhere, all, and copy
            compile_dir("kproxy", quiet=1)  # as pip does for a wheel: Python may be forbidden to write bytecode later
        else:
            super().run()

    def remove_stale(self) -> None:
        """Remove the extensions of modules that are gone, or Python now: they would be imported before it."""
        current = {Path(self.get_ext_fullpath(extension.name)).resolve() for extension in self.extensions}
        for path in Path("kproxy").rglob(f"*{Path(self.get_ext_filename('x')).name[1:]}"):
            if path.resolve() not in current:
                path.unlink()


class SourceDistribution(sdist):
    def run(self) -> None:
        write_sources()
        super().run()

    def make_release_tree(self, base_dir, files) -> None:
        super().make_release_tree(base_dir, [*files, *(f".build/{name}.py" for name in ("backend", "setup", "stubs"))])


setup(
    ext_modules=[Extension(name, [c_file(name)]) for name in (*SOURCES, SHARED)],
    cmdclass={"build_py": BuildPython, "build_ext": BuildExtensions, "sdist": SourceDistribution},
)
