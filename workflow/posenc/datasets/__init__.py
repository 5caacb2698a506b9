"""Raw text to documents: fetch or generate the raw file, parse it, clean it, store it.

``names`` says what the raw file is called, and ``fetch`` fetches it. ``streams`` says what it is by
its contents, ``members`` reads archives and folders, ``tables`` whatever has rows; ``imdb``,
``truthfulqa``, ``tatoeba`` and ``lines`` make documents of them; ``look`` says which. ``documents``
cleans, stores, reads and selects. Nothing here imports torch.
"""
