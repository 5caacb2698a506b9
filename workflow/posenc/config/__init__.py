"""``params.yaml`` as typed sections, one module per section: a step imports only its own."""
