"""What each ATen overload means in graph ops, one family a file. Importing this fills `handlers.HANDLERS`."""

from engine.exporter.aten import (
    activation,
    channel_norm,
    conv,
    creation,
    indexing,
    linear,
    norm,
    order,
    own,
    pointwise,
    pool,
    quantised,
    reduction,
    refusals,
    resample,
    shape,
    writing,
)

FAMILIES = (
    *(activation, channel_norm, conv, creation, indexing, linear, norm, order, own),
    *(pointwise, pool, quantised, reduction, refusals, resample, shape, writing),
)
