"""Is an output right? Compares arrays with the reference. Pure NumPy: knows no torch, no process, no clock.

An output is right where it has the shape and dtype of eager's, NaN and each Inf exactly where the reference has them,
and a relative error ||out - ref|| / ||ref|| (2-norms, in float64) within the tolerance of `Reference.tolerance`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from suites.harness.record.schema import Accuracy

TOLERANCE_FACTOR = 32.0
"""Allowed error as a multiple of eager's own float32 error.

Chosen once, so that Winograd F(4x4, 3x3) passes: at the usual points, which other libraries may use, its error was 6 to
21 times that of torch's float32 convolution for 1 to 512 channels (one 6x6 tile of normal and of rectified normal data,
channels summed naively in NumPy); at this engine's points up to 10 times. A wrong answer is off by orders of magnitude
more.
"""

TOLERANCE_ULPS = 4.0
"""Allowed error in units of the output dtype's epsilon where eager makes none (graphs that only copy)."""

MOST_TOLERANCE = 0.1
"""No larger error is allowed, whatever eager makes: where one digit is not sure, no answer can be told from another.

Of the models here Mamba with its random weights is allowed most, 0.03.
"""

ROUNDED_FACTOR = 3.0
"""Allowed error in bfloat16 and float16 as a multiple of eager's own in that type.

Rounding dominates these errors, and eager rounds after every operator. Right implementations are about as far off, or
1.8 times as far where they round partial sums (`tools/simulate_tolerance.py`).
"""

ROUNDED_UNITS = 1.0
"""Allowed error in units of epsilon of bfloat16 or float16 where eager makes none: two roundings of every element."""

QUANTISED_LEAST = 2.0**-13
"""Allowed error where weights are quantised and activations are not, whatever eager makes.

A factor that is folded into a weight before it is quantised moves a few quotients over the middle between two integers.
"""

DYNAMIC_LEAST = 2.0**-8
"""The same where activations are quantised, too: a sum of another order moves an activation over the middle between two
integers now and then, by 1/127 of the largest in its row. In a normal row of K elements that is an error of about
0.024 / sqrt(K): 0.003 at K = 64.
"""

OWN_FACTOR = 3.0
"""Allowed error of a backend with its own quantisation scheme, in multiples of the error of the precision's own scheme.
Both errors are relative to the unquantised model.

Chosen once, from the schemes and planted faults of docs/tolerances.md (`tools/compare_schemes.py`): the largest
ratio of a correct scheme was 2.2.
"""

OWN_ACTIVATIONS_FACTOR = 8.0
"""The same where activations have one scale for the whole tensor: the largest ratio of a correct scheme was 5.1."""

OWN_MOST = 0.7
"""No larger error is allowed of such a backend: an output of zeros has an error of 1."""

OWN_DTYPE_TOLERANCE = 1e-4
"""Allowed relative error where no float64 reference exists, so that eager's own error is unknown."""


@dataclass(frozen=True)
class Rule:
    """How the bound on the relative error of an output is made.

    Attributes:
        factor: times the error that the reference states: eager's own, or that of quantising where a rule
            ``own ...`` applies.
        units: at least so many units of the output's epsilon.
        least: at least this, of a floating-point output.
        pools_steps: True if the larger one of eager's error and its root mean square over all outputs of the same shape
            and type counts. Such outputs are the steps of decoding. Rounding affects each step differently: in smollm2
            in bf16, eager's errors of 16 steps were 0.004 to 0.028.
        most: at most this, whatever error the reference states.
        stated: what makes the error that the reference states.
    """

    factor: float
    units: float
    least: float = 0.0
    most: float = MOST_TOLERANCE
    stated: str = "eager's own"
    pools_steps: bool = False


