"""What each ATen overload means in graph ops, one family a file. Importing this fills `registry.HANDLERS`."""

from engine.exporter.aten import (
    activation,
    channel_norm,
    conv,
    creation,
    indexing,
    linear,
    norm,
    pointwise,
    pool,
    reduction,
    refusals,
    resample,
    shape,
)

FAMILIES = (
    *(activation, channel_norm, conv, creation, indexing, linear, norm),
    *(pointwise, pool, reduction, refusals, resample, shape),
)
