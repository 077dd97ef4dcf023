"""ONNX Runtime on the model that `torch.onnx.export(dynamo=True)` writes, with every graph optimisation.

Intra-op threads as asked, one inter-op thread, sequential execution: what its documentation recommends for latency.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from suites.backends import _onnx_values
from suites.backends import _onnxruntime_graph as graph
from suites.backends import _onnxruntime_quantise as quantise
from suites.backends.base import Backend, BackendSwitch, Generator, Prepared, Scheme
from suites.harness.declare.precision import PRECISIONS
from suites.harness.errors import Refused, Unavailable
from suites.models.user.onnx_file import OnnxFile

if TYPE_CHECKING:
    import numpy as np
    from torch import Tensor, nn
    from torch.export import ExportedProgram

    from suites.models.nets.generation import Generation


LEVELS = {"disabled": "ORT_DISABLE_ALL", "basic": "ORT_ENABLE_BASIC", "extended": "ORT_ENABLE_EXTENDED"}
"""Levels of optimisation below the usual one, ``all``."""
FAMILIES = ("bert", "gpt2", "qwen3", "bart", "t5", "phi", "vit")
"""Families of transformers that the offline optimiser knows."""
MOST_REWRITTEN = 10_000
"""Nodes up to which torch's exporter optimises the graph that it wrote.