_STATED = "that of quantising as the precision defines"
RULES: dict[str, Rule] = {
    "exact": Rule(TOLERANCE_FACTOR, TOLERANCE_ULPS),
    "rounded": Rule(ROUNDED_FACTOR, ROUNDED_UNITS, pools_steps=True),
    "quantised": Rule(TOLERANCE_FACTOR, TOLERANCE_ULPS, QUANTISED_LEAST),
    "recipe": Rule(ROUNDED_FACTOR, TOLERANCE_ULPS, QUANTISED_LEAST, pools_steps=True),
    "dynamic": Rule(ROUNDED_FACTOR, TOLERANCE_ULPS, DYNAMIC_LEAST, pools_steps=True),
    "own weights": Rule(OWN_FACTOR, TOLERANCE_ULPS, QUANTISED_LEAST, OWN_MOST, _STATED),
    "own activations": Rule(OWN_ACTIVATIONS_FACTOR, TOLERANCE_ULPS, DYNAMIC_LEAST, OWN_MOST, _STATED),
}
"""Name of a rule -> the rule. `suites.harness.declare.precision.choose_rule` gives one to each precision and to
recipes. The rules ``own ...`` are for `apply_rules`: they are for backends that quantise in ways of their own."""

_EPSILON = {"bfloat16": 2.0**-7, "float16": 2.0**-10, "float32": 2.0**-23, "complex64": 2.0**-23}
"""Spacing of floating-point numbers near 1; of complex numbers, that of their parts."""
_EXACT = 2.0**-52
"""The same of float64, in which other outputs compare exactly."""


@dataclass(frozen=True)
class Difference:
    """How far one array is from another. `reason` is set where they cannot be compared by numbers."""

    relative: float
    max_abs: float
    reason: str | None = None


@dataclass(frozen=True)
class Reference:
    """The right outputs for one input set.

    Attributes:
        outputs: float64 where the model's are floating, otherwise as they are.
        dtypes: dtype names of eager's outputs.
        eager_errors: relative error of each of eager's outputs; None where `outputs` are eager's own. After
            `apply_rules` the error that quantising makes.
        note: why there is no float64 reference, who computed it instead of eager or `onnx.reference`, which other
            outputs are right, or which inputs are the same in every call.
        rule: name of the rule of the tolerance, see `RULES`.
        unquantised: of a quantised case the outputs of the model as it is, float64 where they are floating; else None.
        state: buffers that the model writes to. Each call starts from their first values.
        weight_bytes: bytes of the parameters and buffers of the model.
        unfused: the outputs without torch's fused encoder layer, which are right, too; None if they do not differ.
    """

    outputs: Sequence[np.ndarray]
    dtypes: Sequence[str]
    eager_errors: Sequence[float] | None
    note: str | None
    rule: str = "exact"
    unquantised: Sequence[np.ndarray] | None = None
    state: tuple[str, ...] = ()
    weight_bytes: int = 0
    unfused: Sequence[np.ndarray] | None = None

    def tolerance(self, index: int) -> float:
        """The relative error that output `index` may have."""
        rule, epsilon = RULES[self.rule], _EPSILON.get(self.dtypes[index])
        least = rule.units * _EXACT if epsilon is None else max(rule.units * epsilon, rule.least)
        if self.eager_errors is None:
            return max(OWN_DTYPE_TOLERANCE, least)
        error = self.eager_errors[index]
        if rule.pools_steps:
            error = max(error, self._pooled_error(index))
        return min(max(rule.factor * error, least), rule.most)

    def _pooled_error(self, index: int) -> float:
        """Root mean square of eager's errors over the outputs that have the shape and type of output `index`."""
        assert self.eager_errors is not None  # noqa: S101  # asked by `tolerance` only then
        kind = self.outputs[index].shape, self.dtypes[index]
        alike = zip(self.outputs, self.dtypes, self.eager_errors, strict=True)
        errors = np.array([error for output, dtype, error in alike if (output.shape, dtype) == kind])
        return float(np.sqrt((errors**2).mean()))


@dataclass(frozen=True)
class Verdict:
    """Worst errors over the outputs; `reason` says what is wrong, None where all is right."""

    relative: float
    max_abs: float
    reason: str | None


