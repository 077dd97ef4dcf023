"""What a record says of the machine's settings: what moves times, and nothing of who or where."""

from __future__ import annotations

import getpass
import json
import socket
from pathlib import Path

from suites.harness.record import machine
from suites.harness.record.system import describe_system


def test_settings_of_libraries_are_recorded_and_folders_are_not(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1,2")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/home/somebody/cache")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    found = describe_system()["variables"]
    assert found["OMP_NUM_THREADS"] == "1,2"
    assert found["TORCHINDUCTOR_CACHE_DIR"] == "(set)"
    assert "AWS_SECRET_ACCESS_KEY" not in found


def test_builds_and_policies_are_named():
    found = describe_system()
    assert {"numpy", "torch blas", "torch onednn"} <= found["blas"].keys()
    assert found["usable_cpus"] >= 1
    assert isinstance(found["virtual"]["hypervisor"], bool)


def test_no_user_host_or_folder_is_in_an_environment(monkeypatch):
    monkeypatch.setenv("OMP_PLACES", str(Path.home()))
    text = json.dumps(machine.environment())
    for secret in (str(Path.home()), socket.gethostname(), str(Path.cwd())):
        assert secret not in text
    if getpass.getuser() != "root":  # a word that kernels and compilers may have in their versions
        assert getpass.getuser() not in text
