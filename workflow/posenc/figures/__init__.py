"""Figures of several measurements, one module per figure, and the catalogue of all figures.

Each module holds a pure ``draw(measurements, figure, style)``, which arranges numbers and computes
none, and ``main``, the command that reads the measurements, draws, and writes the files. ``figure``
and ``style`` are sections of ``params.yaml``. The figure of a single measurement is in that
measurement's folder. To add one here: copy the shortest module, and give it an exhibit in
``posenc.figures.catalogue``.
"""
