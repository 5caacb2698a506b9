"""The figures of the documents, one module per figure.

Each module holds a pure ``draw(measurements, figure, style)``, which arranges numbers and computes
none, and ``main``, the command that reads the measurements, draws, and writes the files. ``figure``
and ``style`` are sections of ``params.yaml``. To add a figure: copy the shortest module, and give
it an entry in ``posenc.figures.catalogue``.
"""
