"""A model run under conditions: interventions, forward passes, evaluation, learning of masks."""