For each node its rewriter looks at all others: where a scan is unrolled it had not ended after a quarter of an hour.
ONNX Runtime folds and fuses the graph itself when it opens it."""

_SCRIPT = """\
import onnxruntime
torch.onnx.export(model, inputs, "repro.onnx", dynamo=True, verbose=False)
session = onnxruntime.InferenceSession("repro.onnx", providers=["CPUExecutionProvider"])
results = session.run(None, {one.name: x.numpy() for one, x in zip(session.get_inputs(), inputs)})
"""


class OnnxRuntime(Backend):
    """The CPU execution provider.

    Options: ``level`` of optimisation, ``all`` where it is not said; ``without=A+B``, graph transformers to leave out;
    ``tool=bert``, ONNX Runtime's offline optimiser for that family of transformers in front.
    """

    takes_numpy = True
    runs = ("module", "onnx")
    lists = ("without",)
    values: ClassVar[Mapping[str, Sequence[str]]] = {
        "level": ("all", *LEVELS),
        "without": graph.TRANSFORMERS,
        "tool": FAMILIES,
    }
    keeps = "onnx"
    scripts: ClassVar[Mapping[str, str]] = {"fp32": _SCRIPT}
    schemes: ClassVar[Mapping[str, Scheme]] = {
        "int8_weight": Scheme(
            f"MatMulNBits has a scale for each {quantise.BLOCK} elements of a weight of 8 bits, and of activations "
            f"(accuracy level {quantise.ACCURACY_LEVEL}); embeddings stay float32"
        ),
        "int8_dynamic": Scheme(
            "activations have one fixed scale a tensor (quantize_static, QDQ; 7-bit weights without VNNI)",
            "own activations",
            is_calibrated=True,
        ),
    }

    @classmethod
    def switches(cls) -> Sequence[BackendSwitch]:
        return [
            *(BackendSwitch("transformer", name, {"without": name}) for name in graph.TRANSFORMERS),
            *(BackendSwitch("level", f"level={name}", {"level": name}) for name in LEVELS),
            *(BackendSwitch("tool", f"tool={name}", {"tool": name}, usual=name in FAMILIES[:2]) for name in FAMILIES),
        ]

    def load(self) -> None:
        import onnxruntime  # the exporter (torch.onnx, onnxscript) is imported when it exports

        onnxruntime.set_default_logger_severity(3)

    def prepare(self, model: nn.Module, inputs: tuple[Tensor, ...]) -> Prepared:
        """A user's ONNX file is read as it is, with the case's sizes in place of open axes."""
        import torch

        source = model if isinstance(model, OnnxFile) else None
        session, export_s, compile_s, facts = self._session(lambda path: _export(model, inputs, path), source)
        names = [entry.name for entry in session.get_inputs()]

        def call_numpy(*arguments: np.ndarray) -> list[np.ndarray]:
            found: list[np.ndarray] = session.run(None, dict(zip(names, arguments, strict=True)))
            return found

        def call(*arguments: Tensor) -> list[Tensor]:
            feed = {name: tensor.numpy() for name, tensor in zip(names, arguments, strict=True)}
            return [torch.from_numpy(array) for array in session.run(None, feed)]

        chosen = call_numpy if self.io == "numpy" else call
        return Prepared(chosen, export_s, compile_s, facts, precision=self.precision)

    def generator(self, model: Generation, inputs: tuple[Tensor, ...]) -> Generator:  # noqa: ARG002  # part of the interface
        """Export with the past as inputs and outputs; a step's present is bound as the next one's past, uncopied."""
        module = model.with_past()
        arguments, vary = module.example(model.batch)
        session, export_s, compile_s, facts = self._session(lambda path: _export(module, arguments, path, vary))
        texts = _Texts(session, module.shapes(model.batch, 0))
        return Generator(texts.begin, texts.step, export_s, compile_s, facts, precision=self.precision)

    def show(
        self, program: ExportedProgram, names: Collection[str], inputs: Sequence[np.ndarray]
    ) -> tuple[Mapping[str, np.ndarray], str]:
        """As `Backend.show`: the values are outputs of a copy of the graph."""
        import onnxruntime

        self.load()
        with tempfile.TemporaryDirectory() as name:
            plain, more = Path(name) / "model.onnx", Path(name) / "more.onnx"
            found = _onnx_values.write(program, names, plain, more)
            made = [graph.described_elsewhere(one, one, self._level, _names(self.options)) for one in (plain, more)]
            session = onnxruntime.InferenceSession(
                more,
                self._session_options(),
                providers=["CPUExecutionProvider"],
                disabled_optimizers=_names(self.options),
            )
            taken = [entry.name for entry in session.get_inputs()]
            results = session.run(list(found.values()), dict(zip(taken, inputs, strict=True)))
        usual, shown = (sum(one["details"].get("made", {}).values()) for one in made)
        note = f"onnxruntime makes {shown} operators of its own where it shows these values, {usual} otherwise."
        return dict(zip(found, results, strict=True)), note

    def _quantise(self, source: Path, target: Path) -> None:
        """Write the model of a quantised case."""
        if self.precision == "int8_weight":
            quantise.quantise_weights(source, target)
        else:
            quantise.quantise_statically(source, target, self.calibration())

    def _session(
        self, export: Callable[[Path], None], own: OnnxFile | None = None
    ) -> tuple[Any, float | None, float, Mapping[str, Any]]:
        """A session of what `export` writes, of what an earlier process of the case had written, or of a user's `own`
        file; then seconds of export and of the rest, and facts.
        """
        import onnxruntime
        import torch

        torch.set_num_threads(self.threads)
        is_quantised = PRECISIONS[self.precision].kind == "quantised"
        if own is not None and is_quantised:
            raise Unavailable(f"{self.precision} of an ONNX file of a user is not implemented")
        start = time.perf_counter()
        kept = self.kept(self.keeps)
        reused = own is not None or (kept is not None and kept.exists())
        with tempfile.TemporaryDirectory(dir=self.exports) as temporary:
            folder = kept or Path(temporary) / "onnx"
            if not reused:
                partial = folder.with_name("onnx.partial")
                shutil.rmtree(partial, ignore_errors=True)
                partial.mkdir()
                plain = Path(temporary) / "plain" if is_quantised else partial
                plain.mkdir(exist_ok=True)
                export(plain / "model.onnx")
                if is_quantised:
                    self._quantise(plain / "model.onnx", partial / "model.onnx")
                partial.rename(folder)  # appears only when it is complete
            exported = time.perf_counter()
            source = model = folder / "model.onnx" if own is None else own.path
            options, optimised = self._session_options(), Path(temporary) / "facts.onnx"
            for axis, size in {} if own is None else own.sizes.items():
                options.add_free_dimension_override_by_name(axis, size)
            details: dict[str, Any] = {}
            if "tool" in self.options:
                source = Path(temporary) / "tool.onnx"
                details["tool_made"] = graph.optimise(model, self.options["tool"], source)
            if self.wants_facts:
                graph.write_optimised(options, optimised)
            session = onnxruntime.InferenceSession(
                source, options, providers=["CPUExecutionProvider"], disabled_optimizers=_names(self.options)
            )
            compiled = time.perf_counter()
            files = folder.iterdir() if own is None else [own.path]
            facts: dict[str, Any] = {"artifact_bytes": sum(file.stat().st_size for file in files)}
            facts |= graph.described(optimised, model) if self.wants_facts else self._described(source, model)
            facts["details"] |= details
        return session, None if reused else exported - start, compiled - exported, facts

    def _described(self, source: Path, exported: Path) -> dict[str, Any]:
        """Facts of the graph that the session runs, or what an earlier process with these options has written of it."""
        written = None if self.programs is None else self.programs / "facts.json"
        if written is not None and written.is_file():
            read: dict[str, Any] = json.loads(written.read_text(encoding="utf-8"))
            return read
        found = graph.described_elsewhere(source, exported, self._level, _names(self.options))
        if written is not None:
            written.with_suffix(".partial").write_text(json.dumps(found), encoding="utf-8")
            written.with_suffix(".partial").rename(written)  # appears only when it is complete
        return found

    @property
    def _level(self) -> str:
        """Name in ``onnxruntime.GraphOptimizationLevel``."""
        return LEVELS.get(self.options.get("level", "all"), "ORT_ENABLE_ALL")

    def _session_options(self) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = getattr(onnxruntime.GraphOptimizationLevel, self._level)
        options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
        options.intra_op_num_threads = self.threads
        options.inter_op_num_threads = 1
        return options


class OnnxRuntimeDynamic(OnnxRuntime):
    """The same with weights and activations of 8 bits, as ONNX Runtime's documentation recommends for transformers."""

    schemes = dict.fromkeys(
        ("int8_weight", "int8_dynamic"),
        Scheme(
            "activations are quantised, too, with one scale a tensor (quantize_dynamic; 7-bit weights without VNNI)",
            "own activations",
        ),
    )

    def _quantise(self, source: Path, target: Path) -> None:
        quantise.quantise_dynamically(source, target)


