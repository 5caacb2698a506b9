"""Questions with right and wrong answers, by condition: MC1 and MC2 of TruthfulQA (A5, F4)."""
