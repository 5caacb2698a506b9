"""``params.yaml`` as typed sections, one module per section, so that a step imports only its own."""
