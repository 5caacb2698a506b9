"""One module a measurement: what it reads, and how it is measured."""
