"""Files while and after they are loaded: shortened, replaced, deleted, unaligned; what a process keeps of them."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy
import torch
from torch import nn

import engine
from engine.errors import ConfigError, ProgramError
from engine.graph import list_constants
from engine.memory import is_mapped
from engine.ops import TABLE
from engine.program import VERSION, container
from tests import messages
from tests.files import saved_with
from tests.golden import models as golden

MODES = [False, True]
PROGRAM, DECODER = golden.file("program"), golden.file("decoder")
SIZES = [(3, 4), (2, 3), (8, 9)]


class Network(nn.Module):
    """A table that is read plain, a weight that is packed, and one that is both."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(300, 64)
        self.up = nn.Linear(64, 4096)
        self.down = nn.Linear(4096, 64)

    def forward(self, ids):
        return self.down(torch.relu(self.up(self.table(ids)))) @ self.table.weight.t()


@pytest.fixture(scope="module")
def network():
    torch.manual_seed(0)
    return Network().eval()


@pytest.fixture(scope="module")
def compiled(network):
    length = torch.export.Dim("length", min=2, max=64)
    return engine.compile(network, (torch.arange(8),), dynamic_shapes={"ids": {0: length}})


def described(path):
    """The program's header and, by name, the bytes of each tensor."""
    with container.opened(path, mapped=False) as (header, tensors):
        return json.loads(header), {name: read().tobytes() for name, read in tensors.items()}


def in_process(code, *arguments):
    """Run `code` in a process of its own; its first lines import engine and NumPy and define paths."""
    prelude = "import mmap, os, sys\nfrom pathlib import Path\nimport numpy as np\nimport engine\n"
    command = [sys.executable, "-c", prelude + textwrap.dedent(code), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)


