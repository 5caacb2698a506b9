"""What holds for all tests."""

import hypothesis

# No test is timed: a machine may be busy.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")
