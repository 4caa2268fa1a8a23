"""Run coroutine functions as tests: on uvloop, or on the loop that a parameter ``loop`` or the module's LOOP names."""

import inspect

import pytest

from tests.support import links, loops


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    test = pyfuncitem.function
    if not inspect.iscoroutinefunction(test):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in inspect.signature(test).parameters}
    loop = arguments.get("loop", getattr(pyfuncitem.module, "LOOP", None))
    if loop is not None:
        loops.run(loop, test(**arguments))
    else:
        links.run(lambda: test(**arguments))
    return True
