"""Who runs a program. Each executor sees the artifact, the op table and its own kernels; none sees the exporter."""
