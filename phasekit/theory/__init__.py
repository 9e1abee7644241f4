"""All that is computed without drawing a number: effective actions, their minima, where these change, and laws."""
