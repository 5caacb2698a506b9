"""What a document has beside its text, by format."""

from __future__ import annotations

from typing import Required, TypedDict


class Document(TypedDict, total=False):
    """A text with what its format says of it."""

    document_id: Required[str]
    """Begins with the split."""
    split: Required[str]
    text: Required[str]
    label: str | None
    """``neg`` or ``pos``; None for a review without a label."""
    rating: int | None
    """From 1 to 10; None where it is withheld."""
    file: str
    """That holds the text, in a folder or archive."""
    category: str | None
    """Of a question, as are all that follow."""
    type: str | None
    best_answer: str | None
    correct_answers: list[str] | None
    incorrect_answers: list[str] | None
    source: str | None
