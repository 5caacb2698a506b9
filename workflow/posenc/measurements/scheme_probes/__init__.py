"""The probes of :mod:`posenc.measurements.probes`, of decoders with another scheme (B4)."""
