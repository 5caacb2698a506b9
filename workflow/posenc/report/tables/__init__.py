"""Tables of the documents, as LaTeX and for the page."""
