"""``params.yaml`` as typed sections, one module a section, so that a step imports only its own."""