# --- files that earlier engines wrote --------------------------------------------------------------------------------


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("verify", ["full", "header"])
@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_program_file_of_an_earlier_engine_gives_what_its_model_gives(version, mmap, verify):
    loaded = engine.load(golden.file("program", version), verify, mmap=mmap)
    for batch, length in SIZES:
        model = golden.set_weights(golden.Small())
        ids, scale = torch.arange(batch * length).reshape(batch, length) % 10, torch.tensor(2.0)
        state = loaded.new_state()
        got, expected = loaded(ids, scale, state=state), model(ids, scale)
        assert list(got) == list(expected)
        for name, value in expected.items():
            # The last layer is bfloat16, with 8 bits of precision.
            torch.testing.assert_close(got[name], value, rtol=2**-7, atol=2**-7, msg=name)
        np.testing.assert_allclose(state["total"], model.total, rtol=2**-7)


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_file_of_convolutions_of_an_earlier_engine_gives_what_its_model_gives(version, mmap):
    loaded, model = engine.load(golden.file("images", version), mmap=mmap), golden.set_weights(golden.Images())
    assert loaded.graph.lowered == ""
    assert loaded.lowered.lowered == "cpu"
    assert "channels_last" in dict(loaded.report().passes)
    torch.testing.assert_close(loaded(golden.image()), model(golden.image()), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_decoder_file_of_an_earlier_engine_gives_what_its_model_gives(version, mmap):
    decoder = engine.load_decoder(golden.file("decoder", version), mmap=mmap)
    model = golden.set_weights(golden.Tied())
    ids = torch.tensor([[3, 17, 4]])
    expected = model(ids, torch.tensor([0]), torch.tensor([3]))
    torch.testing.assert_close(decoder.prefill(ids), expected, rtol=1e-5, atol=1e-4)
    for place, token in enumerate((7, 0, 19), 3):
        step = torch.tensor([[token]])
        expected = model(step, torch.tensor([place]), torch.tensor([place + 1]))
        torch.testing.assert_close(decoder.decode(step), expected, rtol=1e-5, atol=1e-4)


def update_header(header, loaded):
    """Make the header of the file of an earlier engine what this engine writes of the same programs."""
    header.update(version=VERSION)
    graphs = loaded._graphs if "entries" in header else {"": loaded.graph}
    for name, part in header.get("entries", {"": header}).items():
        part.update(version=VERSION)
        for instruction in part["instructions"]:
            if "compute" in TABLE[instruction["op"]].attributes:  # files from before products had it do not name it
                instruction["attributes"].setdefault("compute", "element")
            missing = len(TABLE[instruction["op"]].inputs) - len(instruction["inputs"])  # of products of bytes
            instruction["inputs"] += [None] * missing
        modules = [part["origins"]["modules"].index(node.source.module) for node in graphs[name].nodes]
        part["origins"].setdefault("instructions", modules)  # earlier files name them where they do not follow


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("version", golden.VERSIONS)
def test_a_file_of_encoded_weights_of_an_earlier_engine_gives_what_its_weights_decode_to(version, mmap, tmp_path):
    """Torch rounds the weights here, in groups of 32 and in channels, with scales of the largest / 7 and / 127."""
    loaded = engine.load(golden.file("encoded", version), mmap=mmap, config=engine.Config(target="interpreter"))
    model = golden.set_weights(golden.Encoded())
    for weight, group, most in (
        (model.table.weight, 32, 7),
        (model.up.weight, 32, 7),
        (model.down.weight, 40, 127),
    ):
        blocks = weight.reshape(len(weight), -1, group)
        scale = blocks.abs().amax(-1, keepdim=True) / most
        weight.copy_((torch.round(blocks / scale) * scale).reshape(weight.shape))
    torch.testing.assert_close(loaded(torch.arange(10)), model(torch.arange(10)), rtol=1e-5, atol=1e-5)
    loaded.save(tmp_path / "again.engine")
    header, tensors = described(golden.file("encoded", version))
    update_header(header, loaded)
    assert described(tmp_path / "again.engine") == (header, tensors)


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("version", golden.VERSIONS)
@pytest.mark.parametrize("name", ["program", "images", "decoder"])
def test_a_loaded_file_is_saved_again_as_it_was(name, version, mmap, tmp_path):
    """Packed weights are unpacked to their last bit."""
    load = engine.load_decoder if name == "decoder" else engine.load
    loaded = load(golden.file(name, version), mmap=mmap)
    loaded.save(tmp_path / "again.engine")
    header, tensors = described(golden.file(name, version))
    update_header(header, loaded)
    assert described(tmp_path / "again.engine") == (header, tensors)


def test_a_file_has_the_permissions_of_other_files_of_the_process(tmp_path):
    (tmp_path / "other").touch()
    engine.load(PROGRAM).save(tmp_path / "p.engine")
    assert (tmp_path / "p.engine").stat().st_mode == (tmp_path / "other").stat().st_mode


# --- what is left of a file after loading ----------------------------------------------------------------------------


LEFT = """
    path = sys.argv[1]
    load = engine.load_decoder if sys.argv[2] == "decoder" else engine.load
    loaded = load(path, mmap=sys.argv[3] == "True", config=engine.Config(target=sys.argv[4]))
    print(path in Path("/proc/self/maps").read_text())
    links = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    print(path in links)
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="mappings are listed in Linux's /proc")
@pytest.mark.parametrize(
    ("mmap", "path", "target"),
    [
        (False, PROGRAM, "cpu"),
        (True, DECODER, "cpu"),
        *(
            pytest.param(*case, marks=pytest.mark.long)
            for case in (
                (False, PROGRAM, "interpreter"),
                (False, DECODER, "cpu"),
                (False, DECODER, "interpreter"),
                (True, PROGRAM, "cpu"),
                (True, PROGRAM, "interpreter"),
                (True, DECODER, "interpreter"),
            )
        ),
    ],
)
def test_a_loaded_file_is_mapped_and_open_only_if_asked_for(path, mmap, target):
    done = in_process(LEFT, path, path.stem.split("-")[0], mmap, target)
    assert done.stdout.split() == [str(mmap), str(mmap)], done.stderr  # a mapping of Python keeps the file open


@pytest.mark.parametrize(
    "change", ["truncate", *(pytest.param(c, marks=pytest.mark.long) for c in ("overwrite", "delete"))]
)
def test_what_happens_to_the_file_later_does_not_change_a_program(compiled, tmp_path, change):
    """Also for sizes whose plan is made only then, which read and pack constants again if they need to."""
    path = tmp_path / "p.engine"
    compiled.save(path)
    for length in (8, 64, 33):
        np.save(tmp_path / f"{length}.npy", compiled(np.arange(length)))
    code = """
        path, folder, change = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
        program = engine.load(path)

        def check(length):
            assert np.array_equal(program(np.arange(length)), np.load(folder / f"{length}.npy"))

        check(8)
        size = path.stat().st_size
        if change == "truncate":
            os.truncate(path, size // 2)
        elif change == "overwrite":
            path.write_bytes(bytes(size))
        else:
            path.unlink()
        for length in (8, 64, 33):
            check(length)
        program.trace(np.arange(9))
        program.save(folder / "again.engine")
    """
    done = in_process(code, path, tmp_path, change)
    assert done.returncode == 0, done.stderr
    assert engine.load(tmp_path / "again.engine").digest == compiled.digest


@pytest.mark.parametrize("verify", ["full", "header"])
def test_a_mapped_program_whose_file_was_overwritten_is_not_saved(compiled, tmp_path, verify):
    path = tmp_path / "p.engine"
    compiled.save(path)
    program = engine.load(path, verify, mmap=True)
    _ = program.digest  # computes the checksums, as verify="full" does
    with path.open("r+b") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        size = path.stat().st_size - start
        file.seek(start)
        file.write(bytes(size))
    with messages.raises(ProgramError):
        program.save(tmp_path / "again.engine")
    assert not (tmp_path / "again.engine").exists()


@pytest.mark.parametrize("name", ["\ud800", "before \udfff"])
def test_half_of_a_surrogate_pair_is_refused(compiled, tmp_path, name):
    saved_with(compiled, tmp_path / "p.engine", lambda header: header.update(name=name))
    with messages.raises(ProgramError):
        engine.load(tmp_path / "p.engine")


def test_a_path_that_no_file_can_have_is_refused_by_load_and_save(compiled, tmp_path):
    path = f"{tmp_path}/p\ud800.engine"
    for call in (engine.load, compiled.save):
        with messages.raises(ConfigError):
            call(path)


def test_a_full_disk_is_told_in_the_words_of_the_system(compiled, tmp_path, monkeypatch):
    def fail(*_arguments):
        text = "Error while serializing: I/O error: No space left on device (os error 28)"
        raise safetensors.SafetensorError(text)

    monkeypatch.setattr(safetensors.numpy, "save_file", fail)
    with messages.raises(ProgramError):
        compiled.save(tmp_path / "p.engine")


def test_a_read_only_file_system_is_told_in_the_words_of_the_system(compiled, tmp_path, monkeypatch):
    def refuse(path, *_arguments, **_options):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS), str(path))

    for name in ("touch", "unlink"):  # such a system refuses to remove a file that is not there, too
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(ProgramError, match=r"p.engine: cannot be written: Read-only file system$"):
        compiled.save(tmp_path / "p.engine")


def test_a_name_outside_of_ascii_is_kept(compiled, tmp_path):
    saved_with(compiled, tmp_path / "p.engine", lambda header: header.update(name="Grüße \U0001f600"))
    assert engine.load(tmp_path / "p.engine").report().name == "Grüße \U0001f600"


def test_a_decoder_does_not_need_its_file_after_loading(tmp_path):
    decoder = engine.load_decoder(DECODER)
    expected = decoder.generate(np.array([[3, 17, 4]]), 6)
    decoder.save(tmp_path / "whole.engine")
    path = Path(shutil.copy(DECODER, tmp_path))
    code = """
        decoder = engine.load_decoder(sys.argv[1])
        os.truncate(sys.argv[1], 100)
        print(decoder.generate(np.array([[3, 17, 4]]), 6).tolist())
        decoder.save(sys.argv[2])
    """
    done = in_process(code, path, tmp_path / "again.engine")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == str(expected.tolist())
    assert (tmp_path / "again.engine").read_bytes() == (tmp_path / "whole.engine").read_bytes()


def test_weights_of_a_loaded_program_are_not_those_of_the_compiled_one_only_their_bits_are(compiled, tmp_path):
    compiled.save(tmp_path / "p.engine")
    for mmap in MODES:
        loaded = engine.load(tmp_path / "p.engine", mmap=mmap)
        assert loaded.digest == compiled.digest
        for length in (2, 8, 64):
            assert loaded(np.arange(length)).tobytes() == compiled(np.arange(length)).tobytes()
        theirs, mine = (list_constants([one.graph]) for one in (loaded, compiled))
        assert [one().tobytes() for one in theirs] == [one().tobytes() for one in mine]


def test_a_decoder_does_not_follow_weights_of_its_module_that_change():
    model = golden.set_weights(golden.Tied())
    decoder = engine.compile_decoder(model, golden.MAX_LENGTH)
    ids = torch.tensor([[3, 17, 4]])
    expected = decoder.generate(ids, 5)
    with torch.no_grad():
        for weight in model.parameters():
            weight.neg_()
    assert torch.equal(decoder.generate(ids, 5), expected)


# --- files that are damaged before, or change while they are read ----------------------------------------------------


@pytest.mark.parametrize("mmap", MODES)
@pytest.mark.parametrize("part", [0.0, 0.3, 0.5, 0.99])
def test_a_file_that_was_truncated_before_is_refused_by_name(compiled, tmp_path, mmap, part):
    path = tmp_path / "cut.engine"
    compiled.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(part * len(whole))])
    with pytest.raises(ProgramError, match=rf"^{path}: "):
        engine.load(path, mmap=mmap)


@pytest.mark.parametrize("name", ["program", "images", "decoder"])
def test_a_constant_is_read_from_the_file_once(name, monkeypatch):
    read, counts = container.StoredTensor.read_into, Counter()

    def counted(self, memory):
        counts[self.entry.name] += 1
        return read(self, memory)

    monkeypatch.setattr(container.StoredTensor, "read_into", counted)
    load = engine.load_decoder if name == "decoder" else engine.load
    load(golden.file(name))
    assert counts
    assert {name: count for name, count in counts.items() if count > 1} == {}


class Interrupted:
    """Reads of a file, before one of which something happens."""

    def __init__(self, monkeypatch, act):
        self.reads = 0
        original = container.StoredTensor.read_into

        def read_into(tensor, memory):
            self.reads += 1
            if self.reads == 3:
                act()
            return original(tensor, memory)

        monkeypatch.setattr(container.StoredTensor, "read_into", read_into)


@pytest.mark.parametrize("verify", ["full", "header"])
def test_a_file_that_shrinks_while_it_is_read_is_refused(compiled, tmp_path, monkeypatch, verify):
    path = tmp_path / "p.engine"
    compiled.save(path)
    Interrupted(monkeypatch, lambda: os.truncate(path, path.stat().st_size // 4))
    with pytest.raises(ProgramError, match=rf"^{path}: the file was shortened while it was read: constant.* lacks"):
        engine.load(path, verify)


def test_a_weight_that_changes_while_the_file_is_read_is_refused(compiled, tmp_path, monkeypatch):
    path = tmp_path / "p.engine"
    compiled.save(path)

    def overwrite():
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2 :] = bytes(len(raw) - len(raw) // 2)
        with path.open("r+b") as file:
            file.write(raw)

    Interrupted(monkeypatch, overwrite)
    with pytest.raises(ProgramError, match=rf"^{path}: the checksum of constant.\d+ does not match"):
        engine.load(path)


def test_an_error_of_the_disk_is_an_error_of_the_program(compiled, tmp_path, monkeypatch):
    path = tmp_path / "p.engine"
    compiled.save(path)

    def fail():
        raise OSError(5, "Input/output error")

    Interrupted(monkeypatch, fail)
    with messages.raises(ProgramError):
        engine.load(path)


@pytest.mark.parametrize("mmap", MODES)
def test_every_damaged_weight_is_found_by_its_checksum_and_only_by_it(tmp_path, mmap):
    whole = PROGRAM.read_bytes()
    start = 8 + int.from_bytes(whole[:8], "little")
    index = json.loads(whole[8:start])
    for name, entry in index.items():
        if name == "__metadata__":
            continue
        damaged = bytearray(whole)
        damaged[start + entry["data_offsets"][0]] ^= 1
        path = tmp_path / "bad.engine"
        path.write_bytes(damaged)
        with messages.raises(ProgramError):
            engine.load(path, mmap=mmap)
        engine.load(path, "header", mmap=mmap)


def test_a_folder_is_no_program(tmp_path):
    for mmap in MODES:
        with messages.raises(ProgramError):
            engine.load(tmp_path, mmap=mmap)


def test_a_device_is_no_program():
    for load in (engine.load, engine.load_decoder):
        for path in ("/dev/zero", "/dev/null"):
            with messages.raises(ProgramError):
                load(path)


def test_mmap_is_a_bool():
    for load in (engine.load, engine.load_decoder):
        with messages.raises(ConfigError):
            load(PROGRAM, mmap=1)


# --- alignment -------------------------------------------------------------------------------------------------------


def with_odd_header(path, target):
    """The same file with a header that is longer by one to eight blanks, so that its length is odd."""
    raw = path.read_bytes()
    length = int.from_bytes(raw[:8], "little")
    header = raw[8 : 8 + length] + b" " * (1 + length % 2 * 6)
    assert len(header) % 2 == 1
    target.write_bytes(len(header).to_bytes(8, "little") + header + raw[8 + length :])
    return target


@pytest.mark.parametrize("target", ["cpu", "interpreter"])
@pytest.mark.parametrize("mmap", MODES)
def test_constants_at_odd_addresses_of_a_file_are_aligned_before_kernels_read_them(tmp_path, mmap, target):
    path = with_odd_header(PROGRAM, tmp_path / "odd.engine")
    config = engine.Config(target=target)
    odd, even = engine.load(path, mmap=mmap, config=config), engine.load(PROGRAM, config=config)
    ids, scale = (part.numpy() for part in golden.example())
    results = [one(ids, scale, state=one.new_state()) for one in (odd, even)]
    for name, value in results[1].items():
        assert results[0][name].tobytes() == value.tobytes()
    for value in odd.graph.stored_constants():
        array = value.elements
        assert array.flags.aligned, value
        assert array.ctypes.data % array.dtype.itemsize == 0, value
    assert odd.digest == even.digest


# --- memory ----------------------------------------------------------------------------------------------------------


def test_mapped_constants_that_kernels_read_plain_are_not_copied():
    program = engine.load(PROGRAM, mmap=True)
    plain = list(program._prepared._plain.values())
    assert plain
    assert all(map(is_mapped, plain))


def test_a_file_may_not_ask_for_more_memory_than_there_is(tmp_path):
    """128 TiB of zeros are less than the largest value of a program, and more than a process can have."""
    model, x = nn.ReLU().eval(), torch.zeros(4)

    def widen(header):
        header["types"] = [["float32", [1 << 45]] for _ in header["types"]]

    path = tmp_path / "p.engine"
    saved_with(engine.compile(model, (x,)), path, widen)
    with pytest.raises(ProgramError, match=rf"^{path}: a call takes \d{{15}} bytes; this process can have"):
        engine.load(path)


def test_a_decoder_file_may_not_ask_for_a_cache_of_more_memory_than_there_is(tmp_path, monkeypatch):
    """It is refused before its cache is made: filling that with zeros could end the process for want of memory."""

    def add_buffer(header):
        for entry in header["entries"].values():
            number = len(entry["types"])
            entry["types"].append(["float32", [1 << 45]])
            entry["names"].append("large")
            entry["inputs"].append(number)
            entry["outputs"].append(number)
            entry["states"].append(["large", None])

    path = tmp_path / "d.engine"
    saved_with(engine.load_decoder(DECODER), path, add_buffer)
    monkeypatch.setattr(engine.Decoder, "new_state", lambda _self: pytest.fail("the cache was made"))
    with pytest.raises(ProgramError, match=rf"^{path}: a call takes \d{{15}} bytes; this process can have"):
        engine.load_decoder(path)


def test_a_pipe_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for mmap in (False, True):
        with messages.raises(ProgramError):
            engine.load(tmp_path / "pipe", mmap=mmap)


def test_a_type_of_activations_that_a_program_was_not_compiled_with_is_refused_when_loading(compiled, tmp_path):
    path = tmp_path / "p.engine"
    compiled.save(path)
    with messages.raises(ConfigError):
        engine.load(path, config=engine.Config(activations="model"))
    assert engine.load(path, config=compiled.config).config.activations == "float32"
    earlier = golden.file("program", golden.VERSIONS[0])
    with messages.raises(ConfigError):
        engine.load(earlier, config=engine.Config(activations="float32"))
    with messages.raises(ConfigError):
        engine.load_decoder(golden.file("decoder", golden.VERSIONS[0]), config=engine.Config(activations="float32"))