def _names(options: Mapping[str, str]) -> list[str]:
    """Graph transformers that `options` leave out."""
    return list(filter(None, options.get("without", "").split("+")))


class _Texts:
    """The texts that a session with past and present goes on with: what it gave last is what it is given next.

    The session's inputs are ids and the past, whose shapes without tokens are `empty`; outputs are logits and the
    present.
    """

    def __init__(self, session: Any, empty: Sequence[tuple[int, ...]]) -> None:
        import numpy as np
        import onnxruntime

        self._session = session
        self._ids, *self._past = [entry.name for entry in session.get_inputs()]
        self._logits, *self._present = [entry.name for entry in session.get_outputs()]
        self._empty = [onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(shape, np.float32)) for shape in empty]
        self._kept = self._empty

    def begin(self, ids: Tensor) -> Tensor:
        self._kept = self._empty
        return self.step(ids)

    def step(self, ids: Tensor) -> Tensor:
        import torch

        binding = self._session.io_binding()
        binding.bind_cpu_input(self._ids, ids.numpy())
        for name, value in zip(self._past, self._kept, strict=True):
            binding.bind_ortvalue_input(name, value)
        for name in (self._logits, *self._present):
            binding.bind_output(name)
        self._session.run_with_iobinding(binding)
        logits, *self._kept = binding.get_outputs()
        return torch.from_numpy(logits.numpy())


def _export(model: nn.Module, inputs: tuple[Any, ...], path: Path, dynamic_shapes: Any = None) -> None:
    """Write the model as an ONNX file. Refused, with the cause in one line, if torch cannot export it."""
    import torch

    # Loggers, warning filters and sys.stdout belong to the process, which exists for this backend (see `Backend`).
    for name in ("torch.onnx", "onnxscript"):
        logging.getLogger(name).setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), torch.no_grad():
            warnings.simplefilter("ignore")
            program = torch.onnx.export(
                model, inputs, dynamo=True, external_data=True, dynamic_shapes=dynamic_shapes, optimize=False
            )
            assert program is not None  # noqa: S101  # as torch types it
            _check_outputs(program.exported_program)
            if program.model.graph.num_nodes() <= MOST_REWRITTEN:
                program.optimize()
            program.save(path, external_data=True)
    except torch.onnx.OnnxExporterError as error:
        cause: BaseException = error  # the text of torch.onnx is a page of advice
        while cause.__cause__ is not None:
            cause = cause.__cause__
        first, *_ = str(cause).strip().splitlines() or [""]
        raise Refused(f"torch.onnx cannot export the model: {type(cause).__name__}: {first}") from error


def _check_outputs(exported: Any) -> None:
    """Refuse complex outputs: torch.onnx writes their real and imaginary parts as one more axis of a real tensor."""
    *_, end = exported.graph.nodes
    for node in end.args[0]:
        value = getattr(node, "meta", {}).get("val")
        if getattr(value, "is_complex", bool)():
            raise Unavailable("ONNX has no complex numbers, and an output of the model is complex")
