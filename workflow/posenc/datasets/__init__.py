"""Raw text to documents, and documents to ids: fetch or generate, parse, clean, store, tokenize.

``names`` says what the raw file is called, and ``fetch`` fetches it. ``streams`` says what it is by
its contents, ``members`` reads archives and folders, ``tables`` whatever has rows; ``imdb``,
``truthfulqa``, ``tatoeba`` and ``lines`` make documents of them; ``look`` says which. ``documents``
cleans, stores, reads and selects. ``tokenize`` makes ids of documents, ``packing`` rows of ids.
Nothing here imports torch.
"""
