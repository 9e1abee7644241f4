"""Settings of property tests: the same examples in every run, unless the nightly job asks for new ones."""

from hypothesis import settings

# No deadline: a loaded machine is no error. `--hypothesis-profile=rotating --hypothesis-seed=N` draws other examples.
settings.register_profile("fixed", derandomize=True, deadline=None)
settings.register_profile("rotating", deadline=None, print_blob=True, max_examples=500)
settings.load_profile("fixed")
