"""docs/add-a-model.md, followed to the letter."""

from __future__ import annotations

import re
import sys
from importlib import import_module

import pytest
import torch

from suites import models
from tests.models import test_suites


@pytest.fixture
def page(root):
    """Code blocks of the page, in order, as (language, text)."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", (root / "docs/add-a-model.md").read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def with_the_model(page, tmp_path, monkeypatch):
    """The package's folders grow by one that holds the page's two files: the same as writing them there."""
    (tmp_path / "nets").mkdir()
    python = [text for language, text in page if language == "python"]
    (tmp_path / "autoencoder.py").write_text(python[0])
    (tmp_path / "nets" / "autoencoder.py").write_text(python[1])
    nets = import_module("suites.models.nets")
    for package, folder in ((models, tmp_path), (nets, tmp_path / "nets")):
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(folder)])
    yield
    for name in ("suites.models.autoencoder", "suites.models.nets.autoencoder"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("with_the_model")
def test_the_model_of_the_page_is_found_and_computes():
    assert "autoencoder" in models.names()
    model, (x,) = models.get("autoencoder").build(batch=3, narrow=4, activation="tanh")
    expected = torch.tanh(x @ model.squeeze.weight.T + model.squeeze.bias) @ model.restore.weight.T + model.restore.bias
    torch.testing.assert_close(model(x), expected)


@pytest.mark.usefixtures("with_the_model")
def test_the_suite_of_the_page_expands_to_its_cases(page):
    from suites.harness.declare import spec

    (text,) = [text for language, text in page if language == "toml"]
    suite = spec.parse(text, "autoencoder.toml")
    assert len(list(suite.cases())) == 2 * 2 * 2
    for case, _backends in suite.cases():
        models.get(case.model).complete(case.build_arguments)


@pytest.mark.usefixtures("with_the_model")
def test_no_suite_has_to_name_the_model():
    test_suites.test_the_suite_of_models_has_each_of_them_by_every_backend_on_one_thread_and_two()


def test_the_factory_of_the_page_is_a_model(page, tmp_path):
    (tmp_path / "mine.py").write_text([text for language, text in page if language == "python"][2])
    model, inputs = models.get(f"{tmp_path / 'mine.py'}:factory").build()
    assert model(*inputs).shape == (2, 8)
