"""Builds the extensions with AddressSanitizer and UndefinedBehaviorSanitizer and lets them have it.

    python tests/fuzz/asan.py [--minutes 10] [--seed N] [--compiler gcc]

In a temporary copy of the checkout: build, then the golden corpus through check.py, then hammer.py for that many minutes.
Needs the test extra, gcc with libasan and libubsan (Debian's gcc brings both), and Linux (LD_PRELOAD).
Exits with 1 when a sanitizer or a check finds something. Leaks are not looked for: CPython keeps memory on purpose.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[2]
NEEDED = [".build", "kproxy", "tests", "captures", "pyproject.toml", "README.md", "LICENSE", "NOTICE"]
SANITIZE = "-fsanitize=address,undefined -fno-sanitize-recover=all"
GROUPS = "messages,structs,conflicts,frames,variants,records"


def build(copy: Path, compiler: str) -> None:
    for name in NEEDED:
        source = ROOT / name
        leave_out = shutil.ignore_patterns("*.so", "*.c", "*.cpp", "__pycache__", ".hypothesis")
        if source.is_dir():
            shutil.copytree(source, copy / name, ignore=leave_out)
        else:
            shutil.copy(source, copy / name)
    flags = {
        "CC": compiler,
        "LDSHARED": f"{compiler} -shared",
        "CFLAGS": f"-O1 -g -fno-omit-frame-pointer {SANITIZE}",
        "LDFLAGS": SANITIZE,
    }
    setup = [sys.executable, ".build/setup.py", "--quiet", "build_ext", "--inplace"]
    subprocess.run(setup, cwd=copy, env={**os.environ, **flags}, check=True)


def sanitized(copy: Path, compiler: str) -> dict[str, str]:
    """The environment in which an ordinary Python loads sanitized extensions."""
    libraries = [
        subprocess.run(
            [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
        ).stdout.strip()
        for name in ("libasan.so", "libubsan.so")
    ]
    return {
        **os.environ,
        "LD_PRELOAD": " ".join(libraries),
        "ASAN_OPTIONS": "detect_leaks=0:halt_on_error=1:allocator_may_return_null=0:max_allocation_size_mb=1024",
        "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
        "PYTHONMALLOC": "malloc",  # CPython's own arenas would hide a read past the end of a bytes object
        "PYTHONPATH": str(copy),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--compiler", default="gcc")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kproxy-asan-") as name:
        copy = Path(name)
        build(copy, arguments.compiler)
        golden = [
            str(copy / "tests/golden/check.py"),
            "--adapter",
            str(copy / "tests/golden/adapter.py"),
            "--only",
            GROUPS,
        ]
        hammer = [
            str(copy / "tests/fuzz/hammer.py"),
            "--minutes",
            str(arguments.minutes),
            "--seed",
            str(arguments.seed),
        ]
        failed = False
        for program in (golden, hammer):
            print("running", *program, flush=True)
            environment = sanitized(copy, arguments.compiler)
            run = subprocess.run([sys.executable, *program], cwd=copy, env=environment, check=False)
            print(program[0], "ended with", run.returncode, flush=True)
            failed = failed or run.returncode != 0
    if failed:
        sys.exit("a sanitizer or a check found something")


if __name__ == "__main__":
    main()