def compare(output: np.ndarray, reference: np.ndarray) -> Difference:
    """Difference of two arrays of the same meaning; places where both are NaN, or the same Inf, agree.

    The real and the imaginary parts of complex numbers are compared as two numbers.
    """
    if output.shape != reference.shape:
        return Difference(np.inf, np.inf, f"shape {output.shape}, expected {reference.shape}")
    if np.iscomplexobj(output) or np.iscomplexobj(reference):
        output, reference = _split_complex(output), _split_complex(reference)
    out = output.astype(np.float64)
    ref = reference.astype(np.float64)
    for name, test in (("NaN", np.isnan), ("+Inf", np.isposinf), ("-Inf", np.isneginf)):
        wrong = int(np.count_nonzero(test(out) != test(ref)))
        if wrong:
            return Difference(np.inf, np.inf, f"{name} where the reference has none or the reverse: {wrong} elements")
    finite = np.isfinite(ref)
    if ref.size and not finite.any():
        return Difference(np.inf, np.inf, "the reference has no finite number: nothing can be compared")
    gap = out[finite] - ref[finite]
    distance, size = float(np.linalg.norm(gap)), float(np.linalg.norm(ref[finite]))
    relative = distance / size if size else (np.inf if distance else 0.0)
    return Difference(relative, float(np.abs(gap).max(initial=0.0)))


def _split_complex(array: np.ndarray) -> np.ndarray:
    """Real and imaginary parts of `array` along a new last axis of 2."""
    return np.stack([array.real, array.imag], axis=-1)


def amplifies(references: Sequence[Reference]) -> bool:
    """True where eager's own error is above what the rule of a quantised case allows at most, in any input set.

    The model then amplifies rounding so much that results of one definition of quantising are as far from each other as
    from the model that is not quantised.
    """
    return any(
        one.unquantised is not None and max(one.eager_errors or (0.0,)) > RULES[one.rule].most for one in references
    )


def apply_rules(references: Sequence[Reference], rule: str | None) -> Sequence[Reference]:
    """What a backend that quantises in a way of its own is compared with: outputs of the model that is not quantised.

    So is every backend where the model of the case `amplifies` rounding.

    The error that each states for an output is the largest one of its call when the model is quantised as the precision
    defines: which of the outputs quantising changes most is chance, and differs between schemes.

    Args:
        references: of a quantised case, one for each input set.
        rule: ``own weights`` or ``own activations``; None: that of the case's precision, so `references` themselves.
    """
    if rule is None and not amplifies(references):
        return references
    return [_compare_with_unquantised(one, rule or "own weights") for one in references]


def _compare_with_unquantised(reference: Reference, rule: str) -> Reference:
    plain = reference.unquantised
    if plain is None:
        raise ValueError("a reference without the outputs of the unquantised model judges no scheme of quantising")
    errors = [compare(one, other).relative for one, other in zip(reference.outputs, plain, strict=True)]
    worst = [max(errors, default=0.0)] * len(errors)
    return replace(reference, outputs=plain, eager_errors=worst, rule=rule)


def describe_incomparable(references: Sequence[Reference]) -> str | None:
    """Why every answer would be wrong beside these references, and what to do; None if an answer can be right."""
    for one in references:
        if not one.outputs:
            return "it returns no tensor, so nothing can be verified; let it return the tensors that it computes"
        if not any(output.size for output in one.outputs):
            return "its outputs have no elements, so nothing can be verified; choose larger sizes"
        for index, output in enumerate(one.outputs):
            if output.size and not np.isfinite(output).any():
                return (
                    f"output {index} has no finite number, so nothing can be verified; choose weights and inputs from "
                    "which it computes finite ones"
                )
    return None


