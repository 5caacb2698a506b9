"""Raw text to documents: fetch or generate the raw file, parse it, clean it, store it.

``names`` says what the raw file is called, ``fetch`` fetches it, ``imdb`` and ``truthfulqa`` parse
it, ``documents`` cleans, stores, reads and selects. Nothing here imports torch.
"""
