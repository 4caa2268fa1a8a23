"""A Kerberos realm of MIT's krb5kdc, as a process, with its principals and their keytabs in a folder."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path

from tests.support.kafka.processes import Service, eventually, spawn, tail
from tests.support.ports import free_ports

NAME = "KPROXY.TEST"
_SBIN = "/usr/sbin"  # where Debian has them, and not every PATH leads to
_KRB5 = """\
[libdefaults]
  default_realm = {name}
  dns_canonicalize_hostname = false
  dns_lookup_kdc = false
  dns_lookup_realm = false
  udp_preference_limit = 1
[realms]
  {name} = {{
    kdc = 127.0.0.1:{port}
  }}
[domain_realm]
  .test = {name}
"""
_KDC = """\
[realms]
  {name} = {{
    database_name = {folder}/principal
    key_stash_file = {folder}/stash
    kdc_listen = 127.0.0.1:{port}
    kdc_tcp_listen = 127.0.0.1:{port}
  }}
[logging]
  kdc = FILE:{folder}/kdc.log
"""


def missing() -> str | None:
    """Why no realm can be made here; None when it can."""
    if _program("krb5kdc") is None or _program("kadmin.local") is None:
        return "it needs Debian's krb5-kdc and krb5-admin-server"
    try:
        import gssapi  # noqa: F401, PLC0415 - an extra
    except (ImportError, OSError):
        return "it needs gssapi"
    return None


def _program(name: str) -> str | None:
    return shutil.which(name) or shutil.which(name, path=_SBIN)


class Realm(Service):
    """The realm; its KDC runs from ``start`` on. What uses it needs ``environment``, Java ``java_options``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        words = {"name": NAME, "folder": folder, "port": free_ports()}
        (folder / "krb5.conf").write_text(_KRB5.format(**words))
        (folder / "kdc.conf").write_text(_KDC.format(**words))
        self.environment: Mapping[str, str] = {
            "KRB5_CONFIG": str(folder / "krb5.conf"),
            "KRB5_KDC_PROFILE": str(folder / "kdc.conf"),
            "KRB5RCACHENAME": f"dfl:{folder}",
            "KRB5RCACHEDIR": str(folder),
        }
        self.java_options = [f"-Djava.security.krb5.conf={folder / 'krb5.conf'}"]
        self._principals: set[str] = set()
        self.run("kdb5_util", "create", "-s", "-P", "master", "-r", NAME)

    def run(self, program: str, *words: str) -> str:
        command = [str(_program(program)), *words]
        done = subprocess.run(command, env=dict(self.environment), capture_output=True, check=True, text=True)
        return done.stdout

    def keytab(self, *principals: str) -> str:
        """Give principals new keys; return a file with them."""
        file = self.folder / f"{principals[0].replace('/', '-')}-{len(list(self.folder.iterdir()))}.keytab"
        for principal in principals:
            if principal not in self._principals:
                self._principals.add(principal)
                self.run("kadmin.local", "addprinc", "-randkey", principal)
            self.run("kadmin.local", "ktadd", "-k", str(file), principal)
        return str(file)

    def start(self) -> "Realm":
        log = self.folder / "krb5kdc.out"
        self._process = spawn([str(_program("krb5kdc")), "-n"], log, environment=self.environment)
        eventually(lambda: "commencing operation" in tail(self.folder / "kdc.log"), what="the KDC is up")
        return self


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Realm]:
    """A realm with its KDC."""
    realm = Realm(folder)
    try:
        yield realm.start()
    finally:
        realm.stop()