def describe_change(first: Sequence[np.ndarray], again: Sequence[np.ndarray], reference: Reference) -> str | None:
    """How the outputs of two calls with the same inputs differ by more than an error may be; None if they do not."""
    pairs = zip(first, again, strict=False)  # of other counts and shapes `check` tells
    for index, found in enumerate(compare(one, other) for one, other in pairs):
        if found.reason is None and found.relative > reference.tolerance(index):
            return f"two calls with the same inputs differ (output {index} by {found.relative:.0%})"
    return None


def check(outputs: Sequence[np.ndarray], dtypes: Sequence[str], reference: Reference) -> Verdict:
    """The verdict on all outputs of one call. With two right answers, all outputs must agree with the same one."""
    found = _check(outputs, dtypes, reference)
    if found.reason is not None and reference.unfused is not None:
        other = _check(outputs, dtypes, replace(reference, outputs=reference.unfused))
        return found if other.reason is not None else other
    return found


def _check(outputs: Sequence[np.ndarray], dtypes: Sequence[str], reference: Reference) -> Verdict:
    if len(outputs) != len(reference.outputs):
        return Verdict(np.inf, np.inf, f"{len(outputs)} outputs, expected {len(reference.outputs)}")
    if not any(output.size for output in reference.outputs):
        what = "its outputs have no elements" if reference.outputs else "the model returns no tensor"
        return Verdict(0.0, 0.0, f"{what}, so nothing can be verified")
    relative = max_abs = 0.0
    reason = None
    for index, (output, expected) in enumerate(zip(outputs, reference.outputs, strict=True)):
        found = compare(output, expected)
        relative, max_abs = max(relative, found.relative), max(max_abs, found.max_abs)
        if reason is None:
            reason = _problem(index, found, dtypes[index], reference)
    return Verdict(relative, max_abs, reason)


def _problem(index: int, found: Difference, dtype: str, reference: Reference) -> str | None:
    if found.reason is not None:
        return f"output {index}: {found.reason}"
    if dtype != reference.dtypes[index]:
        return f"output {index}: dtype {dtype}, expected {reference.dtypes[index]}"
    allowed = reference.tolerance(index)
    if found.relative > allowed:
        own = None if reference.eager_errors is None else reference.eager_errors[index]
        text = f"output {index}: relative error {found.relative:.2e}, allowed {allowed:.2e}"
        rule = RULES[reference.rule]
        is_hopeless = own is not None and own > rule.most  # of a model that draws random numbers, say
        return f"{text}; {rule.stated} is {own:.2e}, so nothing can be verified" if is_hopeless else text
    return None


def accuracy(results: Sequence[Sequence[np.ndarray]], references: Sequence[Reference]) -> Accuracy | None:
    """How far outputs are from those of the unquantised model; None where that was not computed.

    Args:
        results: outputs of one call for each input set.
        references: one for each input set.

    Returns:
        relative, max_abs: as of `compare`, the worst over outputs and input sets.
        agreement: share of the positions of the largest element along the last axis that agree, over all input sets and
            all floating-point outputs with at least two elements there; None where there is no such output.
    """
    if any(
        one.unquantised is None or len(one.unquantised) != len(mine)
        for one, mine in zip(references, results, strict=True)
    ):
        return None
    pairs = [
        pair
        for one, mine in zip(references, results, strict=True)
        for pair in zip(mine, one.unquantised or (), strict=True)
    ]
    found = [compare(output, plain) for output, plain in pairs]
    agreed = [
        output.argmax(-1).ravel() == plain.argmax(-1).ravel() for output, plain in pairs if _has_choice(output, plain)
    ]
    return Accuracy(
        relative=max((one.relative for one in found), default=0.0),
        max_abs=max((one.max_abs for one in found), default=0.0),
        agreement=float(np.concatenate(agreed).mean()) if agreed else None,
    )


def _has_choice(output: np.ndarray, plain: np.ndarray) -> bool:
    """True where the largest element along the last axis means something."""
    return (
        output.shape == plain.shape
        and plain.dtype.kind == "f"
        and plain.size > 0
        and plain.ndim > 0
        and plain.shape[-1] > 1
    )
