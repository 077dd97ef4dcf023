"""What each ATen overload means in graph ops, one family a file. Importing this fills `registry.HANDLERS`."""

from engine.exporter.aten import activation, creation, indexing, linear, norm, pointwise, reduction, refusals, shape

FAMILIES = (activation, creation, indexing, linear, norm, pointwise, reduction, refusals, shape)
